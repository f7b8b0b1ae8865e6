"""Rewriting: deleting acknowledged entries between others that are still needed.

Without it, one message that waits would keep every segment from its own on.  A settled segment
of which few entries are needed is replaced: the needed entries are copied to a *sparse segment*,
one change of the record lists that instead, and then the old segment is deleted.  A sparse segment
may replace several neighbours, and is replaced itself once half of it is not needed any more.

While it is written, a sparse segment is listed as trash: whatever ends the writing, it is
deleted unless the record lists it for use.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import Corrupt, DiskFull, NoSegment, StorageError
from magnetar_storage.interfaces import (
    Replaced,
    SegmentId,
    SegmentKind,
    SegmentOrigin,
    SegmentWriter,
)
from magnetar_storage.log.log_reader import LogReader
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.log_state import LogState
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.rewritable import Group, Needed, Unit, units
from magnetar_storage.log.sparse_segment import OffsetRun, encode_map
from magnetar_storage.log.stored_record import StoredRecord
from magnetar_storage.runtime.execution import settling
from magnetar_storage.runtime.mutex import Mutex

NEEDED_OF_WHOLE = 10
"""A whole segment is rewritten when at most one of this many entries is needed."""
NEEDED_OF_KEPT = 2
"""A sparse segment is rewritten when at most one of this many entries is needed."""
COPY_BYTES = 64 << 20
"""The approximate bytes that are copied in one call."""
LOOKED_AT = 256
"""The most segments examined in one call; the next call continues after them."""
BLOCK_BYTES = 64 << 10
READ_ENTRIES = 1000


class _Postponed(Exception):
    """The segments, or their needed entries, have changed: leave them for another call."""


class Rewriting:
    """Rewrites segments of one log; one call at a time."""

    def __init__(self, state: LogState, stored: StoredRecord, entries: LogReader) -> None:
        self._state = state
        self._stored = stored
        self._entries = entries
        self._running = Mutex(state.engine.clock)
        self._next_look = 0
        self._unreadable: set[SegmentId | None] = set()  # damaged: left as they are

    async def run(self, needed: Needed, before: int, max_bytes: int) -> int:
        """Rewrite segments that end at or below `before`; returns the number of bytes freed.

        Copies about `max_bytes` at most, and leaves the rest for the next call.  If the disk has
        no room for a copy, segments of which nothing is needed are deleted all the same, and then
        `DiskFull` is raised.
        """
        # Not queued: the call that is running does the same work.
        if self._running.is_held:
            return 0
        copied = freed = 0
        no_room: DiskFull | None = None
        async with self._running.held():
            for group in self._groups(needed, before):
                size = sum(segment.size for segment in group.segments)
                try:
                    left = await self._replace(group, needed)
                except DiskFull as error:
                    # Others may need no copy, and deleting those makes room.
                    no_room = error
                    continue
                copied, freed = copied + left, freed + size - left
                if copied >= max_bytes or self._state.failed is not None:
                    self._next_look = group.stop
                    break
        if no_room is not None:
            raise no_room
        return freed

    async def ended(self) -> None:
        """Wait until nothing is being rewritten; it ends soon when the log has failed."""
        await self._running.idle()

    # Choosing -------------------------------------------------------------------

    def _groups(self, needed: Needed, before: int) -> Iterator[Group]:
        """Yield the groups that are worth replacing, each chosen when it is requested."""
        group, looked_at = Group(), 0
        for unit in units(self._state.record, min(before, self._state.end - 1)):
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
        """Return the approximate bytes that would remain of a unit; None to leave it as it is."""
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
        """Return whether a group is worth replacing; sets its `live` entries."""
        if not group.worth_it:
            return False
        live = self._live(group, needed)
        group.live = live or OffsetSet()
        return live is not None

    def _live(self, group: Group, needed: Needed) -> OffsetSet | None:
        """Return the entries of a group that are needed and not deleted; None if it must wait."""
        live = needed(group.start, group.stop, sum(unit.held for unit in group.units))
        if live is not None:
            for hole in list(self._state.holes.present(group.start, group.stop)):
                live.remove(*hole)
        return live

    # Replacing ------------------------------------------------------------------

    async def _replace(self, group: Group, needed: Needed) -> int:
        """Copy the needed entries, list the copy, delete the rest; returns the remaining bytes."""
        stored = self._stored
        sizes = dict.fromkeys((segment.id for segment in group.segments), 0)
        sparse: SegmentId | None = None
        try:
            if group.live:
                writer = await stored.create_in_trash(self._origin(group))
                sparse = writer.segment
                with self._discarding(group, sparse):
                    await self._copy(group, writer, sizes)
                    await writer.seal()  # promise: a sparse segment is sealed before it is used
            rewritten = _rewritten(group, sparse, sizes)
            # If this fails with a storage error the change may have taken place all the same:
            # the sparse segment stays `unfinished`, so that it is not deleted while in use.
            await stored.commit(partial(self._checked, group, needed, rewritten))
        except _Postponed:
            if sparse is not None:
                stored.unfinished.discard(sparse)
            await stored.empty_trash()
            return sum(segment.size for segment in group.segments)
        if sparse is not None:
            stored.unfinished.discard(sparse)
        self._apply(group)
        await stored.empty_trash()
        return sum(sizes.values())

    def _origin(self, group: Group) -> SegmentOrigin:
        """Return the origin of the sparse segment, with the record's values for the segments."""
        state, replaces = self._state, list[Replaced]()
        at, _, _ = state.segment_at(group.start)
        for number, one in enumerate(group.segments, at):
            entries, before = one.entries or 0, state.messages[number]
            replaces.append(
                Replaced(
                    one.id, state.bases[number], entries, before, one.messages,
                    one.created_ms, one.sealed_ms,
                )
            )  # fmt: skip
        return replace(self._state.origin_of(SegmentKind.KEPT), replaces=tuple(replaces))

    def _apply(self, group: Group) -> None:
        """Apply the changed record: the entries that were not copied become holes."""
        state = self._state
        state.index()
        self._entries.moved(group.segments)
        for hole in list(group.live.missing(group.start, group.stop)):
            state.holes.add(*hole)
        state.reclaimed()

    @contextmanager
    def _discarding(self, group: Group, sparse: SegmentId) -> Iterator[None]:
        """Make the sparse segment ordinary trash if the block fails: nothing uses it then."""
        try:
            yield
        except (Corrupt, NoSegment) as error:
            # A consumer that reads these entries gets the error; here they only stay where
            # they are.
            self._unreadable.add(group.copied_from)
            raise _Postponed from error
        except StorageError:
            self._stored.unfinished.discard(sparse)
            raise

    async def _copy(self, group: Group, writer: SegmentWriter, sizes: dict[SegmentId, int]) -> None:
        """Write the map and the entries; add to `sizes` the remaining bytes of each segment."""
        state = self._state
        runs: list[OffsetRun] = []
        for start, stop in list(group.live):
            group.copied_to = start
            before = await self._entries.messages_before(start)
            runs.append(OffsetRun(start, stop - start, before))
        pieces = encode_map(runs)
        await self._append(writer, pieces, [0] * len(pieces))
        end = runs[-1].first + runs[-1].entries
        payloads: list[bytes] = []
        counts: list[int] = []
        gathered = 0
        at: int | None = runs[0].first
        while at is not None:
            group.copied_to = at
            run = await self._entries.read(at, min(READ_ENTRIES, end - at), BLOCK_BYTES)
            if state.failed is not None:
                raise state.failed.again()
            if run.first != at or not run.payloads:
                raise _Postponed  # trimmed meanwhile
            stop = at + len(run.payloads)
            for first, behind in list(group.live.present(at, stop)):
                # promise[first - at : behind - at -> : behind - first]: an entry is kept in its own
                #   place
                part = run.payloads[first - at : behind - at]
                payloads += part
                counts += run.counts[first - at : behind - at]
                size = sum(map(len, part))
                sizes[state.position(first)[0]] += size
                gathered += size
            at = group.live.next_present(stop)
            if gathered >= BLOCK_BYTES or at is None:
                await self._append(writer, payloads, counts)
                payloads, counts, gathered = [], [], 0

    async def _append(
        self, writer: SegmentWriter, payloads: list[bytes], counts: list[int]
    ) -> None:
        promise = self._state.engine.clock.promise()
        writer.append(payloads, counts, settling(promise))
        await promise

    def _checked(
        self, group: Group, needed: Needed, rewritten: list[Segment], record: LogRecord
    ) -> LogRecord:
        """Return the record with the group rewritten; `_Postponed` if that is no longer valid."""
        if not set(group.segments) <= set(record.segments):
            raise _Postponed  # trimmed meanwhile
        now = self._live(group, needed)
        # promise[any(group.live.count(*run) < run[1] - run[0] for run in now) -> False]: what is
        #   needed is looked at again after the copy
        if now is None or any(group.live.count(*run) < run[1] - run[0] for run in now):
            raise _Postponed  # a new cursor or a seek needs entries that were not copied
        return record.with_rewritten(rewritten)


def _rewritten(
    group: Group, sparse: SegmentId | None, sizes: dict[SegmentId, int]
) -> list[Segment]:
    """Return the group's segments in the form in which the record lists them after rewriting."""
    rewritten = []
    start = group.start
    for segment in group.segments:
        stop = start + (segment.entries or 0)
        kept = group.live.count(start, stop)
        kept_in = sparse if kept else None
        # An incomplete copy is not needed any more: it becomes trash.
        rewritten.append(
            replace(segment, size=sizes[segment.id], kept=kept, kept_in=kept_in, copy=None)
        )
        start = stop
    return rewritten
