"""Checks a whole data directory while no broker uses it, and changes nothing.

Everything is opened as a broker would, on an `Overlay`, so the same code judges; then
every record of every segment is read, and compared with indexes and with what the topics list.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate

from magnetar_storage import checkpoint as checkpoints
from magnetar_storage import cursor_log, layout, limits, recovery, segment
from magnetar_storage.checkpoint import Row
from magnetar_storage.compacted_part import PartMap
from magnetar_storage.compacted_record import CompactedPart
from magnetar_storage.cursor_log import DurableCursor
from magnetar_storage.disk import ReadableDisk
from magnetar_storage.errors import Corrupt, NoSegment, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.keeper import map_of
from magnetar_storage.log_record import LogRecord
from magnetar_storage.overlay import Overlay
from magnetar_storage.record import ENTRIES, counts_of, record_at
from magnetar_storage.recovery import Finding, Recovered
from magnetar_storage.segment import Blocks, Index, read_blocks, take_run
from magnetar_storage.sides import SideState
from magnetar_storage.sqlite import FILE as METADATA_FILE
from magnetar_storage.verify_journal import damaged_frames
from magnetar_storage.whole_files import file_size, read_file

WINDOW_BYTES = 8 << 20
"""So much of a segment is read at once, a single larger block aside."""

Progress = Callable[[int], None]
"""Told how many more bytes have been checked."""


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be, and what it costs."""

    file: str
    offset: int
    text: str
    segment: SegmentId | None = None
    first_entry: int | None = None
    last_entry: int | None = None
    topic: str | None = None
    """The key of the topic's record, where a topic lists the segment."""
    damage: bool = True
    """False for what a crash may leave behind, and nobody misses."""

    @property
    def entries(self) -> int:
        """How many entries are known to be lost."""
        if self.first_entry is None or self.last_entry is None:
            return 0
        return self.last_entry - self.first_entry + 1


@dataclass
class Report:
    """What was checked, and what was found."""

    problems: list[Problem] = field(default_factory=list)
    topics: int = 0
    segments: int = 0
    entries: int = 0
    bytes: int = 0

    @property
    def damaged(self) -> bool:
        return any(problem.damage for problem in self.problems)


def size_of(disk: ReadableDisk) -> int:
    """How many bytes `verify` will tell its `progress` of, about."""
    return sum(file_size(disk, f"segments/{name}") for name in disk.list("segments"))


def verify(
    disk: ReadableDisk, records: Mapping[str, bytes] | None, progress: Progress = lambda _: None
) -> Report:
    """Check everything; the caller holds the directory's lock.

    `records` are the stored log records by key; None if they cannot be read, and then
    nothing is compared with them.  Raises `Unavailable` for what is no data directory, or
    of a format that this release does not know.
    """
    if not any(map(disk.list, ("segments", "journal"))) and not checkpoints.numbers(disk):
        raise Unavailable("this is no data directory, or nothing was ever in it")
    return _Walk(Overlay(disk), records, progress).run()


