"""Checks one store directory: journal, checkpoints, and every record of every segment."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate

from magnetar_storage.errors import Corrupt, Incomplete, NoSegment, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import (
    directories,
    footer,
    index_file,
    layout,
    limits,
    recovery,
    segment_origin,
)
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Row
from magnetar_storage.local.record import ENTRIES, counts_of, record_at
from magnetar_storage.local.recovery import Finding, Recovered
from magnetar_storage.local.segment_file import Blocks, Index, read_blocks, take_run
from magnetar_storage.local.segment_ids import directory_of
from magnetar_storage.runtime.disk import Disk
from magnetar_storage.runtime.whole_files import read_file
from magnetar_storage.verify.report import Problem, Progress, Report
from magnetar_storage.verify.verify_journal import damaged_frames

WINDOW_BYTES = 8 << 20
"""The bytes of a segment read at once, unless a single block is larger."""


class StoreCheck:
    """The check of one store directory: call `run`, then read the findings."""

    def __init__(
        self,
        disk: Disk,
        directory: int,
        report: Report,
        add: Callable[[Problem], None],
        progress: Progress,
    ) -> None:
        """`disk` is the disk of the data directory.  `add` is called with problems, whose file is
        named within the data directory; `report` counts what was checked."""
        self.ends: dict[SegmentId, int | None] = {}
        """The number of entries of each segment found; None if its end is unknown."""
        self.lost: dict[SegmentId, str] = {}
        """Segments whose files are missing or incomplete: no broker starts without them."""
        self._disk = directories.disk_of(disk, directory)
        self._directory = directory
        self._report = report
        self._add = add
        self._progress = progress
        self._rows: dict[SegmentId, Row] = {}
        """The unfinished segments, according to the checkpoint and the journal."""
        self._known_lost: dict[SegmentId, set[int]] = {}
        """Entries whose loss was reported already, for damage in the journal."""

    def run(self) -> bool:
        """Check the store; returns whether a broker would start, so that all segments are known."""
        recovered = self._recover()
        if recovered is None:
            self._check_footed()
            return False
        self._rows = recovered.checkpoint.rows
        self.lost = recovered.lost
        for number in self._own(self._rows.keys() - recovered.lost.keys()):
            self._unfinished(number, self._rows[number])
        for number in self._own(recovered.finished):
            self._finished(number)
        self._find_needless_indexes(recovered.index_files)
        return True

    def payloads(self, number: SegmentId, start: int = 0) -> Iterator[bytes]:
        """Yield the entries of a segment from `start` on; `Corrupt` at the first damaged one."""
        for blocks in _windows(number, self._index_of(number)):
            first, end = blocks.firsts[0], blocks.firsts[-1]
            if end <= start:
                continue
            run = take_run(read_blocks(self._disk, blocks), blocks, first, end - first, 1 << 62)
            yield from run.payloads[max(start - first, 0) :]
            if len(run.payloads) < end - first:
                raise blocks.damaged(bisect_right(blocks.firsts, first + len(run.payloads)) - 1)

    # The start --------------------------------------------------------------------

    def _recover(self) -> Recovered | None:
        """Return the state with which a broker would start; None if it would refuse to start."""
        for number in checkpoints.numbers(self._disk):
            name = checkpoints.file_name(number)
            if checkpoints.decode(read_file(self._disk, name)) is None:
                self._add_problem(Problem(name, 0, "the checkpoint is damaged"))
        try:
            layout.prepare(self._disk, self._directory)
            start = checkpoints.read_newest(self._disk).position
            frames = list(damaged_frames(self._disk, start))
            recovered = recovery.recover(self._disk, limits.DEFAULT, self._directory)
        except Corrupt as error:
            self._add_problem(
                Problem(
                    error.file, error.offset, f"no broker starts on this directory: {error.why}"
                )
            )
            return None
        except Incomplete as error:
            why = f"no broker starts on this directory: {error}"
            self._add_problem(Problem(layout.FORMAT_FILE, 0, why))
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

    def _own(self, numbers: Iterable[SegmentId]) -> Iterator[SegmentId]:
        """Yield the segments whose ids name this directory, in order; report the others."""
        for number in sorted(numbers):
            # promise[always]: a segment is checked only in its own directory
            if directory_of(number) == self._directory:
                yield number
            else:
                name = directories.name_of(directory_of(number)) or "the data directory itself"
                why = f"it is a segment of {name}: what is here is not used"
                self._add_problem(Problem(segment.file_name(number), 0, why, number))

    # Segments -------------------------------------------------------------------

    def _unfinished(self, number: SegmentId, row: Row) -> None:
        name = segment.file_name(number)
        self.ends[number] = None if row.suspect else row.entries
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
            self._check_head(number, index)
        if self._check_blocks(number, index):
            self._check_index_file(number, index)

    def _check_index_file(self, number: SegmentId, index: Index) -> None:
        """Compare the index file, if any, with an index that agrees with all blocks."""
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
        """Check the files with a footer; without a checkpoint the others are unknown."""
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
        self.ends[number] = None
        index, trouble = footer.load(self._disk, number)
        self.ends[number] = index.entries
        self._check_head(number, index)
        intact = self._check_blocks(number, index)
        if trouble is not None:
            self._add_problem(
                Problem(name, index.offsets[-1], f"no entry is lost: {trouble}", number)
            )
        elif intact and not self._ends_with_footer(number, index):
            why = "index and trailer contradict the entries"
            self._add_problem(Problem(name, index.offsets[-1], why, number))

    def _check_head(self, number: SegmentId, index: Index) -> None:
        """Check the bytes before the first block: the head and the ORIGIN."""
        begin = self._read(number, 0, index.offsets[0])
        head, origin = begin[: segment.RECORDS_AT], begin[segment.RECORDS_AT :]
        intact = head in (segment.encode_file_head(number, v) for v in segment.HEAD_VERSIONS)
        if not intact or (origin and segment_origin.of(origin, number) is None):
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

    # Reading and reporting --------------------------------------------------------

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
        self._add(replace(problem, file=directories.path_of(self._directory, problem.file)))


def _windows(number: SegmentId, index: Index) -> Iterator[Blocks]:
    """Yield all blocks of a segment, in portions of about `WINDOW_BYTES`."""
    block = 0
    while block < index.blocks:
        stop = bisect_right(index.offsets, index.offsets[block] + WINDOW_BYTES) - 1
        stop = min(max(stop, block + 1), index.blocks)
        yield Blocks.of(number, index, block, stop)
        block = stop


def _block_trouble(data: bytes, blocks: Blocks, block: int, index: Index) -> str | None:
    """Return a description of a block's damage; None if it is intact and matches the index."""
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
