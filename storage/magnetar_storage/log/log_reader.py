"""Reading a log: from its segments, and from the sparse segments of rewritten ones.

Deleted entries are holes.  A read at a hole returns the entries after it.  Cursors count holes
as acknowledged (`Cursor.skip_reclaimed`), so dispatchers never ask for one.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import Run, SegmentCopy, SegmentId, SegmentReader
from magnetar_storage.log.damage import LASTING, Damage
from magnetar_storage.log.log_record import Segment
from magnetar_storage.log.log_state import LogState
from magnetar_storage.log.read_budget import ReadBudget
from magnetar_storage.log.sparse_segment import SparseReader

MAX_READERS = 16
"""The most readers of each kind that a log keeps open; the one opened first is closed first."""


class Closes(Protocol):
    def close(self) -> None: ...


R = TypeVar("R", bound=Closes)


class Readers(Generic[R]):
    """Open readers by segment."""

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        self._readers: dict[SegmentId, R] = {}

    async def get(self, segment: SegmentId, opening: Callable[[SegmentId], Awaitable[R]]) -> R:
        """Return the segment's reader; `opening` opens it if it is not open."""
        reader = self._readers.get(segment)
        if reader is None:
            reader = await opening(segment)
            if segment in self._readers:  # another coroutine opened one meanwhile
                reader.close()
                return self._readers[segment]
            self._readers[segment] = reader
            if len(self._readers) > MAX_READERS:
                self._readers.pop(next(iter(self._readers))).close()
        return reader

    def present(self, segment: SegmentId | None) -> R | None:
        """Return the segment's reader; None if it is not open."""
        return None if segment is None else self._readers.get(segment)

    def drop(self, segment: SegmentId) -> None:
        """Close the segment's reader, if it is open."""
        reader = self._readers.pop(segment, None)
        if reader is not None:
            reader.close()

    def clear(self) -> None:
        """Close all readers."""
        while self._readers:
            self._readers.popitem()[1].close()


