"""Reads of segments of another session, whose process may move them to other packs meanwhile."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import Run, SegmentReader

T = TypeVar("T")


class ForeignReader:
    """A `SegmentReader` that looks a segment up again if a pack of it is missing."""

    def __init__(self, reader: SegmentReader, reload: Callable[[], Awaitable[object]]) -> None:
        """`reload` reads the present places of all segments of the session."""
        self._reader = reader
        self._reload = reload

    async def read(self, first: int, max_entries: int, max_bytes: int) -> Run:
        return await self._again(lambda: self._reader.read(first, max_entries, max_bytes))

    async def stored_bytes(self, first: int, stop: int) -> bytes:
        return await self._again(lambda: self._reader.stored_bytes(first, stop))

    async def messages_before(self, entry: int) -> int:
        return await self._reader.messages_before(entry)

    def messages_in(self, entry: int) -> int | None:
        return self._reader.messages_in(entry)

    def close(self) -> None:
        self._reader.close()

    async def _again(self, read: Callable[[], Awaitable[T]]) -> T:
        try:
            return await read()
        except Unavailable:
            # promise[await self._reload() -> pass]: a segment that its process has moved is read
            await self._reload()
        return await read()
