"""A disk in memory that loses unsynced data, tears writes, fills up and fails.

For each file it keeps the synced content and the list of changes since; for each directory the
synced names and the list of changes since.  `crash` lets any of them survive; `fork` makes
a second disk with the same state, so that one history can be crashed in many places.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from magnetar_storage.errors import DataDirLocked, DiskFull, Unavailable
from magnetar_storage.runtime.disk import Space
from magnetar_storage.runtime.pieces import cut

ALIGNMENT, PIECE_BYTES = 64, 256
"""The sizes of uncached writes: so small that the small files of tests are written in pieces."""

Survives = Callable[[int], int]
"""Returns, for a number of outcomes, the one that the crash takes (0 <= answer < ways)."""


class Crash(BaseException):
    """Stops the machine at this point."""


Change = tuple[int, bytes] | int
"""A write as (offset, data), or a truncation or extension as a size."""


@dataclass
class Content:
    """The bytes of a file: as synced, as seen, and the changes between the two."""

    synced: bytearray = field(default_factory=bytearray)
    seen: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)
    """The changes since the last sync; any of them may survive a crash, in any order."""
    doubtful: list[tuple[Change, bool]] = field(default_factory=list)
    """Changes since the first failed sync, and whether a later sync guarantees each.

    As in real systems, no later sync writes the others again: they may or may not be on the disk.
    """

    def change(self, change: Change) -> None:
        _apply(self.seen, change)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            self._synced(change)
        self.changes.clear()

    def sync_last(self) -> None:
        """Sync the last write alone, with the changes that share bytes with it, and the size."""
        last = self.changes.pop()
        earlier, self.changes = self.changes, []
        for change in earlier:
            if isinstance(change, int) or _overlap(change, last):
                self._synced(change)
            else:
                self.changes.append(change)
        self._synced(last)

    def _synced(self, change: Change) -> None:
        if self.doubtful:
            self.doubtful.append((change, True))
        else:
            _apply(self.synced, change)

    def fail_to_sync(self) -> None:
        self.doubtful += [(change, False) for change in self.changes]
        self.changes.clear()

    def replace(self, data: bytes) -> None:
        """Replace the content durably."""
        self.synced, self.seen = bytearray(data), bytearray(data)
        self.changes.clear()
        self.doubtful.clear()

    def crash(self, survives: Survives) -> None:
        """Keep any of the unsynced changes, in any order, each write torn anywhere."""
        for change, certain in self.doubtful:
            if certain or survives(2):
                _apply(self.synced, change)
        changes = self.changes
        while changes:
            change = changes.pop(survives(len(changes)))
            for part in _torn(change, survives):
                _apply(self.synced, part)
        self.doubtful.clear()
        self.seen = bytearray(self.synced)

    def copy(self) -> "Content":
        return Content(
            bytearray(self.synced), bytearray(self.seen), self.changes[:], self.doubtful[:]
        )


def _torn(change: Change, survives: Survives) -> list[Change]:
    """Return the parts of an unsynced change that survive a crash."""
    if isinstance(change, int):
        return [change] if survives(2) else []
    offset, data = change
    match survives(4):
        case 0:
            return []
        case 1:
            cut = survives(len(data) + 1)
            return [(offset, data[:cut]) if survives(2) else (offset + cut, data[cut:])]
        case 2:
            size = max(1 + survives(64), len(data) // 16)
            parts = range(0, len(data), size)
            return [(offset + at, data[at : at + size]) for at in parts if survives(2)]
        case _:
            return [change]


def _overlap(one: tuple[int, bytes], other: Change) -> bool:
    assert not isinstance(other, int)
    return one[0] < other[0] + len(other[1]) and other[0] < one[0] + len(one[1])


def _apply(data: bytearray, change: Change) -> None:
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
    """Return random survival with this seed."""
    dice = random.Random(seed)
    return dice.randrange


def nothing(ways: int) -> int:
    """Let no unsynced change survive."""
    return 0


class NameChange(NamedTuple):
    """A change of names: a file gets a name (`new`), loses one (`old`), or both."""

    content: Content
    old: str | None
    new: str | None

    def apply(self, names: dict[str, Content]) -> None:
        if self.old is not None and names.get(self.old) is self.content:
            del names[self.old]
        if self.new is not None:
            names[self.new] = self.content


class FaultyFile:
    """An open file of a `FaultyDisk`."""

    def __init__(self, disk: "FaultyDisk", name: str, content: Content) -> None:
        self._disk = disk
        self._name = name
        self._content = content
        self._open = True
        self._start = disk.starts
        disk.open_files.add(self)

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        self._operation("write")
        data = b"".join(buffers)
        self._disk.count_room()
        room = self._disk.room - max(0, offset + len(data) - len(self._content.seen))
        if room < 0:
            self._content.change((offset, data[: max(0, len(data) + room)]))
            self._disk.room = 0
            raise DiskFull(f"no room to write {self._name}: free some space")
        self._disk.room = room
        self._content.change((offset, data))

    def write_uncached(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write in pieces, as a real file does: each may fail, or survive a crash, separately."""
        data = memoryview(b"".join(buffers))
        for piece in cut(offset, len(data), ALIGNMENT, PIECE_BYTES):
            start = piece.at - offset
            self.write(piece.at, [bytes(data[start : start + piece.size])])

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        self.write(offset, buffers)
        self._sync(self._content.sync_last)

    def read(self, offset: int, size: int) -> bytes:
        self._disk.look("read", self._name)
        return bytes(self._content.seen[offset : offset + size])

    def sync(self) -> None:
        self._sync(self._content.sync)

    def _sync(self, how: Callable[[], None]) -> None:
        self._operation("sync")
        if self._disk.failing_syncs:
            self._disk.failing_syncs -= 1
            self._content.fail_to_sync()
            raise Unavailable(f"cannot sync {self._name}: the test makes it fail")
        if self._disk.lies is None or not self._disk.lies("sync", self._name):
            how()

    def _operation(self, what: str) -> None:
        """Count an operation; raise Crash for handles from before a crash, which are invalid."""
        if self._start != self._disk.starts:
            raise Crash(f"{self._name} was opened before the crash")
        assert self._open, f"{self._name} was closed"
        self._disk.operation(what, self._name)

    def size(self) -> int:
        self._disk.look("look at", self._name)
        return len(self._content.seen)

    def truncate(self, size: int) -> None:
        self._operation("truncate")
        self._content.change(size)

    def allocate(self, size: int) -> None:
        self._operation("allocate")
        more = max(0, size - len(self._content.seen))
        self._disk.count_room()
        if more > self._disk.room:
            raise DiskFull(f"no room to reserve for {self._name}")
        self._disk.room -= more
        if more:
            self._content.change(size)

    def close(self) -> None:
        if self._start != self._disk.starts:
            return
        assert self._open, f"{self._name} was closed already"
        self._open = False
        self._disk.open_files.discard(self)


