"""The daemon: opens the data directory, listens, serves, and stops in order."""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from dataclasses import replace
from functools import partial

from magnetar_broker.config import Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.server.clients.authentication import authenticator_of
from magnetar_broker.server.clients.listener import Listener
from magnetar_broker.server.data_directory import addresses
from magnetar_broker.server.data_directory.engine import (
    data_disk,
    engine_of,
    metadata_of,
    reserves_of,
    space_of,
    store_of,
)
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
from magnetar_broker.server.runtime.phases import Phases, recovery
from magnetar_broker.server.runtime.ports import open_ports
from magnetar_broker.server.snapshots.making import Snapshots
from magnetar_broker.server.snapshots.part import LocalPart
from magnetar_broker.server.tls.contexts import Contexts, uses_tls
from magnetar_broker.standalone import standalone
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.multi_store.belonging import take
from magnetar_storage.space.disk_space import SpaceState

logger = logging.getLogger(__name__)


class Daemon:
    """One broker in one process, on one data directory."""

    def __init__(self, settings: Settings, phases: Phases) -> None:
        """`phases` are the phases of the start so far."""
        self.settings = settings
        self._phases = phases
        self._stop = asyncio.Event()
        self._journal_stats = JournalStats()
        self._loop_timer = LoopTimer()
        self._authenticator = authenticator_of(settings)
        self._contexts: Contexts | None = None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; raises the error that prevents the start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        workers = ThreadWorkers(loop, self._loop_timer)
        self._loop_timer.watch_garbage()
        try:
            engine, part, snapshots = await self._open(loop, workers)
            try:
                await self._serve(engine, part, snapshots)
            finally:
                engine.space.stop()
                # The store's lock is that of the directory: it is given up last.
                try:
                    await engine.metadata.close()
                finally:
                    await engine.store.close()
        finally:
            self._loop_timer.ignore_garbage()
            workers.stop()

    async def _open(
        self, loop: asyncio.AbstractEventLoop, workers: ThreadWorkers
    ) -> tuple[Engine, LocalPart, Snapshots]:
        """Open the data directory and recover from a crash."""
        clock = LoopClock(loop, self._loop_timer)
        disk = data_disk(self.settings)
        lock, noted = await workers.background.run(partial(take, disk))
        addresses.forget(self.settings.data_dir)
        reserves = reserves_of(disk, store=0, has_metadata=True)
        try:
            metadata = await metadata_of(disk, noted, workers.metadata, clock, reserves)
        except BaseException:
            lock.close()
            raise
        self._phases.end("metadata")
        space = SpaceState()
        try:
            space = await space_of(self.settings, disk, reserves, workers.reads, clock)
            store = await store_of(
                self.settings, disk, workers, clock, self._journal_stats, space, lock=lock
            )
            try:
                store.compare(metadata.identity)
                await metadata.count_start()  # only now: a refused start is not counted
            except StorageError:
                await store.close()
                raise
        except BaseException:
            space.stop()
            await metadata.close()
            await workers.background.run(space.set_aside)
            raise
        self._phases.end(recovery(store.replayed_bytes))
        store.belong(lambda: metadata.identity)
        tasks = LoopTasks(loop, self._loop_timer)
        part = LocalPart(store, self.settings.data_dir)
        snapshots = Snapshots(metadata, lambda: [part], self.settings, clock)
        await snapshots.clear()
        return (
            engine_of(self.settings, store, metadata, clock, tasks, self._journal_stats, space),
            part,
            snapshots,
        )

    async def _serve(self, engine: Engine, part: LocalPart, snapshots: Snapshots) -> None:
        """Listen, print the banner, and stop in order when asked to.

        The HTTP port opens first, so that probes are answered while the broker starts.
        """
        settings = self.settings
        contexts = self._contexts = Contexts(settings, engine.clock) if uses_tls(settings) else None
        ownership = SoleOwner("")
        halves = standalone(settings, engine, ownership, self._authenticator)
        broker = halves.broker
        descriptors = Descriptors()
        listener = Listener(broker, self._loop_timer, descriptors)
        garbage = Garbage(broker.topics)
        broker.jobs.every(CHECK_SECONDS, CLOSED_TOPICS, garbage.collect_closed)
        context = replace(
            sole_context(halves, self._journal_stats, self._loop_timer, contexts),
            snapshots=snapshots,
        )
        http = HttpServer(
            context,
            self._loop_timer,
            descriptors,
            audit_log(engine.clock, settings),
            authentication=http_authentication_of(settings, self._authenticator),
            guard=HttpGuard(HttpLimits.of(settings), engine.clock, broker.reached),
            pages=web_pages_of(settings),
        )
        ports = open_ports(settings)
        await listener.bind(ports.clients)
        default, listeners = advertised(settings, ports.numbers)
        ownership.announce(default, listeners)
        try:
            addresses.announce(settings, ports.numbers)
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
            print(banner(settings, default, ports.numbers), flush=True)
            await self._stop.wait()
            logger.info("stopping: disconnecting clients, sealing topics, writing a checkpoint")
            loop = asyncio.get_running_loop()
            loop.call_later(settings.broker_shutdown_timeout_ms / 1000, self._give_up)
        finally:
            addresses.forget(settings.data_dir)
            listener.stop()
            part.stop()
            await snapshots.stop()  # before topics close: their changes of metadata may wait for it
            await broker.close()
            listener.disconnect()
            await http.stop()
            await listener.ended()
            if contexts is not None:
                contexts.stop()

    def _reload(self) -> None:
        if self._contexts is not None:
            self._contexts.check()
        logger.warning(
            "SIGHUP: the configuration is not read again, because magnetarWorkers is 1; restart "
            "the broker to change it"
        )

    def _give_up(self) -> None:
        """End a stop that takes too long; everything acknowledged is in the journal."""
        timeout_ms = self.settings.broker_shutdown_timeout_ms
        logger.error(
            "the stop took longer than %d ms (brokerShutdownTimeoutMs): exiting now; the next "
            "start recovers from the journal",
            timeout_ms,
        )
        os._exit(1)


def serve_alone(settings: Settings, factory: LoopFactory, phases: Phases) -> None:
    """Run a broker in this process until a signal stops it."""

    async def main() -> None:
        await Daemon(settings, phases).run()

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
