"""Checks a whole data directory while no broker uses it, and changes nothing.

Everything is opened as a broker would open it, on an `Overlay`, so that the same code decides
what is damage.  Then every record of every segment is read, and compared with the indexes and
with the records of the topics.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate

from magnetar_storage.compacted.compacted_part import PartMap
from magnetar_storage.cursors import cursor_log
from magnetar_storage.cursors.attached_state import AttachedState
from magnetar_storage.cursors.cursor_log import DurableCursor
from magnetar_storage.errors import Corrupt, NoSegment, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import footer, index_file, layout, limits, recovery
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Row
from magnetar_storage.local.record import ENTRIES, counts_of, record_at
from magnetar_storage.local.recovery import Finding, Recovered
from magnetar_storage.local.segment_file import Blocks, Index, read_blocks, take_run
from magnetar_storage.log.compacted_record import CompactedPart
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.sparse_segment import map_of
from magnetar_storage.metadata.sqlite import FILE as METADATA_FILE
from magnetar_storage.verify.overlay import Overlay
from magnetar_storage.verify.verify_journal import damaged_frames
from magnetar_storage.world.disk import ReadableDisk
from magnetar_storage.world.whole_files import file_size, read_file

WINDOW_BYTES = 8 << 20
"""How much of a segment is read at once, unless a single block is larger."""

Progress = Callable[[int], None]
"""Called with the number of bytes checked since the last call."""


@dataclass(frozen=True)
class Problem:
    """Something that is damaged, missing or unlisted, and the entries lost by it."""

    file: str
    offset: int
    text: str
    segment: SegmentId | None = None
    first_entry: int | None = None
    last_entry: int | None = None
    topic: str | None = None
    """The key of the topic's record, if a topic lists the segment."""
    damage: bool = True
    """False for leftovers of a crash, which are harmless."""

    @property
    def entries(self) -> int:
        """How many entries are known to be lost."""
        if self.first_entry is None or self.last_entry is None:
            return 0
        return self.last_entry - self.first_entry + 1


@dataclass
class Report:
    """How much was checked, and the problems found."""

    problems: list[Problem] = field(default_factory=list)
    topics: int = 0
    segments: int = 0
    entries: int = 0
    bytes: int = 0

    @property
    def damaged(self) -> bool:
        return any(problem.damage for problem in self.problems)


def size_of(disk: ReadableDisk) -> int:
    """About how many bytes `verify` will report to its `progress`."""
    names = [name for name in disk.list("segments") if segment.segment_of(name) is not None]
    return sum(file_size(disk, f"segments/{name}") for name in names)


