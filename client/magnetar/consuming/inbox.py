"""The queue between the connections and the application."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Generic, Protocol, TypeVar

from magnetar.base.errors import MagnetarError, OperationTimeout
from magnetar.base.memory import MemoryLimit
from magnetar.clock import EVENT_LOOP, Clock
from magnetar.messages import Message


class Source(Protocol):
    """The partition that puts items into an inbox."""

    def taken(self, permits: int) -> None:
        """Called when the application has taken items that the broker counts as `permits`."""


class Item(Protocol):
    """An item of an inbox."""

    @property
    def permits(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def source(self) -> Source: ...


T = TypeVar("T", bound=Item)


@dataclass(frozen=True, slots=True)
class Failure:
    """Takes the place of an item that could not be decoded: `take` raises the error, once."""

    error: MagnetarError
    source: Source
    permits: int
    size: int = 0


class Inbox(Generic[T]):
    """A queue that several partitions fill; it is bounded by permits, not by itself."""

    def __init__(self, memory: MemoryLimit | None = None, clock: Clock = EVENT_LOOP) -> None:
        self.clock = clock
        self.memory = memory or MemoryLimit()
        self._counts = self.memory.limit > 0
        """Whether the memory limit includes the items of the inbox."""
        self._items: deque[T | Failure] = deque()
        self._failures = 0
        """The number of items that are failures: if 0, `take` need not examine the items."""
        self._changed = asyncio.Event()
        self._wanted = 0
        """The number of further items that the waiting application takes when it runs.

        If several tasks wait, this is only a lower bound: the number that the last of them wants.
        """
        self._error: MagnetarError | None = None
        self._on_demand: list[Callable[[], None]] = []
        self._on_taken: dict[Source, Callable[[list[T]], None]] = {}
        self.prepare: Callable[[list[T]], Awaitable[None] | None] | None = None
        """Called with the items that `take` is about to return; if the result is awaitable, `take`
        awaits it, and calls again."""

    def on_taken(self, source: Source, report: Callable[[list[T]], None]) -> None:
        """Call `report` with the items of this source that the application takes."""
        self._on_taken[source] = report

    def on_demand(self, ask: Callable[[], None]) -> None:
        """Call `ask` whenever the application waits for an item: first, and after each wake."""
        self._on_demand.append(ask)

    def __len__(self) -> int:
        """Return the number of items, failures included, that can be taken at once."""
        return len(self._items)

    def forget(self, source: Source) -> None:
        """Stop the reports to a source; its items stay."""
        self._on_taken.pop(source, None)

    def forget_demand(self, *on_demand: Callable[[], None]) -> None:
        """Remove these callbacks from `on_demand`."""
        self._on_demand = [ask for ask in self._on_demand if ask not in on_demand]

    def wake(self) -> None:
        """Let a waiting application ask again: the items it asked for did not come."""
        self._changed.set()

    def put(self, items: Iterable[T]) -> None:
        """Append items, and wake tasks that wait for items."""
        if self._counts:
            items = list(items)  # it may be an iterator, and is read twice
            self._items.extend(items)
            self.memory.receives(sum(item.size for item in items))
        else:
            self._items.extend(items)
        self._changed.set()

    def claim(self, count: int) -> int:
        """Return how many of the `count` items just put are claimed by a waiting application."""
        claimed = min(count, self._wanted)
        self._wanted -= claimed
        return claimed

    def put_failure(self, failure: Failure) -> None:
        """Append an error, which `take` raises when all earlier items were taken."""
        self._items.append(failure)
        self._failures += 1
        self._changed.set()

    def drop(self, source: Source, position: tuple[int, int] | None = None) -> int:
        """Remove the items of this source, which will be redelivered; return their permits.

        With `position`, remove only the messages of that entry.
        """
        dropped = [item for item in self._items if item.source is source]
        if position is not None:
            dropped = [item for item in dropped if _position_of(item) == position]
        if dropped:
            gone = set(map(id, dropped))
            self._items = deque(item for item in self._items if id(item) not in gone)
            self._failures -= sum(isinstance(item, Failure) for item in dropped)
            self._uncount(dropped)
        return sum(item.permits for item in dropped)

    def fail(self, error: MagnetarError) -> None:
        """Raise this error from every `take` after the queued items were taken."""
        if self._error is None:
            self._error = error
        # The application may now drop the consumer with all its items.
        self._uncount(self._items)
        self._counts = False
        self._changed.set()

    def _uncount(self, items: Iterable[T | Failure]) -> None:
        if self._counts:
            self.memory.receives(-sum(item.size for item in items))

    async def take(self, max_items: int, timeout_s: float | None) -> list[T]:
        """Return 1 to `max_items` items; OperationTimeout if none arrives in time.

        A `Failure` is raised alone, by the call that finds it at the head of the queue.
        """
        if not self._items:
            await self._wait(timeout_s, max_items)
        if self.prepare is not None:
            await self._prepared(self.prepare, max_items, timeout_s)
        taken = self._take_readable(max_items) if self._failures else self._pop(max_items)
        # One report for each partition, however many messages are taken.
        permits: dict[Source, int] = {}
        for item in taken:
            source = item.source
            permits[source] = permits.get(source, 0) + item.permits
        for source, count in permits.items():
            source.taken(count)
        for source, report in self._on_taken.items() if self._on_taken else ():
            if len(permits) == 1 and source in permits:  # the usual case, without a copy
                report(taken)
            elif source in permits:
                report([item for item in taken if item.source is source])
        return taken

    async def _prepared(
        self,
        prepare: Callable[[list[T]], Awaitable[None] | None],
        max_items: int,
        timeout_s: float | None,
    ) -> None:
        """Wait until the next items are prepared; they stay in the queue meanwhile."""
        try:
            async with self.clock.timeout(timeout_s):
                while True:
                    if not self._items:  # the items were dropped, and are redelivered
                        await self._wait(None)
                    head = list(islice(self._items, max_items))
                    waiting = prepare([item for item in head if not isinstance(item, Failure)])
                    if waiting is None:
                        return
                    # promise[await waiting -> return]: a message waits for its schema
                    await waiting
        except TimeoutError:
            raise OperationTimeout(
                f"the schemas of received messages did not arrive within {timeout_s:g} s"
            ) from None

    def _pop(self, max_items: int) -> list[T]:
        items = self._items
        popped: list[T] = [items.popleft() for _ in range(min(max_items, len(items)))]  # type: ignore[misc]
        self._uncount(popped)
        return popped

    def _take_readable(self, max_items: int) -> list[T]:
        """Pop the items before the first failure; if that is at the head, raise its error."""
        head = self._items[0]
        if isinstance(head, Failure):
            self._items.popleft()
            self._failures -= 1
            head.source.taken(head.permits)
            raise head.error
        readable = takewhile(lambda item: not isinstance(item, Failure), self._items)
        return self._pop(sum(1 for _ in islice(readable, max_items)))

    async def _wait(self, timeout_s: float | None, max_items: int = 0) -> None:
        self._wanted = max_items
        try:
            async with self.clock.timeout(timeout_s):
                while not self._items:
                    if self._error is not None:
                        raise self._error
                    # In every round: what was asked for may have been dropped on arrival.
                    for ask in self._on_demand:
                        ask()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            # An error that came in the same turn as the timeout says more.
            if self._error is not None and not self._items:
                raise self._error from None
            raise OperationTimeout(f"nothing was received within {timeout_s:g} s") from None
        finally:
            self._wanted = 0  # what arrives while nobody waits keeps its permits


def _position_of(item: object) -> tuple[int, int] | None:
    return item.entry.position if isinstance(item, Message) else None
