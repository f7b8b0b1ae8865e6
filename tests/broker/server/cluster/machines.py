"""Processes of several brokers, all in this one, that have links over real sockets."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

from fakes.loop_world import LoopClock, LoopTasks
from magnetar_broker.ipc.handshake import Greeting
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.server.cluster.link_connection import LinkSide
from magnetar_broker.server.cluster.link_connector import Address, LinkConnector
from magnetar_broker.server.cluster.link_listener import LinkListener
from magnetar_broker.server.cluster.link_security import LinkSecurity
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.ports import bound


class HandTimer:
    """A call that `HandClock.advance` makes unless it is cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class HandClock(LoopClock):
    """A clock of the running event loop whose time passes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._numbers = count()
        self._timers: list[tuple[float, int, HandTimer]] = []

    def uptime(self) -> float:
        return self._now

    def later(self, seconds: float, call: Callable[[], None]) -> HandTimer:  # type: ignore[override]
        timer = HandTimer(call)
        heapq.heappush(self._timers, (self._now + seconds, next(self._numbers), timer))
        return timer

    @property
    def waiting(self) -> int:
        """The number of timers that are set."""
        return sum(timer.call is not None for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
        self._now = until


def greeting(broker: str, cluster: str = "c-1", level: int = 1) -> Greeting:
    return Greeting(cluster, broker, "worker-0", "0.1.0", level, level)


class Machine:
    """A process of one broker, which serves `add` and knows the links that it has made."""

    def __init__(
        self,
        own: Greeting,
        security: LinkSecurity | None = None,
        clock: HandClock | None = None,
    ) -> None:
        self.clock = clock or HandClock()
        self.made: list[tuple[Greeting, Link]] = []
        self.side = LinkSide(own, security or LinkSecurity(), self._make, self.clock, LoopTimer())
        self.tasks = LoopTasks()

    def _make(self, peer: Greeting) -> Link:
        link = Link(str(peer), self.clock, self.tasks)
        link.serve({"add": lambda one, other: one + other})
        self.made.append((peer, link))
        return link

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
        """Accept links; yields the port."""
        (listening,) = bound(host, port)
        try:
            listener = LinkListener(listening, self.side, Descriptors())
        except Exception:
            listening.close()
            raise
        number: int = listening.getsockname()[1]
        listener.start()
        try:
            yield number
        finally:
            listener.stop()
            self.close()

    @asynccontextmanager
    async def connecting(
        self, broker: str, port: int, host: str = "127.0.0.1"
    ) -> AsyncIterator[SuccessiveLinks]:
        """Keep a link; yields the links."""
        links = SuccessiveLinks(f"broker {broker}", self.clock)
        connector = LinkConnector(Address(broker, host, port), self.side, links)
        running = asyncio.create_task(connector.run())
        try:
            yield links
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            links.close()
            self.close()

    def close(self) -> None:
        for _, link in self.made:
            link.close()