class _Walk:
    """One run of `verify`."""

    def __init__(self, disk: Overlay, records: Mapping[str, bytes] | None, progress: Progress):
        self._disk = disk
        self._progress = progress
        self._report = Report()
        self._knows_all_topics = records is not None
        self._logs: dict[str, LogRecord] = {}
        self._topic_of: dict[SegmentId, str] = {}
        self._ends: dict[SegmentId, int | None] = {}
        """Entries of the segments there are; None where the end cannot be told."""
        self._rows: dict[SegmentId, Row] = {}
        """What the checkpoint and the journal say of segments that are not finished."""
        self._known_lost: dict[SegmentId, set[int]] = {}
        """Entries whose loss was told already, as they stood in the journal."""
        for key, value in (records or {}).items():
            self._decode(key, value)

    def run(self) -> Report:
        recovered = self._recover()
        if recovered is None:
            self._check_footed()
        else:
            self._rows = recovered.checkpoint.rows
            for number in sorted(self._rows):
                self._unfinished(number, self._rows[number])
            for number in sorted(recovered.finished):
                self._finished(number)
            for log in self._logs.values():
                self._compare(log)
            if self._knows_all_topics:
                self._look_for_unlisted()
        self._report.topics, self._report.segments = len(self._logs), len(self._ends)
        return self._report

    # What there is --------------------------------------------------------------

    def _decode(self, key: str, value: bytes) -> None:
        try:
            self._logs[key] = log = LogRecord.decode(key, value)
        except Corrupt as error:
            self._tell(Problem(METADATA_FILE, 0, error.why, topic=key))
            self._knows_all_topics = False
            return
        self._topic_of.update(dict.fromkeys(log.listed, key))

    def _recover(self) -> Recovered | None:
        """What a broker would begin with; None if it would refuse to."""
        for number in checkpoints.numbers(self._disk):
            name = checkpoints.file_name(number)
            if checkpoints.decode(read_file(self._disk, name)) is None:
                self._tell(Problem(name, 0, "the checkpoint is damaged"))
        try:
            layout.prepare(self._disk)
            start = checkpoints.read_newest(self._disk).position
            frames = list(damaged_frames(self._disk, start))
            recovered = recovery.recover(self._disk, limits.DEFAULT)
        except Corrupt as error:
            self._tell(Problem(error.file, error.offset, f"no broker starts: {error.why}"))
            return None
        told = {(found.file, found.offset) for found in recovered.findings}
        for name, at, why in frames:
            if (name, at) not in told:
                self._tell(Problem(name, at, why))
        for found in recovered.findings:
            self._tell_finding(found)
        return recovered

    def _tell_finding(self, found: Finding) -> None:
        text = found.text.removeprefix(f"{found.file} at byte {found.offset}: ")
        damage = found.data_lost or found.segment is not None
        first, last = found.first_entry, found.last_entry
        self._tell(
            Problem(found.file, found.offset, text, found.segment, first, last, damage=damage)
        )
        if found.segment is not None and first is not None and last is not None:
            self._known_lost.setdefault(found.segment, set()).update(range(first, last + 1))

    # Segments -------------------------------------------------------------------

    def _unfinished(self, number: SegmentId, row: Row) -> None:
        name = segment.file_name(number)
        self._ends[number] = None if row.suspect else row.entries
        if row.suspect:
            why = f"entries may be missing at its end ({row.suspect})"
            self._tell(Problem(name, row.length, why, number))
        try:
            index = segment.load_unfinished(
                self._disk, number, row.length, row.entries, row.messages
            )
        except NoSegment:
            self._tell(Problem(name, 0, "the file is missing", number, 0, row.entries - 1))
            return
        if row.length:
            self._check_head(number)
        self._check_blocks(number, index)

    def _check_footed(self) -> None:
        """Without a checkpoint: the files that say themselves what they hold."""
        for name in self._disk.list("segments"):
            number = segment.segment_of(name)
            if number is not None:
                with suppress(Corrupt):  # its end was in the checkpoint or the journal
                    self._check_finished(number)

    def _finished(self, number: SegmentId) -> None:
        try:
            self._check_finished(number)
        except Corrupt as error:
            self._tell(Problem(error.file, error.offset, error.why, number))

    def _check_finished(self, number: SegmentId) -> None:
        name = segment.file_name(number)
        self._ends[number] = None
        index, trouble = segment.load(self._disk, number)
        self._ends[number] = index.entries
        self._check_head(number)
        intact = self._check_blocks(number, index)
        if trouble is not None:
            self._tell(Problem(name, index.offsets[-1], f"no entry is lost: {trouble}", number))
        elif intact and not self._ends_with_footer(number, index):
            why = "index and trailer contradict the entries"
            self._tell(Problem(name, index.offsets[-1], why, number))

    def _check_head(self, number: SegmentId) -> None:
        expected = segment.encode_file_head(number)
        if self._read(number, 0, len(expected)) != expected:
            why = "the head of the file is damaged; no entry is lost"
            self._tell(Problem(segment.file_name(number), 0, why, number))

    def _ends_with_footer(self, number: SegmentId, index: Index) -> bool:
        footer = segment.encode_footer(number, index, index.sealed())
        return self._read(number, index.offsets[-1], len(footer) + 1) == footer

    def _check_blocks(self, number: SegmentId, index: Index) -> bool:
        """Read everything the index speaks of; whether all of it is intact."""
        intact = True
        for blocks in _windows(number, index):
            data = read_blocks(self._disk, blocks)
            for block in range(len(blocks.firsts) - 1):
                why = _block_trouble(data, blocks, block, index)
                if why is not None:
                    intact = False
                    self._tell_block(blocks, block, why)
            size = blocks.offsets[-1] - blocks.offsets[0]
            self._report.bytes += size
            self._progress(size)
        self._report.entries += index.entries
        return intact

    def _tell_block(self, blocks: Blocks, block: int, why: str) -> None:
        first, end = blocks.firsts[block : block + 2]
        if not self._known_lost.get(blocks.segment, set()).issuperset(range(first, end)):
            name, at = segment.file_name(blocks.segment), blocks.offsets[block]
            self._tell(Problem(name, at, why, blocks.segment, first, end - 1))

    # Topics ---------------------------------------------------------------------

    def _compare(self, log: LogRecord) -> None:
        kept: dict[SegmentId, list[tuple[int, int, int]]] = {}  # start, stop, how many
        start = log.first_offset
        for listed in log.segments:
            stop = start + (listed.entries or 0)
            if listed.is_whole:
                self._compare_whole(listed.id, listed.entries)
            elif listed.kept_in is not None:
                kept.setdefault(listed.kept_in, []).append((start, stop, listed.held))
            start = stop
        for keeper, parts in kept.items():
            self._check_keeper(keeper, parts)
        if log.cursor_segment is not None:
            self._check_cursors(log.cursor_segment)
        for part in () if log.compacted is None else log.compacted.parts:
            self._check_part(part)
        for run in log.delay_segments:
            if run not in self._ends:
                why = "a list of delays is missing; the broker looks at the messages themselves"
                self._tell(Problem(segment.file_name(run), 0, why, run))

    def _compare_whole(self, number: SegmentId, entries: int | None) -> None:
        name = segment.file_name(number)
        if number not in self._ends:
            last = None if not entries else entries - 1
            why = "the topic lists the segment, and there is none"
            self._tell(Problem(name, 0, why, number, 0 if entries else None, last))
        elif entries is not None and self._ends[number] not in (None, entries):
            why = f"it holds {self._ends[number]} entries; the topic counts {entries}"
            self._tell(Problem(name, 0, why, number))

    def _check_keeper(self, number: SegmentId, parts: list[tuple[int, int, int]]) -> None:
        """Compare what a segment keeps of thinned ones with what the topic lists."""
        name = segment.file_name(number)
        if number not in self._ends:
            why = "the topic keeps entries of thinned segments here, and there is none"
            self._tell(Problem(name, 0, why, number, 0, sum(kept for *_, kept in parts) - 1))
        elif self._ends[number] is not None:
            try:
                found = map_of(self._payloads(number))
            except (Corrupt, ValueError) as error:
                why = f"nobody can tell which entries are kept here: {error}"
                self._tell(Problem(name, 0, why, number))
                return
            listed = [sum(b - a for a, b in found.runs(*part[:2])) for part in parts]
            if found.entries != self._ends[number] or listed != [kept for *_, kept in parts]:
                why = "the entries kept here are not those that the topic counts"
                self._tell(Problem(name, 0, why, number))

    def _check_part(self, part: CompactedPart) -> None:
        """Compare a part of the compacted data with what the topic lists."""
        number, name = part.segment, segment.file_name(part.segment)
        if number not in self._ends:
            why = "the topic keeps compacted data here, and there is none"
            self._tell(Problem(name, 0, why, number, 0, part.entries - 1))
        elif self._ends[number] is not None:
            found = PartMap()
            try:
                for piece in self._payloads(number, part.entries):
                    found.take(piece)
            except (Corrupt, ValueError) as error:
                why = f"nobody can tell which entries the compacted data here has: {error}"
                self._tell(Problem(name, 0, why, number))
                return
            first = found.offsets[0] if found.offsets else -1
            if (first, len(found.offsets)) != (part.first, part.entries):
                why = "the compacted data here is not what the topic lists"
                self._tell(Problem(name, 0, why, number))

    def _check_cursors(self, number: SegmentId) -> None:
        name = segment.file_name(number)
        if number not in self._ends:
            why = "the segment of the topic's cursors is missing: all subscriptions are lost"
            self._tell(Problem(name, 0, why, number))
        elif self._ends[number] is not None:
            try:
                self._replay(number)
            except Corrupt as error:
                why = f"the topic's cursors cannot be read: {error.why}"
                self._tell(Problem(name, error.offset, why, number))

    def _replay(self, number: SegmentId) -> None:
        """Decode a segment as cursors; `Corrupt` if that cannot be done."""
        numbered: dict[int, DurableCursor] = {}
        sides: dict[int, SideState] = {}
        for entry, payload in enumerate(self._payloads(number)):
            try:
                cursor_log.replay(numbered, sides, payload)
            except (struct.error, ValueError, KeyError) as error:
                why = f"entry {entry} is no cursor record: {error!r}"
                raise Corrupt(segment.file_name(number), 0, why, number) from error

    def _look_for_unlisted(self) -> None:
        for number in sorted(self._ends.keys() - self._topic_of.keys()):
            entries, name = self._ends[number], segment.file_name(number)
            if not entries:
                why, damage = "no topic lists it, and it is empty: left by a crash", False
            elif self._is_cursors(number):
                why, damage = "no topic lists these cursors: left by a crash", False
            else:
                why = f"no topic lists its {entries} entries: is {METADATA_FILE} an old copy?"
                damage = True
            self._tell(Problem(name, 0, why, number, damage=damage))

    def _is_cursors(self, number: SegmentId) -> bool:
        try:
            self._replay(number)
        except Corrupt:
            return False
        return True

    # Reading and telling --------------------------------------------------------

    def _payloads(self, number: SegmentId, start: int = 0) -> Iterator[bytes]:
        """Every entry of a segment from `start` on; `Corrupt` at the first that is damaged."""
        for blocks in _windows(number, self._index_of(number)):
            first, end = blocks.firsts[0], blocks.firsts[-1]
            if end <= start:
                continue
            run = take_run(read_blocks(self._disk, blocks), blocks, first, end - first, 1 << 62)
            yield from run.payloads[max(start - first, 0) :]
            if len(run.payloads) < end - first:
                raise blocks.damaged(bisect_right(blocks.firsts, first + len(run.payloads)) - 1)

    def _index_of(self, number: SegmentId) -> Index:
        row = self._rows.get(number)
        if row is None:
            return segment.load(self._disk, number)[0]
        return segment.load_unfinished(self._disk, number, row.length, row.entries, row.messages)

    def _read(self, number: SegmentId, at: int, size: int) -> bytes:
        file = segment.open_segment(self._disk, number)
        try:
            return file.read(at, size)
        finally:
            file.close()

    def _tell(self, problem: Problem) -> None:
        if problem.segment is not None:
            problem = replace(problem, topic=self._topic_of.get(problem.segment))
        self._report.problems.append(problem)


def _windows(number: SegmentId, index: Index) -> Iterator[Blocks]:
    """All blocks of a segment, in portions that can be held in memory."""
    block = 0
    while block < index.blocks:
        stop = bisect_right(index.offsets, index.offsets[block] + WINDOW_BYTES) - 1
        stop = min(max(stop, block + 1), index.blocks)
        yield Blocks.of(number, index, block, stop)
        block = stop


def _block_trouble(data: bytes, blocks: Blocks, block: int, index: Index) -> str | None:
    """What is wrong with a block; None if it is intact and the index is right about it."""
    at, end = (offset - blocks.offsets[0] for offset in blocks.offsets[block : block + 2])
    first, until = blocks.firsts[block : block + 2]
    record = record_at(data, at)
    if record is None or record.kind != ENTRIES:
        return "the entries are damaged" if end > at else "the entries are lost"
    if record != (ENTRIES, blocks.segment, first, until - first, at, end - at):
        return "another record is here than the index says"
    counts = accumulate(counts_of(data, record), initial=index.messages[first])
    if array("Q", counts) != index.messages[first : until + 1]:
        return "the index says other numbers of messages than the entries"
    return None
