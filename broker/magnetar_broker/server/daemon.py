"""Wiring and life of the daemon: open the data, listen, serve, stop in good order."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress

import uvloop

from magnetar_broker.broker import Broker
from magnetar_broker.config import Durability, Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.ownership import SoleOwner
from magnetar_broker.server.descriptors import Descriptors, raise_limit
from magnetar_broker.server.garbage import FORGOTTEN, LOOK_SECONDS, Garbage
from magnetar_broker.server.http_server import HttpServer
from magnetar_broker.server.listener import Listener
from magnetar_broker.server.world import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.version import VERSION
from magnetar_proto.build import COMPILED
from magnetar_storage.cache import EntryCache
from magnetar_storage.disk import LocalDisk
from magnetar_storage.limits import Limits
from magnetar_storage.local import LocalStore
from magnetar_storage.log import Engine, RollLimits
from magnetar_storage.recovery import Finding
from magnetar_storage.sqlite import SqliteMetadata

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long the loop may keep a thread waiting that has just come back from the disk."""
WILDCARDS = ("0.0.0.0", "::")


class Daemon:
    """One broker in one process, on one data directory."""

    def __init__(self, settings: Settings, warnings: list[str]) -> None:
        self.settings = settings
        self._warnings = warnings
        self._stop = asyncio.Event()
        self._journal_stats = JournalStats()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT.  Raises what keeps the broker from starting."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        for warning in self._warnings:
            logger.warning("%s", warning)
        workers = ThreadWorkers(loop)
        try:
            engine = await self._open(loop, workers)
            try:
                await self._serve(engine)
            finally:
                await engine.store.close()
                await engine.metadata.close()
        finally:
            workers.stop()

    async def _open(self, loop: asyncio.AbstractEventLoop, workers: ThreadWorkers) -> Engine:
        """Recover what is in the data directory."""
        settings = self.settings
        clock = LoopClock(loop)
        disk = LocalDisk(settings.data_dir, durable=settings.durability is Durability.FSYNC)
        store = await LocalStore.open(
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
            tasks=LoopTasks(loop),
            roll=roll_limits(settings),
        )

    async def _serve(self, engine: Engine) -> None:
        """Listen, tell so, and close in order when asked to stop."""
        settings = self.settings
        ownership = SoleOwner("")
        broker = Broker(settings, engine, ownership)
        descriptors = Descriptors()
        listener = Listener(broker, descriptors)
        garbage = Garbage(broker.topics)
        broker.upkeep.every(LOOK_SECONDS, FORGOTTEN, garbage.look)
        http = HttpServer(broker, self._journal_stats, descriptors)
        port = await listener.bind(settings.bind_address, settings.broker_service_port)
        host = advertised_host(settings)
        ownership.announce(f"pulsar://{host}:{port}")
        try:
            http_port = await http.start(settings.bind_address, settings.web_service_port)
            await broker.start()
            await listener.start()
            garbage.start()
            self._banner(f"pulsar://{host}:{port}", host, http_port)
            await self._stop.wait()
            logger.info("stopping: closing clients, sealing topics, writing a checkpoint")
            loop = asyncio.get_running_loop()
            loop.call_later(settings.broker_shutdown_timeout_ms / 1000, self._give_up)
        finally:
            listener.stop()
            await broker.close()
            listener.disconnect()
            await http.stop()

    def _give_up(self) -> None:
        """A stop took too long.  Nothing acknowledged is lost: the next start recovers."""
        timeout_ms = self.settings.broker_shutdown_timeout_ms
        logger.error("not stopped within %d ms (brokerShutdownTimeoutMs): leaving", timeout_ms)
        os._exit(1)

    def _banner(self, service_url: str, host: str, http_port: int | None) -> None:
        durable = self.settings.durability is Durability.FSYNC
        lines = [
            f"Magnetar {VERSION} is ready" + (", compiled" if COMPILED else ""),
            f"  clients     {service_url}",
            f"  HTTP        http://{host}:{http_port}" if http_port else "  HTTP        off",
            f"  data        {self.settings.data_dir}",
            "  durability  fsync: a receipt or an ack answer means that it is on disk"
            if durable
            else "  durability  RELAXED: answers come before the disk has it; "
            "a power failure may lose what was acknowledged (magnetarDurability)",
        ]
        print("\n".join(lines), flush=True)


def _report(finding: Finding) -> None:
    """Storage found something wrong: lost data is an error, the rest a warning."""
    logger.log(logging.ERROR if finding.data_lost else logging.WARNING, "%s", finding.text)


def advertised_host(settings: Settings) -> str:
    """What clients are told to connect to."""
    if settings.advertised_address is not None:
        return settings.advertised_address
    if settings.bind_address in WILDCARDS:
        return socket.getfqdn()
    return settings.bind_address


def store_limits(settings: Settings) -> Limits:
    """How much storage keeps where."""
    return Limits(
        write_behind_bytes=settings.magnetar_write_behind_size_mb << 20,
        checkpoint_bytes=settings.magnetar_checkpoint_size_mb << 20,
    )


def roll_limits(settings: Settings) -> RollLimits:
    """When a segment ends."""
    return RollLimits(
        max_entries=settings.managed_ledger_max_entries_per_ledger,
        max_bytes=settings.managed_ledger_max_size_per_ledger_mbytes << 20,
        min_age_ms=settings.managed_ledger_min_ledger_rollover_time_minutes * 60_000,
        max_age_ms=settings.managed_ledger_max_ledger_rollover_time_minutes * 60_000,
    )


def serve(settings: Settings, warnings: list[str]) -> None:
    """Run a broker in this process until it is told to stop."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    raise_limit()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )

    async def main() -> None:
        await Daemon(settings, warnings).run()

    with suppress(KeyboardInterrupt):
        uvloop.run(main())
