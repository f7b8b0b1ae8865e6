"""Data directories whose files differ from what was written."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import Machine
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import CRC_BYTES, HEADER, SEAL, SEALED_BODY
from magnetar_storage.local.rounds import (
    DIRECTORY_BYTES_PER_RECORD,
    FIRST_ROUND_AT,
    ROUND_HEADER,
    ROUND_MAGIC,
    SUMMED_FROM,
)

BETWEEN: Final = b"\xf0\x9f\x8d\xba"
"""Between the contents of two files; a mark is easier to get right by chance than a size."""
SMALL: Final = Limits(
    journal_file_bytes=700,
    round_bytes=400,
    write_behind_bytes=300,
    small_flush_bytes=0,
    unwritten_bytes=4096,
    checkpoint_bytes=1500,
    loaded_segments=2,
)
ALL_IN_JOURNAL: Final = Limits(
    journal_file_bytes=900, round_bytes=400, write_behind_bytes=1 << 20, checkpoint_bytes=1 << 20
)
MOST_FORGED: Final = 1 << 14
"""Checksums are not set right where numbers are larger: no store writes so many entries here, and
believing them takes more memory than there is."""
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


def base(limits: Limits, tidy: bool, turns: int = 4) -> Base:
    """Three segments, one of them sealed; `tidy`: the store was closed, else it was killed.

    After many turns the journal's files are used again, and what they held shows.
    """
    machine = Machine(limits=limits)
    machine.open()
    segments = [machine.create() for _ in range(3)]
    for turn in range(turns):
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

    `forged`: checksums were set right, so the files may contain what no store would write.  Then
    the store only has to work or to refuse.
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
    try:
        machine.check_still_works()
    except StorageError:
        assert forged
        return
    killed = machine.disk.copy()
    machine.close()
    for later in (machine.disk, killed):
        again = Machine(later, of.limits)
        try:
            again.open()
        except StorageError as error:
            assert forged, f"opened once, and not again: {error}"
            continue
        if not forged:
            check_same(again, found, recovered)


def check_same(
    machine: Machine,
    found: dict[int, dict[int, tuple[bytes, int]]],
    recovered: dict[int, tuple[int, int, int] | None],
) -> None:
    """After the restart the same can be read and is settled as before."""
    assert readable(machine).items() >= found.items(), "read once, and not again"
    for segment, end in recovered.items():
        assert end is None or settled(machine, segment) == end, "an end that was settled moved"


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
        except NoSegment:
            break
        if not run.payloads:
            break
        assert run.first == at and len(run.payloads) == len(run.counts)
        found.update(enumerate(zip(run.payloads, run.counts, strict=True), at))
        at += len(run.payloads)
    return found


def settled(machine: Machine, segment: int) -> tuple[int, int, int] | None:
    """The segment's end; None if it is unknown."""
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
    """The bytes with right checksums in the records that follow each other from a place on."""
    for place in record_places(data, at):
        _, _, kind, _, size, n, segment, first = HEADER.unpack_from(data, place)
        body, end = place + HEADER.size, place + HEADER.size + size
        sealed = SEALED_BODY.unpack_from(data, body) if kind == SEAL and size >= 24 else ()
        if max(n, segment, first, *sealed) < MOST_FORGED:
            data = summed(data, place, place + CRC_BYTES, end)
    return data


def record_places(data: bytes, at: int = 0) -> list[int]:
    """Where the records are that follow each other from a place on."""
    found = []
    while at + HEADER.size <= len(data):
        end = at + HEADER.size + HEADER.unpack_from(data, at)[4]
        if end > len(data):
            break
        found.append(at)
        at = end
    return found


def with_rounds(data: bytes) -> bytes:
    """A journal file with right checksums in its head, its rounds and their records."""
    data = summed(data, FIRST_ROUND_AT - 4, 0, FIRST_ROUND_AT - 4)
    seed = int.from_bytes(data[FIRST_ROUND_AT - 4 : FIRST_ROUND_AT], "little")
    for at in places(data, ROUND_MAGIC):
        if at + ROUND_HEADER.size > len(data):
            break
        _, _, _, records, _, size = ROUND_HEADER.unpack_from(data, at)
        start = at + ROUND_HEADER.size + DIRECTORY_BYTES_PER_RECORD * records
        if start + size <= len(data):
            within = with_records(data[start : start + size], 0)
            crcs = [within[place : place + 4] for place in record_places(within)][:records]
            table = start - 4 * len(crcs)
            data = data[:table] + b"".join(crcs) + within + data[start + size :]
            data = summed(data, at + 4, at + SUMMED_FROM, start, seed)
    return data


def places(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)
