"""A disk in memory that forgets what was not synced, tears writes, fills up and fails.

Per file it keeps the synced content and the list of changes since; per directory the
synced names and the list of changes since.  `crash` lets any of them survive.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from magnetar_storage.errors import DataDirLocked, DiskFull, Unavailable

Survives = Callable[[int], int]
"""Given how many ways there are, which one the crash takes (0 <= answer < ways)."""


class Crash(BaseException):
    """The machine stops here."""


@dataclass
class Content:
    """A file's bytes: as synced, as seen, and the changes between the two."""

    synced: bytearray = field(default_factory=bytearray)
    seen: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int, bytes] | int] = field(default_factory=list)
    """Writes as (offset, data), truncations as a size."""

    def change(self, change: tuple[int, bytes] | int) -> None:
        _apply(self.seen, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.synced = bytearray(self.seen)
        self.changes.clear()

    def crash(self, survives: Survives) -> None:
        """Keep any of the unsynced changes, in any order, each write torn anywhere."""
        changes, self.changes = self.changes, []
        while changes:
            change = changes.pop(survives(len(changes)))
            if isinstance(change, int):
                if survives(2):
                    _apply(self.synced, change)
                continue
            offset, data = change
            kept = (0, len(data), survives(len(data) + 1))[survives(3)]
            if survives(2):
                _apply(self.synced, (offset, data[:kept]))
            elif kept < len(data):
                _apply(self.synced, (offset + kept, data[kept:]))
        self.seen = bytearray(self.synced)


def _apply(data: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        if change < len(data):
            del data[change:]
        else:
            data.extend(bytes(change - len(data)))
        return
    offset, written = change
    if not written:
        return
    if offset > len(data):
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(written)] = written


def seeded(seed: int) -> Survives:
    """Survival by a seeded dice."""
    dice = random.Random(seed)
    return dice.randrange


def nothing(ways: int) -> int:
    """No unsynced change survives."""
    return 0


class FaultyFile:
    """An open file of a `FaultyDisk`."""

    def __init__(self, disk: "FaultyDisk", name: str, content: Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._disk.operation("write", self._name)
        data = b"".join(buffers)
        room = self._disk.room - max(0, offset + len(data) - len(self._content.seen))
        if room < 0:
            self._content.change((offset, data[: max(0, len(data) + room)]))
            self._disk.room = 0
            raise DiskFull(f"no room to write {self._name}: free some space")
        self._disk.room = room
        self._content.change((offset, data))

    def read(self, offset: int, size: int) -> bytes:
        self._disk.check_alive()
        return bytes(self._content.seen[offset : offset + size])

    def sync(self) -> None:
        self._disk.operation("sync", self._name)
        if self._disk.failing_syncs:
            self._disk.failing_syncs -= 1
            raise Unavailable(f"cannot sync {self._name}: it was told to fail")
        self._content.sync()

    def size(self) -> int:
        return len(self._content.seen)

    def truncate(self, size: int) -> None:
        self._disk.operation("truncate", self._name)
        self._content.change(size)

    def allocate(self, size: int) -> None:
        self._disk.operation("allocate", self._name)
        more = max(0, size - len(self._content.seen))
        if more > self._disk.room:
            raise DiskFull(f"no room to reserve for {self._name}")
        self._disk.room -= more
        if more:
            self._content.change(size)

    def close(self) -> None:
        """Nothing is held."""


class HeldLock:
    """The lock of a `FaultyDisk`."""

    def __init__(self, disk: "FaultyDisk", name: str) -> None:
        self._disk = disk
        self._name = name

    def close(self) -> None:
        self._disk.locks.discard(self._name)


class FaultyDisk:
    """Implements `magnetar_storage.disk.Disk`."""

    def __init__(self) -> None:
        self.operations = 0
        self.crash_at: int | None = None
        """The operation (counted from 0) at which `Crash` is raised, before it happens."""
        self.failing_syncs = 0
        """How many syncs from now on fail."""
        self.room = 1 << 40
        """Bytes until the disk is full."""
        self.dead = False
        self.locks: set[str] = set()
        self.log: list[str] = []
        self._names: dict[str, Content] = {}
        self._synced_names: dict[str, Content] = {}
        self._changes: dict[str, list[tuple[str, Content | None]]] = {}

    def operation(self, what: str, name: str) -> None:
        """Count a change to the disk; the chosen one stops the machine instead."""
        self.check_alive()
        if self.operations == self.crash_at:
            self.dead = True
            raise Crash(f"operation {self.operations}: {what} {name}")
        self.operations += 1
        self.log.append(f"{what} {name}")

    def check_alive(self) -> None:
        if self.dead:
            raise Crash("the machine has stopped")

    def crash(self, survives: Survives) -> None:
        """Stop and start the machine: everything not synced may or may not be there."""
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            for group in changes[: survives(len(changes) + 1)]:
                self._put(self._synced_names, group)
        self._changes.clear()
        self._names = dict(self._synced_names)
        for content in {id(one): one for one in self._names.values()}.values():
            content.crash(survives)
        self.dead, self.crash_at = False, None
        self.locks.clear()

    def content(self, name: str) -> bytes:
        return bytes(self._names[name].seen)

    def replace_content(self, name: str, data: bytes) -> None:
        """Rot: the content is something else from now on."""
        content = self._names[name]
        content.seen = bytearray(data)
        content.sync()

    def flip_bit(self, name: str, offset: int, bit: int = 0) -> None:
        data = bytearray(self.content(name))
        data[offset] ^= 1 << bit
        self.replace_content(name, bytes(data))

    def names(self) -> list[str]:
        return sorted(self._names)

    def copy(self) -> "FaultyDisk":
        """A disk with the same synced and seen content, all of it synced."""
        twin = FaultyDisk()
        for name, content in self._names.items():
            twin._names[name] = Content(bytearray(content.seen), bytearray(content.seen))
        twin._synced_names = dict(twin._names)
        return twin

    def open(self, name: str, create: bool = False) -> FaultyFile:
        self.check_alive()
        if name not in self._names:
            if not create:
                raise FileNotFoundError(name)
            self.operation("create", name)
            self._change(name, Content())
        return FaultyFile(self, name, self._names[name])

    def rename(self, old: str, new: str) -> None:
        self.operation("rename", f"{old} {new}")
        content = self._names[old]
        assert _directory(old) == _directory(new), "renames stay within a directory"
        self._rename(old, new, content)

    def remove(self, name: str) -> None:
        if name in self._names:
            self.operation("remove", name)
            self._change(name, None)

    def list(self, directory: str) -> list[str]:
        self.check_alive()
        prefix = f"{directory}/" if directory else ""
        inside = [name[len(prefix) :] for name in self._names if name.startswith(prefix)]
        return sorted(name for name in inside if "/" not in name)

    def make_dir(self, directory: str) -> None:
        """Directories exist by themselves."""

    def sync_dir(self, directory: str) -> None:
        self.operation("sync_dir", directory)
        if self.failing_syncs:
            self.failing_syncs -= 1
            raise Unavailable(f"cannot sync {directory}: it was told to fail")
        for change in self._changes.pop(directory, []):
            self._put(self._synced_names, change)

    def lock(self, name: str) -> HeldLock:
        if name in self.locks:
            raise DataDirLocked(f"{name} is held")
        self.locks.add(name)
        return HeldLock(self, name)

    def path_of(self, name: str) -> str:
        raise NotImplementedError("this disk has no paths")

    def _change(self, name: str, content: Content | None) -> None:
        change = (name, content)
        self._put(self._names, change)
        self._changes.setdefault(_directory(name), []).append(change)

    def _rename(self, old: str, new: str, content: Content) -> None:
        self._change(f"{old}\0{new}", content)

    @staticmethod
    def _put(names: dict[str, Content], change: tuple[str, Content | None]) -> None:
        name, content = change
        if content is None:
            names.pop(name, None)
            return
        old, _, new = name.partition("\0")
        if new:
            names.pop(old, None)
        names[new or old] = content


def _directory(name: str) -> str:
    return name.partition("\0")[0].rpartition("/")[0]
