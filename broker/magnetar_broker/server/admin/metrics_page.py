"""The page for Prometheus, made at a pace that leaves the event loop to others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from magnetar_broker.base.pace import Pace
from magnetar_broker.server.http.messages import Request
from magnetar_storage.world.runtime import Clock

LARGE_PART = 4096
"""Bytes of a part of the page after which the loop is left to others."""
LEAST_PARTS, MOST_PARTS = 2, 6
"""Of such parts between two pauses: some 0.3 milliseconds each."""

Page = Sequence[bytes]
"""In parts, which are never joined."""
Wanted = Callable[[], bool]
Pause = Callable[[], Awaitable[None]]
Make = Callable[[Wanted], Awaitable[Page | None]]
"""Makes a page with figures from after the call; None once it is not wanted."""


@dataclass
class _Scrape:
    """Requests that are answered with one page."""

    requests: list[Request] = field(default_factory=list)
    page: Page | None = None

    def is_wanted(self) -> bool:
        """Whether one of the clients still waits."""
        return not all(request.is_given_up() for request in self.requests)


class MetricsPage:
    """One page is made at a time, and all requests that come meanwhile share the next one."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._turn = asyncio.Lock()
        self._next = _Scrape()

    async def scrape(self, request: Request) -> Page | None:
        """The page, with figures from after the request; None if its client has left."""
        scrape = self._next
        scrape.requests.append(request)
        async with self._turn:
            if scrape is self._next:
                self._next = _Scrape()
            if scrape.page is None and scrape.is_wanted():
                scrape.page = await self._make(scrape.is_wanted)
        return scrape.page


async def gradually(
    parts: Iterator[bytes], clock: Clock, is_wanted: Wanted, pause: Pause | None = None
) -> list[bytes]:
    """All parts, made with pauses in which the loop is left to others; fewer if not wanted.

    `pause` makes one; without it a timer does.
    Where the loop is busy each pause is long; then there are fewer, so that a scrape ends in time.
    """
    made, left = list[bytes](), LEAST_PARTS
    pause = pause or Pace(clock, 0).after
    for part in parts:
        made.append(part)
        if len(part) >= LARGE_PART or not part:
            left -= 1
        if left == 0:
            if not is_wanted():
                break
            began_ms = clock.now_ms()
            await pause()
            left = max(LEAST_PARTS, min(clock.now_ms() - began_ms, MOST_PARTS))
    return made
