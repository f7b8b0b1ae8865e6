"""The page for Prometheus, made at a pace that lets the event loop do other work."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from magnetar_broker.base.pace import Slices
from magnetar_broker.server.http.messages import Request

Page = Sequence[bytes]
"""A page in parts that are never joined."""
IsWanted = Callable[[], bool]
Make = Callable[[IsWanted], Awaitable[Page | None]]
"""A function that makes a page with figures from after the call; None if it is no longer wanted."""


@dataclass
class _Scrape:
    """Requests that are answered with the same page."""

    requests: list[Request] = field(default_factory=list)
    page: Page | None = None

    def is_wanted(self) -> bool:
        """Return whether any of the clients still waits for the page."""
        return not all(request.is_given_up() for request in self.requests)


class MetricsPage:
    """Makes one page at a time; requests that arrive meanwhile share the next page."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._turn = asyncio.Lock()
        self._next = _Scrape()

    async def scrape(self, request: Request) -> Page | None:
        """Return a page with figures from after the request; None if its client has left."""
        scrape = self._next
        scrape.requests.append(request)
        async with self._turn:
            if scrape is self._next:
                self._next = _Scrape()
            if scrape.page is None and scrape.is_wanted():
                scrape.page = await self._make(scrape.is_wanted)
        return scrape.page


async def gradually(parts: Iterator[bytes], is_wanted: IsWanted, slices: Slices) -> list[bytes]:
    """Return all parts, made in slices of the loop's time; stop when no client waits."""
    made = list[bytes]()
    for part in parts:
        made.append(part)
        if await slices.after() and not is_wanted():
            break
    return made