class LogReader:
    """Reads a log's entries by offset, and counts their messages."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._store = state.engine.store
        self._segments: Readers[SegmentReader] = Readers()
        self._copies: Readers[SegmentReader] = Readers()
        self._sparse: Readers[SparseReader] = Readers()
        self.from_cache = self.from_disk = 0
        """Entries that were read for delivery; counted by the callers that deliver."""
        self._prefers_copies = False

    @property
    def prefers_copies(self) -> bool:
        """Whether a segment that is both in the store and copied is read from the copy."""
        return self._prefers_copies

    @prefers_copies.setter
    def prefers_copies(self, prefers: bool) -> None:
        if prefers == self._prefers_copies:
            return
        self._prefers_copies = prefers
        unused = self._segments if prefers else self._copies
        for segment in self._state.record.segments:
            if segment.is_copied and not segment.is_remote:
                # promise: readers that are not used any more are closed
                unused.drop(segment.id)

    async def _segment(self, segment: Segment) -> SegmentReader:
        """Return a reader of a whole segment: of the store, or of the copy."""
        copy = segment.copy
        if copy is not None and self._reads(copy):
            opening = partial(self._state.engine.copies.reader, copy=copy)
            # promise[_copies -> _segments]: a reader of the store is not taken for one of the copy
            return await self._copies.get(segment.id, opening)
        return await self._segments.get(segment.id, self._store.reader)

    async def _sparse_segment(self, segment: SegmentId) -> SparseReader:
        return await self._sparse.get(segment, partial(SparseReader.open, self._store))

    def _reads(self, copy: SegmentCopy) -> bool:
        """Return whether the entries of a segment with this copy are read from it."""
        return copy.is_only or (copy.completed_ms > 0 and self.prefers_copies)

    def budget_at(self, offset: int) -> ReadBudget:
        """Return the budget of a read at an offset: stores of objects have one of their own."""
        state = self._state
        at = bisect_right(state.bases, offset) - 1
        copy = state.record.segments[at].copy if at >= 0 else None
        # promise[self._reads(copy) -> False]: reads of a store of objects that does not answer hold
        #   up no read of the data directory
        is_remote = copy is not None and self._reads(copy)
        return state.engine.reading_copies if is_remote else state.engine.reading

    def close(self) -> None:
        """Close all readers; they are opened again when they are needed."""
        self._segments.clear()
        self._copies.clear()
        self._sparse.clear()

    def moved(self, segments: list[Segment]) -> None:
        """Close the readers of segments whose entries were deleted or copied elsewhere."""
        self._state.engine.damage.forget_segments([segment.id for segment in segments])
        for segment in segments:
            self._segments.drop(segment.id)
            self._copies.drop(segment.id)
            if segment.kept_in is not None and segment.kept_in not in self._state.record.stored:
                self._sparse.drop(segment.kept_in)

    # Entries --------------------------------------------------------------------

    async def read(self, offset: int, max_entries: int, max_bytes: int) -> Run:
        """Read the first entries present from `offset` on: a run of one segment, without holes.

        The run begins later than requested if entries there were trimmed or reclaimed.  An
        empty run is the end.  `Corrupt` or `NoSegment` if the first entry cannot be read:
        `behind_damage` is where to continue.
        """
        state = self._state
        while True:
            offset = state.holes.next_missing(max(offset, state.first_offset))
            if offset >= state.end:
                return Run(offset, [], ())
            _, segment, base = state.segment_at(offset)
            # To the end of the segment, or the next hole: later entries are stored elsewhere.
            stop = min(state.segment_end(offset), state.holes.next_present(offset) or state.end)
            limit = min(max_entries, stop - offset)
            try:
                return await self._read_in(segment, base, offset, limit, max_bytes)
            except StorageError as error:
                if segment in state.record.segments:
                    if isinstance(error, LASTING):
                        # promise: damage that a read meets is known from then on
                        state.engine.damage.add(self.damage_at(offset, error))
                    raise
                # It was trimmed, rewritten or moved to a store of objects while it was read: look
                # again where its entries are.

    def behind_damage(self, offset: int, error: Corrupt | NoSegment) -> int:
        """Return the offset at which to continue after `read` raised `error`: after the entries
        that the error names, or after the segment if it names none."""
        state = self._state
        offset = state.holes.next_missing(max(offset, state.first_offset))
        stop = state.segment_end(offset)
        if isinstance(error, Corrupt) and error.last_entry is not None:
            stop = min(stop, offset + error.last_entry + 1 - state.position(offset)[1])
        return max(stop, offset + 1)

    def damage_at(self, offset: int, error: Corrupt | NoSegment) -> Damage:
        """Return the entries that cannot be read, after `read` at `offset` raised `error`."""
        state = self._state
        ledger, entry = state.position(offset)
        last = entry + self.behind_damage(offset, error) - 1 - offset
        now_ms = state.engine.clock.now_ms()
        if isinstance(error, NoSegment):
            return Damage(ledger, 0, last, str(error), log=state.key, found_ms=now_ms)
        first = min(error.first_entry or 0, entry)
        return Damage(ledger, first, last, error.why, error.file, error.offset, state.key, now_ms)

    async def _read_in(
        self, segment: Segment, base: int, offset: int, max_entries: int, max_bytes: int
    ) -> Run:
        if segment.is_whole:
            reader = await self._segment(segment)
            run = await reader.read(offset - base, max_entries, max_bytes)
            return Run(run.first + base, run.payloads, run.counts)
        if segment.kept_in is None:
            raise NoSegment(f"all entries of segment {segment.id} were deleted")
        try:
            sparse = await self._sparse_segment(segment.kept_in)
            return await sparse.read(offset, max_entries, max_bytes)
        except Corrupt as error:
            # A sparse segment names offsets; callers of a log know positions.
            raise _in_ledger(error, segment, base) from error

    async def stored_bytes(self, offset: int, stop: int) -> bytes:
        """Read the bytes in which the entries offset..stop-1 of one segment are stored, unchecked.

        The bytes are whole records, which may contain further entries; empty if nothing is left.
        """
        _, segment, base = self._state.segment_at(offset)
        try:
            if segment.is_whole:
                reader = await self._segment(segment)
                return await reader.stored_bytes(offset - base, stop - base)
            if segment.kept_in is not None:
                sparse = await self._sparse_segment(segment.kept_in)
                return await sparse.stored_bytes(offset, stop)
        except LASTING:
            pass  # the file is missing, or the map of a sparse segment cannot be read
        return b""

    async def first_where(self, holds: Callable[[bytes], bool], low: int = 0) -> int:
        """Find the first offset whose payload satisfies `holds`, by binary search; else the end.

        None below `low` does, which saves reads.

        Once `holds` is true it must be true for all later entries.  An entry that is in a hole or
        cannot be read counts as the next one that can be read.
        """
        low, high = max(low, self._state.first_offset), self._state.end
        while low < high:
            middle = (low + high) // 2
            run = await self._readable(middle, high)
            if not run.payloads or holds(run.payloads[0]):
                high = middle
            else:
                low = run.first + 1
        return min(self._state.holes.next_missing(low), self._state.end)

    async def _readable(self, offset: int, before: int) -> Run:
        """Read the first readable entry in offset..before-1; an empty run if there is none."""
        while offset < before:
            try:
                return await self.read(offset, 1, 1)
            except (Corrupt, NoSegment) as error:
                # A seek by time must not fail for damage that it only passes.
                offset = self.behind_damage(offset, error)
        return Run(offset, [], ())

    # Messages -------------------------------------------------------------------

    def messages_at(self, offset: int) -> int | None:
        """Return the number of messages in an entry; None if it is not known without reading."""
        state = self._state
        run = state.tail.get(offset, 1, 1)
        if run is not None:
            return run.counts[0]
        if not state.first_offset <= offset < state.end or offset in state.holes:
            return None
        _, segment, base = state.segment_at(offset)
        if segment.is_whole:
            # Only if it is open: callers cannot wait, and opening a segment may read files.
            reader = self._segments.present(segment.id) or self._copies.present(segment.id)
            return None if reader is None else reader.messages_in(offset - base)
        sparse = self._sparse.present(segment.kept_in)
        return None if sparse is None else sparse.messages_in(offset)

    async def messages_before(self, offset: int, estimates: bool = False) -> int:
        """Return the number of messages of the whole history before `offset`.

        The number is exact at every entry that is present, right after it, and at the borders of
        segments.  Inside a hole it is the number at the end of the hole, or of its segment.
        With `estimates` nobody waits for the network: inside a segment that is only in a store of
        objects, and is not open, its messages count as spread evenly over its entries.
        """
        state = self._state
        if offset >= state.end:
            return state.messages_end
        if offset <= state.first_offset:
            return state.record.first_messages
        at, segment, base = state.segment_at(offset)  # valid until the next await only
        messages = await self._messages_base(at)
        if estimates and segment.is_remote and self._copies.present(segment.id) is None:
            return messages + (offset - base) * segment.messages // (segment.entries or 1)
        if segment.is_whole:
            reader = await self._segment(segment)
            return messages + await reader.messages_before(offset - base)
        behind = messages + segment.messages
        if offset == base or segment.kept_in is None:
            return messages if offset == base else behind
        sparse = await self._sparse_segment(segment.kept_in)
        within = await sparse.messages_before(offset)
        return behind if within is None else min(within, behind)

    async def _messages_base(self, at: int) -> int:
        """Return the number of messages before a segment, settled or not."""
        state = self._state
        if state.messages[at] >= 0:
            return state.messages[at]
        before, entries = state.record.segments[at - 1], state.bases[at] - state.bases[at - 1]
        messages = await self._messages_base(at - 1)
        reader = await self._segment(before)
        return messages + await reader.messages_before(entries)

    # Holes ----------------------------------------------------------------------

    async def find_holes(self) -> None:
        """Set the log's `holes` from the maps of the sparse segments.

        The map of a damaged sparse segment is unknown: none of its offsets counts as a hole, so
        that a consumer that still needs one of the entries gets the error when it reads.
        """
        state = self._state
        state.holes.clear()
        for segment, base in zip(state.record.segments, state.bases, strict=True):
            stop = base + (segment.entries or 0)
            if segment.kept_in is not None:
                with suppress(Corrupt, NoSegment):
                    sparse = await self._sparse_segment(segment.kept_in)
                    state.holes.add(base, stop)
                    for run in sparse.map.runs(base, stop):
                        state.holes.remove(*run)
            elif not segment.is_whole:
                state.holes.add(base, stop)  # promise: holes are known after a restart
            for first, behind in segment.lost:
                # promise: entries that were set aside stay so after a restart
                state.holes.add(base + first, min(base + behind, stop))


def _in_ledger(error: Corrupt, segment: Segment, base: int) -> Corrupt:
    """Convert damage in a sparse segment to the entry numbers in the ledger on the wire."""
    if error.first_entry is None or error.last_entry is None:
        return error
    last = min(error.last_entry - base, (segment.entries or 0) - 1)
    first = max(error.first_entry - base, 0)
    return Corrupt(error.file, error.offset, error.why, segment.id, first, last)
