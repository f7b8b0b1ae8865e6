"""The daemon: opens the data directory, listens, serves, and stops in order."""

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import suppress

from magnetar_broker.base.version import VERSION
from magnetar_broker.config import Durability, Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.names.ownership import SoleOwner
from magnetar_broker.server.advertised import advertised, advertised_host
from magnetar_broker.server.allocator import share_one_heap
from magnetar_broker.server.descriptors import Descriptors, raise_limit
from magnetar_broker.server.event_loop import loop_factory
from magnetar_broker.server.garbage import CHECK_SECONDS, CLOSED_TOPICS, Garbage
from magnetar_broker.server.http_server import HttpServer
from magnetar_broker.server.listener import Listener
from magnetar_broker.server.stretches import Stretches
from magnetar_broker.server.world import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.standalone import standalone
from magnetar_proto.build import KIND
from magnetar_storage.joined.opening import open_store
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.recovery import Finding
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.read_budget import DEFAULT_LIMIT, ReadBudget
from magnetar_storage.log.roll_limits import RollLimits
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.world.disk import LocalDisk

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long the loop may keep the interpreter lock from a thread that returned from the disk.
Python's default of 5 ms would be added to every fsync."""


class Daemon:
    """One broker in one process, on one data directory."""

    def __init__(self, settings: Settings, warnings: list[str]) -> None:
        self.settings = settings
        self._warnings = warnings
        self._stop = asyncio.Event()
        self._journal_stats = JournalStats()
        self._stretches = Stretches()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; raises the error that prevents the start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        for warning in self._warnings:
            logger.warning("%s", warning)
        workers = ThreadWorkers(loop, self._stretches)
        self._stretches.watch_garbage()
        try:
            engine = await self._open(loop, workers)
            try:
                await self._serve(engine)
            finally:
                # The store's lock is that of the directory: it is given up last.
                try:
                    await engine.metadata.close()
                finally:
                    await engine.store.close()
        finally:
            self._stretches.ignore_garbage()
            workers.stop()

    async def _open(self, loop: asyncio.AbstractEventLoop, workers: ThreadWorkers) -> Engine:
        """Open the data directory and recover from a crash; findings are logged."""
        settings = self.settings
        clock = LoopClock(loop, self._stretches)
        disk = LocalDisk(settings.data_dir, durable=settings.durability is Durability.FSYNC)
        store = await open_store(
            disk,
            workers,
            clock,
            store_limits(settings),
            observe=self._journal_stats.observe,
            timer=time.monotonic,
            report=_report,
        )
        for finding in store.findings:
            _report(finding)
        metadata = await SqliteMetadata.open(disk, workers.metadata, clock)
        return Engine(
            store=store,
            metadata=metadata,
            cache=EntryCache(settings.managed_ledger_cache_size_mb << 20),
            clock=clock,
            tasks=LoopTasks(loop, self._stretches),
            roll=roll_limits(settings),
            reading=ReadBudget(
                settings.managed_ledger_max_reads_in_flight_size_in_mb << 20 or DEFAULT_LIMIT
            ),
        )

    async def _serve(self, engine: Engine) -> None:
        """Listen, print the banner, and stop in order when asked to.

        The HTTP port opens first, so that probes are answered while the broker starts.
        """
        settings = self.settings
        ownership = SoleOwner("")
        halves = standalone(settings, engine, ownership)
        broker = halves.broker
        descriptors = Descriptors()
        listener = Listener(broker, self._stretches, descriptors)
        garbage = Garbage(broker.topics)
        broker.jobs.every(CHECK_SECONDS, CLOSED_TOPICS, garbage.collect_closed)
        http = HttpServer(halves, self._journal_stats, self._stretches, descriptors)
        port = await listener.bind(settings.bind_address, settings.broker_service_port)
        default, listeners = advertised(settings, port)
        ownership.announce(default, listeners)
        try:
            http_port = await http.start(settings.bind_address, settings.web_service_port)
            await broker.start()
            await listener.start()
            garbage.start()
            self._banner(default.pulsar, http_port)
            await self._stop.wait()
            logger.info("stopping: disconnecting clients, sealing topics, writing a checkpoint")
            loop = asyncio.get_running_loop()
            loop.call_later(settings.broker_shutdown_timeout_ms / 1000, self._give_up)
        finally:
            listener.stop()
            await broker.close()
            listener.disconnect()
            await http.stop()

    def _give_up(self) -> None:
        """End a stop that takes too long; what was acknowledged is in the journal."""
        timeout_ms = self.settings.broker_shutdown_timeout_ms
        logger.error(
            "the stop took longer than %d ms (brokerShutdownTimeoutMs): exiting now; the next "
            "start recovers from the journal",
            timeout_ms,
        )
        os._exit(1)

    def _banner(self, service_url: str, http_port: int | None) -> None:
        host = advertised_host(self.settings)
        durable = self.settings.durability is Durability.FSYNC
        lines = [
            f"Magnetar {VERSION} is ready, {KIND}",
            f"  clients     {service_url}",
            *(f"  listener    {entry}" for entry in self.settings.advertised_listeners),
            f"  HTTP        http://{host}:{http_port}" if http_port else "  HTTP        off",
            f"  data        {self.settings.data_dir}",
            "  durability  fsync: a receipt or ack response is sent when the data is on disk"
            if durable
            else "  durability  RELAXED: responses are sent before the data is on disk; "
            "a power failure can lose acknowledged data (magnetarDurability)",
        ]
        print("\n".join(lines), flush=True)


def _report(finding: Finding) -> None:
    """Log what recovery found damaged: an error if data was lost, a warning otherwise."""
    logger.log(logging.ERROR if finding.data_lost else logging.WARNING, "%s", finding.text)


def store_limits(settings: Settings) -> Limits:
    """The limits of the local store."""
    return Limits(
        write_behind_bytes=settings.magnetar_write_behind_size_mb << 20,
        checkpoint_bytes=settings.magnetar_checkpoint_size_mb << 20,
    )


def roll_limits(settings: Settings) -> RollLimits:
    """When a segment (a ledger, for clients) is closed and the next one begun."""
    return RollLimits(
        max_entries=settings.managed_ledger_max_entries_per_ledger,
        max_bytes=settings.managed_ledger_max_size_per_ledger_mbytes << 20,
        min_age_ms=settings.managed_ledger_min_ledger_rollover_time_minutes * 60_000,
        max_age_ms=settings.managed_ledger_max_ledger_rollover_time_minutes * 60_000,
    )


def serve(settings: Settings, warnings: list[str]) -> None:
    """Run a broker in this process until a signal stops it."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    raise_limit()
    share_one_heap()

    factory, warning = loop_factory()

    async def main() -> None:
        await Daemon(settings, [*warnings, warning] if warning else warnings).run()

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
