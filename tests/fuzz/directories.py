"""Data directories whose files say something else than what was written."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import Machine
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.limits import Limits
from magnetar_storage.record import HEADER
from magnetar_storage.rounds import FIRST_ROUND_AT, ROUND_HEADER, ROUND_MAGIC

BETWEEN: Final = b"\xf0\x9f\x8d\xba"
"""Between the contents of two files; a mark is easier to get right by chance than a size."""
SMALL: Final = Limits(
    journal_file_bytes=700,
    round_bytes=400,
    write_behind_bytes=300,
    unwritten_bytes=4096,
    checkpoint_bytes=1500,
    loaded_segments=2,
)
ALL_IN_JOURNAL: Final = Limits(
    journal_file_bytes=900, round_bytes=400, write_behind_bytes=1 << 20, checkpoint_bytes=1 << 20
)
MOST_ENTRIES: Final = 1000
"""That are read of one segment."""

Entries = dict[int, list[tuple[bytes, int]]]
"""Payload and number of messages of each entry, by segment."""


@dataclass(frozen=True)
class Base:
    """A directory as a store left it, and what is in it."""

    disk: FaultyDisk
    entries: Entries
    limits: Limits

    def files(self, directory: str) -> list[str]:
        return [name for name in self.disk.names() if name.startswith(directory)]

    def contents(self, names: list[str]) -> bytes:
        """The contents of some files as an input has them."""
        return BETWEEN.join(self.disk.content(name).rstrip(b"\0") for name in names)


def base(limits: Limits, tidy: bool) -> Base:
    """Three segments, one of them sealed; `tidy`: the store was closed, else it was killed."""
    machine = Machine(limits=limits)
    machine.open()
    segments = [machine.create() for _ in range(3)]
    for turn in range(4):
        machine.append(segments[0], [b"%d" % turn] * 3, [1, 2, 1])
        machine.append(segments[1], [b"second %d" % turn], [1])
        machine.pump()
    machine.append(segments[2], [b"a", b"", b"c" * 70], [1, 1, 9])
    machine.seal(segments[2])
    machine.append(segments[1], [b"last"], [1])
    machine.pump()
    if tidy:
        machine.seal(segments[0])
        machine.close()
    entries = {segment: truth.appended for segment, truth in machine.truths.items()}
    return Base(machine.disk.copy(), entries, limits)


def replaced(of: Base, names: list[str], contents: list[bytes]) -> FaultyDisk:
    """The directory with other contents of these files; more contents than names go nowhere."""
    disk = of.disk.copy()
    for name, content in zip(names, contents, strict=False):
        disk.open(name, create=True)
        disk.sync_dir(name.rpartition("/")[0])
        disk.replace_content(name, content)
    return disk


def check(of: Base, disk: FaultyDisk, forged: bool) -> None:
    """Opening is refused, or all that can be read is as it was written, now and for ever.

    `forged`: checksums were set right, so what is read may be other than what was written.
    """
    machine = Machine(disk, of.limits)
    try:
        machine.open()
    except StorageError:
        return
    found = readable(machine)
    if not forged:
        for segment, entries in found.items():
            written = of.entries.get(segment, [])
            assert all(written[at : at + 1] == [entry] for at, entry in entries.items()), segment
    recovered = {segment: settled(machine, segment) for segment in found}
    machine.check_still_works()
    before = machine.disk.copy()
    machine.close()
    for later in (machine.disk, before):
        again = Machine(later, of.limits)
        again.open()
        assert readable(again).items() >= found.items(), "read once, and not again"
        for segment, end in recovered.items():
            assert end is None or settled(again, segment) == end, "an end that was settled moved"


def readable(machine: Machine) -> dict[int, dict[int, tuple[bytes, int]]]:
    """All entries that can be read, by segment and number."""

    async def listed() -> list[int]:
        return [segment async for segment in machine.store.segments()]

    return {segment: entries_of(machine, segment) for segment in machine.do(listed())}


def entries_of(machine: Machine, segment: int) -> dict[int, tuple[bytes, int]]:
    found: dict[int, tuple[bytes, int]] = {}
    try:
        reader = machine.do(machine.store.reader(segment))
    except (Corrupt, NoSegment):
        return found
    at = 0
    while at < MOST_ENTRIES:
        try:
            run = machine.do(reader.read(at, 2, 1 << 20))
        except Corrupt as error:
            at = at + 1 if error.last_entry is None else max(at, error.last_entry) + 1
            continue
        if not run.payloads:
            break
        assert run.first == at and len(run.payloads) == len(run.counts)
        found.update(enumerate(zip(run.payloads, run.counts, strict=True), at))
        at += len(run.payloads)
    return found


def settled(machine: Machine, segment: int) -> tuple[int, int, int] | None:
    """The segment's end; None if it cannot be told."""
    try:
        return machine.do(machine.store.recover(segment))
    except (Corrupt, NoSegment):
        return None


# Setting checksums right ----------------------------------------------------------------


def summed(data: bytes, at: int, start: int, end: int, seed: int = 0) -> bytes:
    """The data with the checksum of data[start:end] at a place."""
    if end > len(data) or at + 4 > len(data):
        return data
    crc = crc32c(data[start:end], seed).to_bytes(4, "little")
    return data[:at] + crc + data[at + 4 :]


def with_records(data: bytes, at: int) -> bytes:
    """The same with right checksums in the records that follow each other from a place on."""
    while at + HEADER.size <= len(data):
        size = HEADER.size + int.from_bytes(data[at + 8 : at + 12], "little")
        if at + size > len(data):
            break
        data = summed(data, at, at + 4, at + size)
        at += size
    return data


def with_rounds(data: bytes) -> bytes:
    """A journal file with right checksums in its head, its rounds and their records."""
    data = summed(data, FIRST_ROUND_AT - 4, 0, FIRST_ROUND_AT - 4)
    seed = int.from_bytes(data[FIRST_ROUND_AT - 4 : FIRST_ROUND_AT], "little")
    for at in places(data, ROUND_MAGIC):
        if at + ROUND_HEADER.size <= len(data):
            records = int.from_bytes(data[at + 16 : at + 20], "little")
            start = at + ROUND_HEADER.size + 16 * records
            size = int.from_bytes(data[at + 24 : at + 32], "little")
            if start + size <= len(data):
                within = with_records(data[start : start + size], 0)
                data = data[:start] + within + data[start + size :]
                data = summed(data, at + 4, at + 8, start, seed)
    return data


def places(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)
