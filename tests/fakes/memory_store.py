"""Segments in memory.

"Durable" means confirmed at the end of the present turn, in the order of the appends.
"""

from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from itertools import accumulate, islice

from magnetar_storage.errors import Fenced, NoSegment, StorageError, WriterFailed
from magnetar_storage.interfaces import DamagedEntries, Run, Sealed, SegmentId, SegmentOrigin
from magnetar_storage.runtime.execution import Clock, Done


class MemorySegment:
    """Entries of one segment; those from `durable` on are not confirmed yet."""

    def __init__(self, origin: SegmentOrigin) -> None:
        self.origin = origin
        self.payloads: list[bytes] = []
        self.counts: list[int] = []
        self.messages: list[int] = [0]
        self.durable = 0
        self.sealed: Sealed | None = None
        self.refusal: Exception | None = None
        self.pending: deque[tuple[int, Done]] = deque()

    def confirm(self) -> None:
        """Report every pending append as durable."""
        while self.pending:
            self.durable, done = self.pending.popleft()
            done(None)

    def seal(self, refusal: Exception) -> Sealed:
        """Confirm the pending appends, and refuse further ones."""
        self.confirm()
        self.refusal = self.refusal or refusal
        if self.sealed is None:
            size = sum(map(len, self.payloads))
            self.sealed = Sealed(self.durable, self.messages[self.durable], size)
        return self.sealed


class MemoryWriter:
    """The `SegmentWriter` of a `MemoryStore`."""

    def __init__(self, segment: SegmentId, content: MemorySegment, clock: Clock) -> None:
        self._id = segment
        self._content = content
        self._clock = clock

    @property
    def segment(self) -> SegmentId:
        return self._id

    @property
    def confirmed(self) -> int:
        return self._content.durable - 1

    def begin(self, first_offset: int, first_messages: int | None = None) -> None:
        self._content.origin = replace(
            self._content.origin, first_offset=first_offset, first_messages=first_messages
        )

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> int:
        content = self._content
        first = len(content.payloads)
        if content.refusal is not None:
            error = content.refusal
            self._clock.soon(lambda: done(error))
            return first
        content.payloads.extend(payloads)
        content.counts.extend(counts)
        content.messages.extend(islice(accumulate(counts, initial=content.messages[-1]), 1, None))
        if not content.pending:
            self._clock.soon(content.confirm)
        content.pending.append((len(content.payloads), done))
        return first

    async def seal(self) -> Sealed:
        if isinstance(self._content.refusal, Fenced | NoSegment):
            raise self._content.refusal
        return self._content.seal(WriterFailed(f"segment {self._id} is sealed"))


class MemoryReader:
    """The `SegmentReader` of a `MemoryStore`."""

    def __init__(self, content: MemorySegment) -> None:
        self._content = content

    async def read(self, first: int, max_entries: int, max_bytes: int) -> Run:
        content = self._content
        last = min(content.durable, first + max(1, max_entries))
        room, end = max_bytes, first
        while end < last:
            room -= len(content.payloads[end])
            if room < 0 and end > first:
                break
            end += 1
        return Run(first, content.payloads[first:end], content.counts[first:end])

    async def stored_bytes(self, first: int, stop: int) -> bytes:
        return b"".join(self._content.payloads[first:stop])

    async def messages_before(self, entry: int) -> int:
        return self._content.messages[entry]

    def messages_in(self, entry: int) -> int | None:
        return self._content.counts[entry]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class MemoryStore:
    """A `SegmentStore`; give the same one to a "restarted" owner to keep the entries."""

    def __init__(self, clock: Clock, other: "MemoryStore | None" = None) -> None:
        """`other` is the store of another process, over the same segments."""
        self._clock = clock
        self._segments: dict[SegmentId, MemorySegment] = {} if other is None else other._segments
        self._aside: dict[SegmentId, tuple[int, MemorySegment]] = (
            {} if other is None else other._aside
        )
        """Segments that were set aside, with the time."""
        self._creators: dict[SegmentId, MemoryStore] = {} if other is None else other._creators
        """The stores of the processes that created the segments."""
        self._has_ended = False
        # Far apart, because two processes never assign the same id.
        self._next: SegmentId = 1 if other is None else other._next + (1 << 32)
        self.damaged: list[DamagedEntries] = []
        """Entries that were set aside because they are damaged."""
        self.trouble: StorageError | None = None
        self.is_failing = False

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> MemoryWriter:
        segment = max(self._next, beyond + 1)
        self._next = segment + 1
        self._creators[segment] = self
        content = self._segments[segment] = MemorySegment(origin)
        return MemoryWriter(segment, content, self._clock)

    async def origin(self, segment: SegmentId) -> SegmentOrigin | None:
        content = self._find(segment)
        return content.origin if content.durable else None

    async def recover(self, segment: SegmentId) -> Sealed:
        return self._find(segment).seal(Fenced(f"segment {segment} was recovered"))

    async def reader(self, segment: SegmentId) -> MemoryReader:
        return MemoryReader(self._find(segment))

    async def delete(self, segment: SegmentId) -> None:
        content = self._segments.pop(segment, None)
        if content is not None:
            content.seal(NoSegment(f"segment {segment} was deleted"))

    async def segments(self) -> AsyncIterator[SegmentId]:
        for segment in sorted(filter(self._may_be_orphan, self._segments)):
            yield segment

    def closed(self) -> list[SegmentId]:
        return sorted(n for n, content in self._segments.items() if content.sealed is not None)

    async def set_aside(self, segments: Collection[SegmentId], why: str) -> dict[SegmentId, Sealed]:
        moved: dict[SegmentId, Sealed] = {}
        for segment in filter(self._may_be_orphan, self._segments.keys() & set(segments)):
            moved[segment] = await self.recover(segment)
            self._aside[segment] = self._clock.now_ms(), self._segments.pop(segment)
        return moved

    async def delete_set_aside(self, before_ms: int) -> Collection[SegmentId]:
        expired = [number for number, (at_ms, _) in self._aside.items() if at_ms < before_ms]
        for segment in expired:
            del self._aside[segment]
        return expired

    async def keep_damaged(self, entries: Sequence[DamagedEntries], why: str) -> None:
        self.damaged += entries

    async def close(self) -> None:
        for content in self._segments.values():
            content.confirm()

    def end(self) -> None:
        """End the process, as a kill does: nothing that it does later has an effect."""
        self._has_ended = True
        for segment, creator in self._creators.items():
            content = self._segments.get(segment)
            if creator is self and content is not None:
                content.seal(Fenced("the process has ended"))

    def _may_be_orphan(self, segment: SegmentId) -> bool:
        creator = self._creators.get(segment, self)
        return creator is self or creator._has_ended

    def _find(self, segment: SegmentId) -> MemorySegment:
        if segment in self._aside:
            _, self._segments[segment] = self._aside.pop(segment)
        content = self._segments.get(segment)
        if content is None:
            raise NoSegment(f"there is no segment {segment}")
        return content
