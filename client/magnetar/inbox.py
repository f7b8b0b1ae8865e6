"""What was received and not yet taken by the application."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from magnetar.errors import MagnetarError, OperationTimeout


class Source(Protocol):
    """Who put something into an inbox, and wants to hear when it is taken."""

    def taken(self, permits: int) -> None:
        """The application took items worth so many messages."""


class Item(Protocol):
    """Something an inbox holds."""

    @property
    def permits(self) -> int: ...
    @property
    def source(self) -> Source: ...


T = TypeVar("T", bound=Item)


class Inbox(Generic[T]):
    """A queue that several partitions fill; permits bound it, not the queue itself."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._changed = asyncio.Event()
        self._error: MagnetarError | None = None

    def put(self, items: Iterable[T]) -> None:
        """Append; wakes who waits."""
        self._items.extend(items)
        self._changed.set()

    def drop(self, source: Source) -> int:
        """Forget what this source put: it will be delivered again; how many permits that is."""
        dropped = [item.permits for item in self._items if item.source is source]
        if dropped:
            self._items = deque(item for item in self._items if item.source is not source)
        return sum(dropped)

    def fail(self, error: MagnetarError) -> None:
        """Raise this to whoever asks, once what is queued has been taken."""
        if self._error is None:
            self._error = error
        self._changed.set()

    async def take(self, max_items: int, timeout_s: float | None) -> list[T]:
        """At least one item and at most so many; OperationTimeout when none came in time."""
        if not self._items:
            await self._wait(timeout_s)
        items = self._items
        taken = [items.popleft() for _ in range(min(max_items, len(items)))]
        permits: dict[Source, int] = {}
        for item in taken:
            source = item.source
            permits[source] = permits.get(source, 0) + item.permits
        for source, count in permits.items():
            source.taken(count)
        return taken

    async def _wait(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not self._items:
                    if self._error is not None:
                        raise self._error
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            if self._error is not None and not self._items:
                raise self._error from None
            raise OperationTimeout(f"nothing was received within {timeout_s:g} s") from None
