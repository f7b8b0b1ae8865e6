"""A disk whose changes stay in memory: the disk under it is only read.

A store can be opened, recovered and written to on an `Overlay` without any effect on the disk.
"""

import sys
from collections.abc import Sequence

from magnetar_storage.runtime.disk import Lock, ReadableDisk, Space
from magnetar_storage.runtime.whole_files import file_size


class Overlay:
    """A `Disk` on top of a `ReadableDisk`."""

    def __init__(self, below: ReadableDisk) -> None:
        self._below = below
        self._files: dict[str, OverlayFile | None] = {}
        """Files that were changed; None for removed ones."""

    def open(self, name: str, create: bool = False) -> "OverlayFile":
        file = self._files.get(name)
        if file is None:
            file = self._opened(name, create)
            self._files[name] = file
        return file

    def _opened(self, name: str, create: bool) -> "OverlayFile":
        if name not in self._files:
            try:
                return OverlayFile(self._below, name, file_size(self._below, name))
            except FileNotFoundError:
                if not create:
                    raise
        elif not create:
            raise FileNotFoundError(name)
        return OverlayFile(self._below, name, 0)

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self.open(old)
        self._files[old] = None

    def link(self, name: str, other: str) -> None:
        self._files[other] = self.open(name)

    def remove(self, name: str) -> None:
        self._files[name] = None

    def list(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        names = set(self._below.list(directory))
        for path, file in self._files.items():
            name, _, inside = path.removeprefix(prefix).partition("/")
            if path.startswith(prefix) and (file is not None or not inside):
                (names.discard if file is None else names.add)(name)
        return sorted(names)

    def sizes(self, directory: str) -> dict[str, int]:
        prefix = f"{directory}/" if directory else ""
        sizes = self._below.sizes(directory)
        for path, file in self._files.items():
            name = path.removeprefix(prefix)
            if path.startswith(prefix) and "/" not in name:
                sizes.pop(name, None)
                if file is not None:
                    sizes[name] = file.size()
        return sizes

    def make_dir(self, directory: str) -> None:
        """Do nothing: a directory exists if a file is in it."""

    def sync_dir(self, directory: str) -> None:
        """Do nothing: nothing here is durable."""

    def space(self) -> Space:
        """Return unlimited space: nothing is written."""
        return Space(sys.maxsize, sys.maxsize)

    def lock(self, name: str) -> Lock:
        return self._below.lock(name)

    def path_of(self, name: str) -> str:
        return self._below.path_of(name)


class OverlayFile:
    """A file that begins like a file of the disk below, and continues in memory."""

    def __init__(self, below: ReadableDisk, name: str, size: int) -> None:
        self._below = below
        self._name = name
        self._kept = size
        """The number of bytes that are read from the file below."""
        self._rest = bytearray()

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        data = b"".join(buffers)
        if not data:
            return  # an empty write does not extend a file
        self._own_from(offset)
        start = offset - self._kept
        self._rest.extend(bytes(max(0, start - len(self._rest))))
        self._rest[start : start + len(data)] = data

    def write_uncached(self, offset: int, buffers: Sequence[bytes]) -> None:
        self.write(offset, buffers)

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        self.write(offset, buffers)

    def read(self, offset: int, size: int) -> bytes:
        kept = max(0, min(size, self._kept - offset))
        start = max(0, offset - self._kept)
        rest = bytes(self._rest[start : start + size - kept])
        return self._read_below(offset, kept) + rest if kept else rest

    def sync(self) -> None:
        """Do nothing: nothing here is durable."""

    def size(self) -> int:
        return self._kept + len(self._rest)

    def truncate(self, size: int) -> None:
        self._kept = min(self._kept, size)
        del self._rest[max(0, size - self._kept) :]
        self._rest.extend(bytes(size - self.size()))

    def allocate(self, size: int) -> None:
        if size > self.size():
            self.truncate(size)

    def close(self) -> None:
        """Do nothing: files below are open only while they are read."""

    def _own_from(self, offset: int) -> None:
        """Copy everything from an offset on to memory."""
        if offset < self._kept:
            self._rest[:0] = self._read_below(offset, self._kept - offset)
            self._kept = offset

    def _read_below(self, offset: int, size: int) -> bytes:
        file = self._below.open(self._name)
        try:
            return file.read(offset, size)
        finally:
            file.close()
