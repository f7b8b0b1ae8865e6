"""A worker's metrics page, which the controller fetches in pieces over their link."""

import asyncio

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.ipc.answer_within import answer_within
from magnetar_broker.ipc.link import Link
from magnetar_broker.server.pages.metrics_page import IsWanted, Make, Page
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Clock

NEXT, DROP = "metrics.next", "metrics.drop"
PIECE_BYTES = 256 * 1024
SIGN_SECONDS = 1.0
"""The interval, in seconds, at which a worker that is making its page shows that it runs."""
SILENCE_SECONDS = 3.0
"""The time after which a worker that does not answer is left out of the page."""


class LinkedPage:
    """The pages of a worker.  One is made at a time: a request for another page ends it."""

    def __init__(self, make: Make, link: Link, loop_timer: LoopTimer) -> None:
        """Serve the pages; create it before the link is connected."""
        self._make = make
        self._loop_timer = loop_timer
        self._number = 0
        """The number of the page being made or sent; 0 if there is none."""
        self._making: asyncio.Task[Page | None] | None = None
        self._sent = 0
        """The number of parts of the page sent so far."""
        link.serve({NEXT: self._next, DROP: self._drop})
        # promise: a worker drops its page when the controller has ended
        link.when_ended(lambda: self._drop(self._number))

    async def _next(self, number: int) -> list[bytes] | None:
        """Return the next parts of a page: empty while it is being made, None at its end."""
        making = self._making
        if making is None or number != self._number:
            making = self._making = self._begin(number)
        # promise[without , timeout=SIGN_SECONDS]: a worker that takes long with its page shows that
        #   it lives
        await asyncio.wait((making,), timeout=SIGN_SECONDS)
        if not making.done():
            return []
        page = making.result()
        if page is None or number != self._number:
            return None
        first, size = self._sent, 0
        while self._sent < len(page) and size < PIECE_BYTES:
            size += len(page[self._sent])
            self._sent += 1
        return list(page[first : self._sent]) or None

    def _begin(self, number: int) -> "asyncio.Task[Page | None]":
        async def make() -> Page | None:
            return await self._make(lambda: number == self._number)

        self._number, self._sent = number, 0
        return asyncio.create_task(self._loop_timer.measured("http", make()))

    def _drop(self, number: int) -> None:
        """Drop a page because the controller no longer needs it."""
        if number == self._number:
            self._number, self._making = 0, None  # the task ends soon


async def page_of(link: Link, number: int, clock: Clock, is_wanted: IsWanted) -> Page | None:
    """Return the page of a worker; None if it has ended, is silent, or the page is not wanted.

    `number`, from 1, must be another one for each page.
    """
    page: list[bytes] = []
    try:
        while is_wanted():
            parts = await answer_within(clock, SILENCE_SECONDS, link, NEXT, number)
            if parts is None:
                return page
            page += parts
    # promise[(BrokerError, StorageError) -> KeyError]: a worker without a page does not spoil the
    #   page
    except (BrokerError, StorageError):
        pass  # the page of all workers shows how many have answered
    finally:
        link.notify(DROP, number)  # promise: a worker drops a page that nobody awaits
    return None
