"""The writer of a segment of this process's session."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from magnetar_storage.errors import StorageError, WriterFailed
from magnetar_storage.interfaces import Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.runtime.execution import Clock, Done
from magnetar_storage.wal.slot_writer import SlotWriter


class SessionWriter:
    """The `SegmentWriter` of a `SessionStore`."""

    __slots__ = ("_clock", "_encoded", "_next", "_origin", "_refused", "_seal", "_wal", "one")

    def __init__(
        self,
        one: LocalSegment,
        wal: SlotWriter,
        clock: Clock,
        origin: SegmentOrigin,
        encoded: Callable[[SegmentId, SegmentOrigin], bytes],
        refused: Callable[[], StorageError | None],
        seal: Callable[["SessionWriter", StorageError], Coroutine[Any, Any, Sealed]],
    ) -> None:
        """`encoded` encodes the origin for the log; `refused` returns the error with which all
        appends fail at present, or None."""
        self.one = one
        self._wal = wal
        self._clock = clock
        self._next = 0
        self._origin: SegmentOrigin | None = origin  # until it is in the log
        self._encoded = encoded
        self._refused = refused
        self._seal = seal

    @property
    def segment(self) -> SegmentId:
        return self.one.id

    @property
    def confirmed(self) -> int:
        return self.one.confirmed

    @property
    def is_idle(self) -> bool:
        """Whether all entries that were appended are durable."""
        return self._next == self.one.index.entries

    def begin(self, first_offset: int, first_messages: int | None = None) -> None:
        if self._origin is not None:
            self._origin = replace(
                self._origin, first_offset=first_offset, first_messages=first_messages
            )

    def append(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> int:
        first, one = self._next, self.one
        if one.refusal is None and (error := self._refused()) is not None:
            # promise: an append behind one that was refused is refused, too
            one.refusal = WriterFailed(f"an append to segment {one.id} was refused: {error}")
        if one.refusal is not None:
            # Later, as always: a caller is not called back during its call.
            self._clock.soon(partial(done, one.refusal.again()))
            return first
        origin = None
        if self._origin is not None:
            # promise[self._encoded(one.id, self._origin) -> None]: a segment that has entries has
            #   its origin
            origin = self._encoded(one.id, self._origin)
            self._origin = None
        self._next = first + len(payloads)
        self._wal.append(one.id, first, payloads, counts, done, origin)
        return first

    async def seal(self) -> Sealed:
        one = self.one
        if one.refusal is not None and one.sealed is None:
            raise one.refusal.again()
        return await self._seal(self, WriterFailed(f"segment {one.id} is sealed"))
