"""Thinning: giving back the room of acknowledged entries between others that are needed.

One message that waits would hold all segments from its own on.  So a settled segment of
which few entries are needed is replaced: those are copied to a keeper, one change of the
record says so, and then the segment is deleted.  A keeper may serve several neighbours,
and is replaced in turn when half of it is not needed any more.

A keeper is listed as trash while it is written: whatever ends the writing, it is deleted
unless the record says that it is in use.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import Corrupt, DiskFull, NoSegment, StorageError
from magnetar_storage.interfaces import SegmentId, SegmentWriter
from magnetar_storage.keeper import KeptRun, encode_map
from magnetar_storage.log_record import LogRecord, Segment
from magnetar_storage.offsets import OffsetSet
from magnetar_storage.recorded_log import RecordedLog
from magnetar_storage.thinnable import Group, Needed, Unit, units
from magnetar_storage.world import Promise, settling

NEEDED_OF_WHOLE = 10
"""A segment is thinned when at most one entry of so many is needed."""
NEEDED_OF_KEPT = 2
"""The same for what was thinned before."""
COPY_BYTES = 64 << 20
"""What is copied in one call, about."""
LOOKED_AT = 256
"""How many segments are looked at in one call; the next one goes on behind them."""
BLOCK_BYTES = 64 << 10
READ_ENTRIES = 1000


class _NotNow(Exception):
    """The segments, or what is needed of them, are not what they were: another time."""


class Thinning:
    """Thins one log; one call at a time."""

    def __init__(self, log: RecordedLog) -> None:
        self._log = log
        self._running: Promise | None = None
        self._next_look = 0
        self._unreadable: set[SegmentId | None] = set()  # damaged: left as they are

    async def run(self, needed: Needed, before: int, max_bytes: int) -> int:
        """Thin what ends at or below `before`; how many bytes were given back.

        Copies about `max_bytes` at most, and leaves the rest for the next call.  Where there
        is no room for a copy, what needs none is given back all the same before that is raised.
        """
        if self._running is not None:
            return 0
        self._running = self._log.engine.clock.promise()
        copied = freed = 0
        no_room: DiskFull | None = None
        try:
            for group in self._groups(needed, before):
                size = sum(segment.size for segment in group.segments)
                try:
                    left = await self._replace(group, needed)
                except DiskFull as error:
                    no_room = error
                    continue
                copied, freed = copied + left, freed + size - left
                if copied >= max_bytes or self._log.failed is not None:
                    self._next_look = group.stop
                    break
        finally:
            running, self._running = self._running, None
            running.set_result(None)
        if no_room is not None:
            raise no_room
        return freed

    async def ended(self) -> None:
        """Wait until nothing is being thinned; it ends soon when the log has failed."""
        while self._running is not None:
            await self._running

    # Choosing -------------------------------------------------------------------

    def _groups(self, needed: Needed, before: int) -> Iterator[Group]:
        """What is worth replacing, each chosen when it is asked for."""
        group, looked_at = Group(), 0
        for unit in units(self._log.record, min(before, self._log.end - 1)):
            if unit.start < self._next_look:
                continue
            if looked_at >= LOOKED_AT:
                self._next_look = unit.start
                break
            looked_at += len(unit.segments)
            size = self._left_of(unit, needed)
            if size is None or not group.has_room(size):
                if self._is_ready(group, needed):
                    yield group
                group = Group()
            if size is not None:
                group.add(unit, size, worth_it=size < unit.size)
        else:
            self._next_look = 0
        if self._is_ready(group, needed):
            yield group

    def _left_of(self, unit: Unit, needed: Needed) -> int | None:
        """About how many bytes would be left of a unit; None if it is to stay as it is."""
        if not unit.held:
            return 0
        if unit.stored_in in self._unreadable:
            return None
        limit = unit.held // (NEEDED_OF_WHOLE if unit.segments[0].is_whole else NEEDED_OF_KEPT)
        live = needed(unit.start, unit.stop, limit)
        if live is None:
            return unit.size if unit.is_small else None
        return unit.size * live.covered() // unit.held

    def _is_ready(self, group: Group, needed: Needed) -> bool:
        """Whether a group is worth replacing; it is told what is needed of it."""
        if not group.worth_it:
            return False
        live = self._live(group, needed)
        group.live = live or OffsetSet()
        return live is not None

    def _live(self, group: Group, needed: Needed) -> OffsetSet | None:
        """What is needed of a group at present, of what there is."""
        live = needed(group.start, group.stop, sum(unit.held for unit in group.units))
        if live is not None:
            for hole in list(self._log.holes.present(group.start, group.stop)):
                live.remove(*hole)
        return live

    # Replacing ------------------------------------------------------------------

    async def _replace(self, group: Group, needed: Needed) -> int:
        """Copy what is needed, list it, delete the rest; how many bytes are left."""
        log = self._log
        sizes = dict.fromkeys((segment.id for segment in group.segments), 0)
        keeper: SegmentId | None = None
        try:
            if group.live:
                writer = await log.create_in_trash()
                keeper = writer.segment
                with self._discarding(group, keeper):
                    await self._copy(group, writer, sizes)
                    await writer.seal()
            thinned = _thinned(group, keeper, sizes)
            # Fails it for another reason, it may have taken place: the keeper is left alone.
            await log.commit(partial(self._checked, group, needed, thinned))
        except _NotNow:
            if keeper is not None:
                log.unfinished.discard(keeper)
            await log.empty_trash()
            return sum(segment.size for segment in group.segments)
        if keeper is not None:
            log.unfinished.discard(keeper)
        log.thinned(group.segments, group.start, group.stop, group.live)
        await log.empty_trash()
        return sum(sizes.values())

    @contextmanager
    def _discarding(self, group: Group, keeper: SegmentId) -> Iterator[None]:
        """What fails in here leaves a keeper that nobody needs: it is trash like any other."""
        try:
            yield
        except (Corrupt, NoSegment) as error:
            # Told to whoever reads these entries; here they only cannot be copied.
            self._unreadable.add(group.copied_from)
            raise _NotNow from error
        except StorageError:
            self._log.unfinished.discard(keeper)
            raise

    async def _copy(self, group: Group, writer: SegmentWriter, sizes: dict[SegmentId, int]) -> None:
        """Write the map and the entries; add up the `sizes` of what is left of each segment."""
        log = self._log
        runs: list[KeptRun] = []
        for start, stop in list(group.live):
            group.copied_to = start
            runs.append(KeptRun(start, stop - start, await log.messages_before(start)))
        pieces = encode_map(runs)
        await self._append(writer, pieces, [0] * len(pieces))
        end = runs[-1].first + runs[-1].entries
        payloads: list[bytes] = []
        counts: list[int] = []
        gathered = 0
        at: int | None = runs[0].first
        while at is not None:
            group.copied_to = at
            run = await log.read(at, min(READ_ENTRIES, end - at), BLOCK_BYTES)
            if log.failed is not None:
                raise log.failed.again()
            if run.first != at or not run.payloads:
                raise _NotNow
            stop = at + len(run.payloads)
            for first, behind in list(group.live.present(at, stop)):
                part = run.payloads[first - at : behind - at]
                payloads += part
                counts += run.counts[first - at : behind - at]
                size = sum(map(len, part))
                sizes[log.position(first)[0]] += size
                gathered += size
            at = group.live.next_present(stop)
            if gathered >= BLOCK_BYTES or at is None:
                await self._append(writer, payloads, counts)
                payloads, counts, gathered = [], [], 0

    async def _append(
        self, writer: SegmentWriter, payloads: list[bytes], counts: list[int]
    ) -> None:
        promise = self._log.engine.clock.promise()
        writer.append(payloads, counts, settling(promise))
        await promise

    def _checked(
        self, group: Group, needed: Needed, thinned: list[Segment], record: LogRecord
    ) -> LogRecord:
        """The record with the group thinned, unless that is not right any more."""
        if not set(group.segments) <= set(record.segments):
            raise _NotNow  # trimmed meanwhile
        now = self._live(group, needed)
        if now is None or any(group.live.count(*run) < run[1] - run[0] for run in now):
            raise _NotNow  # a new cursor or a seek needs more
        return record.with_thinned(thinned)


def _thinned(group: Group, keeper: SegmentId | None, sizes: dict[SegmentId, int]) -> list[Segment]:
    """The group's segments as they are to be listed."""
    thinned = []
    start = group.start
    for segment in group.segments:
        stop = start + (segment.entries or 0)
        kept = group.live.count(start, stop)
        kept_in = keeper if kept else None
        thinned.append(replace(segment, size=sizes[segment.id], kept=kept, kept_in=kept_in))
        start = stop
    return thinned
