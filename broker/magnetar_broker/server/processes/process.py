"""The part that controller and workers share: their start, and the links to other processes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.server.runtime.event_loop import LoopFactory
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.phases import Phases
from magnetar_broker.server.supervision.children import Context
from magnetar_broker.server.supervision.control import CheckFiles, Message, Peer, Ready, Stop

logger = logging.getLogger(__name__)

P = TypeVar("P")


class Process:
    """The event loop, threads and control socket of one process of a broker."""

    def __init__(self, context: Context) -> None:
        """Prepare the process; an event loop must be running."""
        loop = asyncio.get_running_loop()
        self.context = context
        self.phases = Phases(context.began_at)
        self.phases.end("fork and event loop")
        self.loop_timer = LoopTimer()
        self.clock = LoopClock(loop, self.loop_timer)
        self.tasks = LoopTasks(loop, self.loop_timer)
        self.threads = ThreadWorkers(loop, self.loop_timer)
        self.loop_timer.watch_garbage()
        self._loop = loop
        self._stop = asyncio.Event()
        self._early: list[Peer] = []
        self._meet: Callable[[Peer], None] = self._early.append
        self._obey: Callable[[Message], None] | None = None
        self.check_files: Callable[[], None] = lambda: None
        """Called when the supervisor asks for a check of the TLS files."""
        loop.add_reader(context.control.fileno(), self._read)
        self._report_alive()

    def meet(self, take: Callable[[Peer], None]) -> None:
        """Call `take` with every other process, now or when it is announced."""
        self._meet = take
        while self._early:
            take(self._early.pop(0))

    def obey(self, take: Callable[[Message], None]) -> None:
        """Call `take` with every message of the supervisor that this class does not handle."""
        self._obey = take

    def ready(self) -> None:
        """Report that the start is complete."""
        logger.info("ready after %s", self.phases)
        self.context.control.send(Ready())

    def report(self, message: Message) -> None:
        """Send a message to the supervisor, unless that has ended."""
        with suppress(ConnectionError):
            self.context.control.send(message)

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, a step of the start; cancel it when the supervisor asks to stop.

        The work may wait for another process, which may have ended.
        """
        working = self._loop.create_task(work)
        stopping = self._loop.create_task(self._stop.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()  # promise: a start does not wait for a worker that has ended
        with suppress(asyncio.CancelledError):
            await working

    def stop(self) -> None:
        """Stop as if the supervisor had asked for it, which then starts the process again."""
        self._stop.set()

    async def stopped(self) -> None:
        """Wait until the supervisor asks to stop or has ended, or `stop` is called."""
        await self._stop.wait()

    def end(self) -> None:
        """End the threads; call it last."""
        self._next_report.cancel()
        self._loop.remove_reader(self.context.control.fileno())
        self.loop_timer.ignore_garbage()
        self.threads.stop()

    def _report_alive(self) -> None:
        # The loop itself reports: a loop that hangs must not look alive.
        self.context.control.report_alive()
        # promise[self.context.report_seconds -> 1e9]: a process reports that it runs
        self._next_report = self.clock.later(self.context.report_seconds, self._report_alive)

    def _read(self) -> None:
        for message in self.context.control.receive():
            if isinstance(message, Peer):
                self._meet(message)
            elif isinstance(message, CheckFiles):
                self.check_files()
            elif isinstance(message, Stop):
                self.stop()
                self._loop.remove_reader(self.context.control.fileno())
            else:
                assert self._obey is not None, message
                self._obey(message)


class Part(Protocol):
    """The controller, or a worker."""

    async def run(self) -> None:
        """Serve until the supervisor asks it to stop."""


def run(
    make: Callable[[P, Process], Part], factory: LoopFactory, prepared: P, context: Context
) -> None:
    """Run the controller or a worker until the supervisor asks it to stop."""

    async def main() -> None:
        process = Process(context)
        try:
            await make(prepared, process).run()
        finally:
            process.end()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