class HeldLock:
    """The lock of a `FaultyDisk`."""

    def __init__(self, disk: "FaultyDisk", name: str) -> None:
        self._disk = disk
        self._name = name
        self._start = disk.starts

    def close(self) -> None:
        if self._start == self._disk.starts:
            self._disk.locks.discard(self._name)


class FaultyDisk:
    """Implements `magnetar_storage.runtime.disk.Disk`."""

    def __init__(self) -> None:
        self.operations = 0
        self.crash_at: int | None = None
        """The operation, counted from 0, before which `Crash` is raised."""
        self.failing_syncs = 0
        """The number of following syncs that fail."""
        self.room = 1 << 40
        """The number of bytes until the disk is full."""
        self.capacity: int | None = None
        """The limit of bytes of all files, in place of `room`, which deletion does not increase."""
        self.dead = False
        self.starts = 0
        """The number of times the machine has crashed and restarted."""
        self.open_files: set[FaultyFile] = set()
        self.fault: Callable[[str, str], BaseException | None] | None = None
        """Called before every operation with its kind and the name; returns an error to raise."""
        self.lies: Callable[[str, str], bool] | None = None
        """Called with "sync" or "sync_dir" and the name; True makes the disk skip that sync."""
        self.before: Callable[[str, str], None] | None = None
        """Called before every change to the disk."""
        self.locks: set[str] = set()
        self.log: list[str] = []
        self._names: dict[str, Content] = {}
        self._synced_names: dict[str, Content] = {}
        self._changes: dict[str, list[NameChange]] = {}

    def operation(self, what: str, name: str) -> None:
        """Count a change to the disk; the chosen one stops the machine instead."""
        if self.before is not None:
            self.before(what, name)
        self.look(what, name)
        if self.operations == self.crash_at:
            self.dead = True
            raise Crash(f"operation {self.operations}: {what} {name}")
        self.operations += 1
        self.log.append(f"{what} {name}")

    def look(self, what: str, name: str) -> None:
        """Raise the error that the test wants, before an operation."""
        if self.dead:
            raise Crash("the machine has stopped")
        if self.fault is not None and (error := self.fault(what, name)) is not None:
            raise error

    def count_room(self) -> None:
        """Determine the free room, before a file grows."""
        if self.capacity is not None:
            files = {id(content): len(content.seen) for content in self._names.values()}
            self.room = max(0, self.capacity - sum(files.values()))

    def space(self) -> Space:
        self.look("look at", "")
        self.count_room()
        return Space(self.room, self.capacity or self.room)

    def crash(self, survives: Survives) -> None:
        """Stop and restart the machine: each unsynced change may or may not survive.

        Of the changes to a directory the first ones survive, or any in the order of each file.
        """
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            if survives(2):
                kept = _any_of(changes, survives)
            else:
                kept = changes[: survives(len(changes) + 1)]
            for change in kept:
                change.apply(self._synced_names)
        self._changes.clear()
        self._names = dict(self._synced_names)
        for content in {id(one): one for one in self._names.values()}.values():
            content.crash(survives)
        self.dead, self.crash_at = False, None
        self.starts += 1
        self.open_files.clear()
        self.locks.clear()

    def content(self, name: str) -> bytes:
        return bytes(self._names[name].seen)

    def replace_content(self, name: str, data: bytes) -> None:
        """Replace the content of a file, as by rot."""
        self._names[name].replace(data)

    def flip_bit(self, name: str, offset: int, bit: int = 0) -> None:
        self.flip(name, offset, 1 << bit)

    def flip(self, name: str, offset: int, mask: int) -> None:
        """Flip bits at one place, as by rot."""
        data = bytearray(self.content(name))
        data[offset] ^= mask
        self.replace_content(name, bytes(data))

    def names(self) -> list[str]:
        return sorted(self._names)

    def copy(self) -> "FaultyDisk":
        """Return a disk with the same content, all of it synced."""
        twin = FaultyDisk()
        for name, content in self._names.items():
            twin._names[name] = Content(bytearray(content.seen), bytearray(content.seen))
        twin._synced_names = dict(twin._names)
        return twin

    def fork(self) -> "FaultyDisk":
        """Return a second disk in the same state, with unsynced changes."""
        twin = FaultyDisk()
        copies: dict[int, Content] = {}

        def copied(content: Content) -> Content:
            if id(content) not in copies:
                copies[id(content)] = content.copy()
            return copies[id(content)]

        twin.room, twin.lies, twin.capacity = self.room, self.lies, self.capacity
        twin._names = {name: copied(content) for name, content in self._names.items()}
        twin._synced_names = {name: copied(one) for name, one in self._synced_names.items()}
        twin._changes = {
            directory: [NameChange(copied(one), old, new) for one, old, new in changes]
            for directory, changes in self._changes.items()
        }
        return twin

    def open(self, name: str, create: bool = False) -> FaultyFile:
        self.look("open", name)
        if name not in self._names:
            if not create:
                raise FileNotFoundError(name)
            self.operation("create", name)
            self._change(name, NameChange(Content(), None, name))
        return FaultyFile(self, name, self._names[name])

    def rename(self, old: str, new: str) -> None:
        self.operation("rename", f"{old} {new}")
        if old not in self._names:
            raise FileNotFoundError(old)
        content = self._names[old]
        assert _directory(old) == _directory(new), "renames stay within a directory"
        self._change(old, NameChange(content, old, new))

    def link(self, name: str, other: str) -> None:
        self.operation("link", f"{name} {other}")
        if name not in self._names:
            raise FileNotFoundError(name)
        self._change(other, NameChange(self._names[name], None, other))

    def remove(self, name: str) -> None:
        if name in self._names:
            self.operation("remove", name)
            self._change(name, NameChange(self._names[name], name, None))

    def list(self, directory: str) -> list[str]:
        self.look("list", directory)
        prefix = f"{directory}/" if directory else ""
        inside = [name[len(prefix) :] for name in self._names if name.startswith(prefix)]
        return sorted({name.partition("/")[0] for name in inside})

    def sizes(self, directory: str) -> dict[str, int]:
        self.look("list", directory)
        prefix = f"{directory}/" if directory else ""
        return {
            name[len(prefix) :]: len(content.seen)
            for name, content in self._names.items()
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        }

    def make_dir(self, directory: str) -> None:
        """Do nothing: directories need not be created."""

    def sync_dir(self, directory: str) -> None:
        self.operation("sync_dir", directory)
        if self.failing_syncs:
            self.failing_syncs -= 1
            raise Unavailable(f"cannot sync {directory}: the test makes it fail")
        if self.lies is not None and self.lies("sync_dir", directory):
            return
        for change in self._changes.pop(directory, []):
            change.apply(self._synced_names)

    def lock(self, name: str) -> HeldLock:
        if name in self.locks:
            raise DataDirLocked(f"{name} is held")
        self.locks.add(name)
        return HeldLock(self, name)

    def path_of(self, name: str) -> str:
        raise AssertionError(f"{name} has no path: this disk is in memory")

    def _change(self, name: str, change: NameChange) -> None:
        change.apply(self._names)
        self._changes.setdefault(_directory(name), []).append(change)


def _any_of(changes: list[NameChange], survives: Survives) -> list[NameChange]:
    """Choose any changes; after a lost change, later ones of the same file are lost too."""
    kept: list[NameChange] = []
    lost: set[int] = set()
    for change in changes:
        if id(change.content) not in lost and survives(2):
            kept.append(change)
        else:
            lost.add(id(change.content))
    return kept


def _directory(name: str) -> str:
    return name.rpartition("/")[0]
