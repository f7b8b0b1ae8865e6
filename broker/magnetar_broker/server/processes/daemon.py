"""The daemon: opens the data directory, listens, serves, and stops in order."""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from dataclasses import replace

from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.expiry.shared_objects import SharedObjects
from magnetar_broker.expiry.stray_objects import StrayObjects
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.server.admin.context import AdminContext
from magnetar_broker.server.clients.authentication import authenticator_of
from magnetar_broker.server.clients.listener import Listener
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.pages.audit import audit_log
from magnetar_broker.server.pages.http_authentication import http_authentication_of
from magnetar_broker.server.pages.web_pages import web_pages_of
from magnetar_broker.server.processes.banner import banner
from magnetar_broker.server.processes.http_server import HttpServer, sole_context
from magnetar_broker.server.runtime.advertised import advertised
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.event_loop import LoopFactory
from magnetar_broker.server.runtime.garbage import CHECK_SECONDS, CLOSED_TOPICS, Garbage
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.phases import Phases
from magnetar_broker.server.runtime.ports import open_ports
from magnetar_broker.server.runtime.process_runtime import SoleRuntime
from magnetar_broker.server.storage import SoleStorage, storage_of
from magnetar_broker.server.tls.contexts import Contexts, uses_tls
from magnetar_broker.standalone import standalone
from magnetar_storage.runtime.execution import Clock

logger = logging.getLogger(__name__)


class Daemon:
    """One broker in one process, on one data directory."""

    def __init__(self, settings: Settings, phases: Phases) -> None:
        """`phases` are the phases of the start so far."""
        self.settings = settings
        self._phases = phases
        self._storage = storage_of(settings)
        self._stop = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        """The task that opens the storage, until it is open."""
        self._loop_timer = LoopTimer()
        self._authenticator = authenticator_of(settings)
        self._contexts: Contexts | None = None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; raises the error that prevents the start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        timer = self._loop_timer
        threads = ThreadWorkers(loop, timer)
        timer.watch_garbage()
        process = SoleRuntime(LoopClock(loop, timer), LoopTasks(loop, timer), threads, self._phases)
        self._opening = asyncio.current_task()
        try:
            async with self._storage.open(process) as opened:
                self._opening = None
                await self._serve(opened, threads)
        except asyncio.CancelledError:
            if self._opening is None or not self._stop.is_set():
                raise
            logger.info("stopped while another broker serves the data")
        finally:
            timer.ignore_garbage()
            threads.stop()

    async def _serve(self, opened: SoleStorage, threads: ThreadWorkers) -> None:
        """Listen, print the banner, and stop in order when asked to.

        The HTTP port opens first, so that probes are answered while the broker starts.
        """
        settings, storage, engine = self.settings, self._storage, opened.engine
        contexts = self._contexts = Contexts(settings, engine.clock) if uses_tls(settings) else None
        ownership = SoleOwner("")
        halves = standalone(settings, engine, ownership, self._authenticator)
        broker = halves.broker
        descriptors = Descriptors()
        listener = Listener(broker, self._loop_timer, descriptors)
        garbage = Garbage(broker.topics)
        broker.jobs.every(CHECK_SECONDS, CLOSED_TOPICS, garbage.collect_closed)
        stray = _collect_objects(settings, opened, broker)
        context = replace(
            sole_context(halves, opened.journal, self._loop_timer, stray, contexts),
            snapshots=opened.snapshots,
            metadata_url=opened.metadata_url,
        )
        http = self._http_server(context, descriptors, engine.clock, broker.reached)
        ports = open_ports(settings)
        await listener.bind(ports.clients)
        default, listeners = advertised(settings, ports.numbers)
        ownership.announce(default, listeners)
        try:
            storage.announce(ports.numbers)
            await http.start(ports.http)
            if contexts is not None:
                listener.bind_tls(ports.clients_tls, contexts)
                http.start_tls(ports.http_tls, contexts, broker.admission)
                contexts.start()
            self._phases.end("ports")
            await broker.start()
            await listener.start()
            garbage.start()
            self._phases.end("names")
            logger.info("ready after %s", self._phases)
            print(banner(settings, default, ports.numbers, storage.described), flush=True)
            await self._stop.wait()
            logger.info("stopping: disconnecting clients, sealing topics, settling the data")
        finally:
            storage.withdraw()
            listener.stop()
            threads.abandon_transfers()  # a topic that is being deleted may wait for them
            await opened.stop()  # before topics close: their changes of metadata may wait for it
            await broker.close()
            listener.disconnect()
            await http.stop()
            await listener.ended()
            if contexts is not None:
                contexts.stop()

    def _http_server(
        self, context: AdminContext, descriptors: Descriptors, clock: Clock, reached: ReachedLimits
    ) -> HttpServer:
        settings = self.settings
        return HttpServer(
            context,
            self._loop_timer,
            descriptors,
            audit_log(clock, settings),
            authentication=http_authentication_of(settings, self._authenticator),
            guard=HttpGuard(HttpLimits.of(settings), clock, reached),
            pages=web_pages_of(settings),
        )

    def _begin_to_stop(self) -> None:
        if not self._stop.is_set():
            loop = asyncio.get_running_loop()
            loop.call_later(self.settings.broker_shutdown_timeout_ms / 1000, self._give_up)
        self._stop.set()
        # promise[self._storage.is_waiting -> False]: a broker that waits for another one can stop
        if self._opening is not None and self._storage.is_waiting:
            self._opening.cancel()

    def _reload(self) -> None:
        if self._contexts is not None:
            self._contexts.check()
        logger.warning(
            "SIGHUP: the configuration is not read again, because magnetarWorkers is 1; restart "
            "the broker to change it"
        )

    def _give_up(self) -> None:
        """End a stop that takes too long; everything acknowledged is in the journal or log."""
        timeout_ms = self.settings.broker_shutdown_timeout_ms
        logger.error(
            "the stop took longer than %d ms (brokerShutdownTimeoutMs): exiting now; the next "
            "start recovers what was acknowledged",
            timeout_ms,
        )
        os._exit(1)


def _collect_objects(
    settings: Settings, opened: SoleStorage, broker: Broker
) -> StrayObjects | None:
    """Delete copies of ledgers that nothing lists; None if the storage makes no copies."""
    if opened.objects is None:
        return None
    engine, jobs = opened.engine, broker.jobs
    watch = broker.topic_host.shared_limits.clock_watch
    stray = StrayObjects(settings, engine.metadata, engine.clock, watch, opened.objects)
    stray.register(jobs)
    SharedObjects(settings, engine.metadata, opened.objects).register(jobs)
    return stray


def serve_alone(settings: Settings, factory: LoopFactory, phases: Phases) -> None:
    """Run a broker in this process until a signal stops it."""

    async def main() -> None:
        await Daemon(settings, phases).run()

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