def verify(
    disk: ReadableDisk, records: Mapping[str, bytes] | None, progress: Progress = lambda _: None
) -> Report:
    """Check everything; the caller holds the directory's lock.

    `records` are the stored log records by key; None if they cannot be read, and then
    nothing is compared with them.  Raises `Unavailable` if this is no data directory, or has a
    format that this release does not know.
    """
    if not any(map(disk.list, ("segments", "journal"))) and not checkpoints.numbers(disk):
        raise Unavailable(
            "this is no data directory, or an empty one: name the directory that the broker was "
            "started with"
        )
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
        """The number of entries of each segment found; None if its end is unknown."""
        self._rows: dict[SegmentId, Row] = {}
        """The unfinished segments, according to the checkpoint and the journal."""
        self._known_lost: dict[SegmentId, set[int]] = {}
        """Entries whose loss was reported already, for damage in the journal."""
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
            self._find_needless_indexes(recovered.index_files)
            for log in self._logs.values():
                self._compare(log)
            if self._knows_all_topics:
                self._find_unlisted()
        self._report.topics, self._report.segments = len(self._logs), len(self._ends)
        return self._report

    # Records and recovery --------------------------------------------------------------

    def _decode(self, key: str, value: bytes) -> None:
        try:
            self._logs[key] = log = LogRecord.decode(key, value)
        except Corrupt as error:
            self._add_problem(Problem(METADATA_FILE, 0, error.why, topic=key))
            self._knows_all_topics = False
            return
        self._topic_of.update(dict.fromkeys(log.listed, key))

    def _recover(self) -> Recovered | None:
        """What a broker would start with; None if it would refuse to start."""
        for number in checkpoints.numbers(self._disk):
            name = checkpoints.file_name(number)
            if checkpoints.decode(read_file(self._disk, name)) is None:
                self._add_problem(Problem(name, 0, "the checkpoint is damaged"))
        try:
            layout.prepare(self._disk)
            start = checkpoints.read_newest(self._disk).position
            frames = list(damaged_frames(self._disk, start))
            recovered = recovery.recover(self._disk, limits.DEFAULT)
        except Corrupt as error:
            self._add_problem(
                Problem(
                    error.file, error.offset, f"no broker starts on this directory: {error.why}"
                )
            )
            return None
        reported = {(found.file, found.offset) for found in recovered.findings}
        for name, at, why in frames:
            if (name, at) not in reported:
                self._add_problem(Problem(name, at, why))
        for found in recovered.findings:
            self._report_finding(found)
        return recovered

    def _report_finding(self, found: Finding) -> None:
        text = found.text.removeprefix(f"{found.file} at byte {found.offset}: ")
        damage = found.data_lost or found.segment is not None
        first, last = found.first_entry, found.last_entry
        self._add_problem(
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
            self._add_problem(Problem(name, row.length, why, number))
        try:
            index = segment.load_unfinished(
                self._disk, number, row.length, row.entries, row.messages
            )
        except NoSegment:
            self._add_problem(Problem(name, 0, "the file is missing", number, 0, row.entries - 1))
            return
        if row.length:
            self._check_head(number)
        if self._check_blocks(number, index):
            self._check_index_file(number, index)

    def _check_index_file(self, number: SegmentId, index: Index) -> None:
        """Compare it, if there is one, with an index with which all blocks agree."""
        name = index_file.file_name(number)
        try:
            file = self._disk.open(name)
            try:
                found, _, end = index_file.read(file, number)
                size = file.size()
            finally:
                file.close()
        except FileNotFoundError:
            return
        except Unavailable as error:
            why = f"the index cannot be read, and the segment is read instead: {error}"
            self._add_problem(Problem(name, 0, why, number, damage=False))
            return
        if not index.begins_with(found):
            why = "it is not the index of its segment; no entry is lost"
            self._add_problem(Problem(name, 0, why, number))
        elif end < size:
            why = "the index is incomplete or damaged here; the segment is read instead"
            self._add_problem(Problem(name, end, why, number, damage=False))

    def _find_needless_indexes(self, files: set[SegmentId]) -> None:
        for number in sorted(files - self._rows.keys()):
            why = "no unfinished segment has this index: left by a crash"
            self._add_problem(Problem(index_file.file_name(number), 0, why, damage=False))

    def _check_footed(self) -> None:
        """Check the files with a footer; without a checkpoint nothing is known of the others."""
        for name in self._disk.list("segments"):
            number = segment.segment_of(name)
            if number is not None:
                with suppress(Corrupt):  # no footer: its end was in the checkpoint or the journal
                    self._check_finished(number)

    def _finished(self, number: SegmentId) -> None:
        try:
            self._check_finished(number)
        except Corrupt as error:
            self._add_problem(Problem(error.file, error.offset, error.why, number))

    def _check_finished(self, number: SegmentId) -> None:
        name = segment.file_name(number)
        self._ends[number] = None
        index, trouble = footer.load(self._disk, number)
        self._ends[number] = index.entries
        self._check_head(number)
        intact = self._check_blocks(number, index)
        if trouble is not None:
            self._add_problem(
                Problem(name, index.offsets[-1], f"no entry is lost: {trouble}", number)
            )
        elif intact and not self._ends_with_footer(number, index):
            why = "index and trailer contradict the entries"
            self._add_problem(Problem(name, index.offsets[-1], why, number))

    def _check_head(self, number: SegmentId) -> None:
        expected = segment.encode_file_head(number)
        if self._read(number, 0, len(expected)) != expected:
            why = "the head of the file is damaged; no entry is lost"
            self._add_problem(Problem(segment.file_name(number), 0, why, number))

    def _ends_with_footer(self, number: SegmentId, index: Index) -> bool:
        expected = footer.encode_footer(number, index, index.sealed())
        return self._read(number, index.offsets[-1], len(expected) + 1) == expected

    def _check_blocks(self, number: SegmentId, index: Index) -> bool:
        """Read all blocks of the index; returns whether all of them are intact."""
        intact = True
        for blocks in _windows(number, index):
            data = read_blocks(self._disk, blocks)
            for block in range(len(blocks.firsts) - 1):
                why = _block_trouble(data, blocks, block, index)
                if why is not None:
                    intact = False
                    self._report_block(blocks, block, why)
            size = blocks.offsets[-1] - blocks.offsets[0]
            self._report.bytes += size
            self._progress(size)
        self._report.entries += index.entries
        return intact

    def _report_block(self, blocks: Blocks, block: int, why: str) -> None:
        first, end = blocks.firsts[block : block + 2]
        if not self._known_lost.get(blocks.segment, set()).issuperset(range(first, end)):
            name, at = segment.file_name(blocks.segment), blocks.offsets[block]
            self._add_problem(Problem(name, at, why, blocks.segment, first, end - 1))

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
        for sparse, parts in kept.items():
            self._check_sparse(sparse, parts)
        if log.cursor_segment is not None:
            self._check_cursors(log.cursor_segment)
        for part in () if log.compacted is None else log.compacted.parts:
            self._check_part(part)
        for run in log.delay_segments:
            if run not in self._ends:
                why = "a run of delays is missing; the broker reads them from the messages instead"
                self._add_problem(Problem(segment.file_name(run), 0, why, run))

    def _compare_whole(self, number: SegmentId, entries: int | None) -> None:
        name = segment.file_name(number)
        if number not in self._ends:
            last = None if not entries else entries - 1
            why = "the topic lists the segment, but it does not exist"
            self._add_problem(Problem(name, 0, why, number, 0 if entries else None, last))
        elif entries is not None and self._ends[number] not in (None, entries):
            why = f"it holds {self._ends[number]} entries, but the topic's record counts {entries}"
            self._add_problem(Problem(name, 0, why, number))

    def _check_sparse(self, number: SegmentId, parts: list[tuple[int, int, int]]) -> None:
        """Compare a sparse segment with the rewritten segments that the topic lists."""
        name = segment.file_name(number)
        if number not in self._ends:
            why = "the topic lists it as what is left of rewritten segments, but it does not exist"
            self._add_problem(Problem(name, 0, why, number, 0, sum(kept for *_, kept in parts) - 1))
        elif self._ends[number] is not None:
            try:
                found = map_of(self._payloads(number))
            except (Corrupt, ValueError) as error:
                why = f"its map of the entries kept here cannot be read: {error}"
                self._add_problem(Problem(name, 0, why, number))
                return
            listed = [sum(b - a for a, b in found.runs(*part[:2])) for part in parts]
            if found.entries != self._ends[number] or listed != [kept for *_, kept in parts]:
                why = "the entries kept here are not those of the topic's record"
                self._add_problem(Problem(name, 0, why, number))

    def _check_part(self, part: CompactedPart) -> None:
        """Compare a part of the compacted data with what the topic lists."""
        number, name = part.segment, segment.file_name(part.segment)
        if number not in self._ends:
            why = "the topic lists it as compacted data, but it does not exist"
            self._add_problem(Problem(name, 0, why, number, 0, part.entries - 1))
        elif self._ends[number] is not None:
            found = PartMap()
            try:
                for piece in self._payloads(number, part.entries):
                    found.take(piece)
            except (Corrupt, ValueError) as error:
                why = f"the map of this compacted data cannot be read: {error}"
                self._add_problem(Problem(name, 0, why, number))
                return
            first = found.offsets[0] if found.offsets else -1
            if (first, len(found.offsets)) != (part.first, part.entries):
                why = "this compacted data is not what the topic lists"
                self._add_problem(Problem(name, 0, why, number))

    def _check_cursors(self, number: SegmentId) -> None:
        name = segment.file_name(number)
        if number not in self._ends:
            why = "the segment of the topic's cursors is missing: all subscriptions are lost"
            self._add_problem(Problem(name, 0, why, number))
        elif self._ends[number] is not None:
            try:
                self._replay(number)
            except Corrupt as error:
                why = f"the topic's cursors cannot be read: {error.why}"
                self._add_problem(Problem(name, error.offset, why, number))

    def _replay(self, number: SegmentId) -> None:
        """Decode a segment as cursors; `Corrupt` if it holds anything else."""
        numbered: dict[int, DurableCursor] = {}
        attached_state: dict[int, AttachedState] = {}
        for entry, payload in enumerate(self._payloads(number)):
            try:
                cursor_log.replay(numbered, attached_state, payload)
            except (struct.error, ValueError, KeyError) as error:
                why = f"entry {entry}: expected a cursor record, got {error!r}"
                raise Corrupt(segment.file_name(number), 0, why, number) from error

    def _find_unlisted(self) -> None:
        for number in sorted(self._ends.keys() - self._topic_of.keys()):
            entries, name = self._ends[number], segment.file_name(number)
            if not entries:
                why, damage = "no topic lists it, and it is empty: left by a crash", False
            elif self._is_cursors(number):
                why, damage = "no topic lists these cursors: left by a crash", False
            else:
                why = f"no topic lists its {entries} entries: is {METADATA_FILE} an old copy?"
                damage = True
            self._add_problem(Problem(name, 0, why, number, damage=damage))

    def _is_cursors(self, number: SegmentId) -> bool:
        try:
            self._replay(number)
        except Corrupt:
            return False
        return True

    # Reading and reporting --------------------------------------------------------

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
            return footer.load(self._disk, number)[0]
        return segment.load_unfinished(self._disk, number, row.length, row.entries, row.messages)

    def _read(self, number: SegmentId, at: int, size: int) -> bytes:
        file = segment.open_segment(self._disk, number)
        try:
            return file.read(at, size)
        finally:
            file.close()

    def _add_problem(self, problem: Problem) -> None:
        if problem.segment is not None:
            problem = replace(problem, topic=self._topic_of.get(problem.segment))
        self._report.problems.append(problem)


def _windows(number: SegmentId, index: Index) -> Iterator[Blocks]:
    """All blocks of a segment, in portions of about `WINDOW_BYTES`."""
    block = 0
    while block < index.blocks:
        stop = bisect_right(index.offsets, index.offsets[block] + WINDOW_BYTES) - 1
        stop = min(max(stop, block + 1), index.blocks)
        yield Blocks.of(number, index, block, stop)
        block = stop


def _block_trouble(data: bytes, blocks: Blocks, block: int, index: Index) -> str | None:
    """What is wrong with a block; None if it is intact and agrees with the index."""
    at, end = (offset - blocks.offsets[0] for offset in blocks.offsets[block : block + 2])
    first, until = blocks.firsts[block : block + 2]
    record = record_at(data, at)
    if record is None or record.kind != ENTRIES:
        return "the entries are damaged" if end > at else "the entries are lost"
    if record != (ENTRIES, blocks.segment, first, until - first, at, end - at):
        return "the record here is not the one of the index"
    counts = accumulate(counts_of(data, record), initial=index.messages.before(first))
    if array("Q", counts) != index.messages.cut(first, until + 1):
        return "the numbers of messages in the index differ from those of the entries"
    return None
