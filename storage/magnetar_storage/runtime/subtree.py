"""A directory of a disk, used as a disk of its own."""

from magnetar_storage.runtime.disk import Disk, File, Lock, Space


class Subtree:
    """The `Disk` of everything in `directory` of another disk."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def open(self, name: str, create: bool = False) -> File:
        return self._disk.open(self._inside(name), create)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(self._inside(old), self._inside(new))

    def link(self, name: str, other: str) -> None:
        self._disk.link(self._inside(name), self._inside(other))

    def remove(self, name: str) -> None:
        self._disk.remove(self._inside(name))

    def list(self, directory: str) -> list[str]:
        return self._disk.list(self._inside(directory))

    def sizes(self, directory: str) -> dict[str, int]:
        return self._disk.sizes(self._inside(directory))

    def make_dir(self, directory: str) -> None:
        self._disk.make_dir(self._inside(directory))

    def sync_dir(self, directory: str) -> None:
        self._disk.sync_dir(self._inside(directory))

    def space(self) -> Space:
        # Of the whole file system, which the directories share.
        return self._disk.space()

    def lock(self, name: str) -> Lock:
        return self._disk.lock(self._inside(name))

    def path_of(self, name: str) -> str:
        return self._disk.path_of(self._inside(name))

    def _inside(self, name: str) -> str:
        # The root of the subtree has an empty name, as that of a disk.
        return f"{self._directory}/{name}" if name else self._directory
