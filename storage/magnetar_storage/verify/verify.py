"""Checks a whole data directory while no broker uses it, and changes nothing.

Everything is opened as a broker would open it, on an `Overlay`, so that the same code decides
what is damage.  Then every record of every segment is read, and compared with the indexes and
with the records of the topics.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from magnetar_storage.compacted.compacted_part import PartMap
from magnetar_storage.cursors import cursor_log
from magnetar_storage.cursors.attached_state import AttachedState
from magnetar_storage.cursors.cursor_log import DurableCursor
from magnetar_storage.errors import Corrupt, Incomplete, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import directories, layout
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.segment_ids import directory_of
from magnetar_storage.log.compacted_record import CompactedPart
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.sparse_segment import map_of
from magnetar_storage.metadata.database import FILE as METADATA_FILE
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.whole_files import file_size
from magnetar_storage.verify.overlay import Overlay
from magnetar_storage.verify.report import Problem, Progress, Report
from magnetar_storage.verify.verify_store import StoreCheck


def size_of(disk: ReadableDisk) -> int:
    """Return the approximate bytes that `verify` will report to its `progress`."""
    folders = [directories.path_of(n, "segments") for n in directories.present(disk)]
    return sum(
        file_size(disk, f"{folder}/{name}")
        for folder in folders
        for name in disk.list(folder)
        if segment.segment_of(name) is not None
    )


def verify(
    disk: ReadableDisk, records: Mapping[str, bytes] | None, progress: Progress = lambda _: None
) -> Report:
    """Check everything; the caller holds the directory's lock.

    `records` are the stored log records by key; None if they cannot be read, and then nothing is
    compared with them.  Raises `Unavailable` if the disk has no data directory, or one of a format
    that this release does not know.
    """
    if not any(map(disk.list, ("segments", "journal"))) and not checkpoints.numbers(disk):
        raise Unavailable(
            "found no data of a broker here: name the directory that the broker was started with"
        )
    return _Walk(Overlay(disk), records, progress).run()


class _Walk:
    """One run of `verify`."""

    def __init__(self, disk: Overlay, records: Mapping[str, bytes] | None, progress: Progress):
        self._disk = disk
        self._report = Report()
        self._stores = {
            number: StoreCheck(disk, number, self._report, self._add_problem, progress)
            for number in directories.present(disk)
        }
        self._knows_all_topics = records is not None
        self._logs: dict[str, LogRecord] = {}
        self._topic_of: dict[SegmentId, str] = {}
        self._set_aside: dict[SegmentId, OffsetSet] = {}
        """Damaged entries that were set aside: entry numbers, or offsets for sparse segments."""
        self._sparse: set[SegmentId] = set()
        self._ends: dict[SegmentId, int | None] = {}
        """The ends of all segments, as in `StoreCheck.ends`."""
        for key, value in (records or {}).items():
            self._decode(key, value)

    def run(self) -> Report:
        self._check_format()
        complete = True
        for store in self._stores.values():
            complete = store.run() and complete
            self._ends.update(store.ends)
        if complete:
            for log in self._logs.values():
                self._compare(log)
            if self._knows_all_topics:
                self._find_unlisted()
        self._report_lost()
        self._report.topics, self._report.segments = len(self._logs), len(self._ends)
        return self._report

    def _report_lost(self) -> None:
        """Report missing data that prevents a start, unless it is in another report."""
        reported = {problem.segment for problem in self._report.problems}
        for store in self._stores.values():
            for number, why in store.lost.items():
                if number not in reported:
                    text = f"no broker starts on this directory: {why}"
                    self._add_problem(Problem(file_of(number), 0, text, number))

    def _check_format(self) -> None:
        try:
            directories.check(self._disk, list(self._stores))
        except Incomplete as error:
            why = f"no broker starts on this directory: {error}"
            self._add_problem(Problem(layout.FORMAT_FILE, 0, why))
        except Corrupt as error:
            why = f"no broker starts on this directory: {error.why}"
            self._add_problem(Problem(error.file, error.offset, why))

    def _decode(self, key: str, value: bytes) -> None:
        try:
            self._logs[key] = log = LogRecord.decode(key, value)
        except Corrupt as error:
            self._add_problem(Problem(METADATA_FILE, 0, error.why, topic=key))
            self._knows_all_topics = False
            return
        self._topic_of.update(dict.fromkeys(log.listed, key))
        self._sparse.update(one.kept_in for one in log.segments if one.kept_in is not None)
        base = log.first_offset
        for one in log.segments:
            for first, stop in one.lost:
                into = base if one.kept_in is not None else 0
                aside = self._set_aside.setdefault(one.stored_in or one.id, OffsetSet())
                aside.add(into + first, into + stop)
            base += one.entries or 0

    # Topics ---------------------------------------------------------------------

    def _compare(self, log: LogRecord) -> None:
        kept: dict[SegmentId, list[tuple[int, int, int]]] = {}  # start, stop, how many
        start = log.first_offset
        for listed in log.segments:
            stop = start + (listed.entries or 0)
            if listed.is_remote:
                self._report.remote += 1
            elif listed.is_whole:
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
                self._add_problem(Problem(file_of(run), 0, why, run))

    def _compare_whole(self, number: SegmentId, entries: int | None) -> None:
        name = file_of(number)
        if number not in self._ends:
            last = None if not entries else entries - 1
            why = "the topic lists the segment, but it does not exist"
            self._add_problem(Problem(name, 0, why, number, 0 if entries else None, last))
        elif entries is not None and self._ends[number] not in (None, entries):
            why = f"it holds {self._ends[number]} entries, but the topic's record counts {entries}"
            self._add_problem(Problem(name, 0, why, number))

    def _check_sparse(self, number: SegmentId, parts: list[tuple[int, int, int]]) -> None:
        """Compare a sparse segment with the rewritten segments that the topic lists."""
        name = file_of(number)
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
        """Compare a part of the compacted data with the topic's record."""
        number, name = part.segment, file_of(part.segment)
        if number not in self._ends:
            why = "the topic lists it as compacted data, but it does not exist"
            self._add_problem(Problem(name, 0, why, number, 0, part.entries - 1))
        elif self._ends[number] is not None:
            found = PartMap()
            try:
                for piece in self._payloads(number, part.entries):
                    # Behind the map, the last part has the list in the record.
                    if len(found.offsets) < part.entries:
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
        name = file_of(number)
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
                raise Corrupt(file_of(number), 0, why, number) from error

    def _find_unlisted(self) -> None:
        for number in sorted(self._ends.keys() - self._topic_of.keys()):
            entries, name = self._ends[number], file_of(number)
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
        return self._stores[directory_of(number)].payloads(number, start)

    def _add_problem(self, problem: Problem) -> None:
        if problem.segment is not None:
            problem = replace(problem, topic=self._topic_of.get(problem.segment))
        if self._was_set_aside(problem):
            text = f"{problem.text}; they were set aside"
            # promise[damage=False -> damage=True]: what was set aside is not damage any more
            problem = replace(problem, text=text, damage=False)
        self._report.problems.append(problem)

    def _was_set_aside(self, problem: Problem) -> bool:
        """Return whether the entries of a problem were set aside, so that the topic skips them."""
        number, first, last = problem.segment, problem.first_entry, problem.last_entry
        if number is None or first is None or last is None or number not in self._set_aside:
            return False
        entries: Iterable[int] = range(first, last + 1)
        if number in self._sparse:
            try:
                found = map_of(self._payloads(number))
            except (Corrupt, ValueError):
                return False  # then it has no map, which is reported
            entries = map(found.offset_of, range(max(first, found.pieces), last + 1))
        return all(entry in self._set_aside[number] for entry in entries)


def file_of(number: SegmentId) -> str:
    """Return the name of a segment's file within the data directory."""
    return directories.path_of(directory_of(number), segment.file_name(number))
