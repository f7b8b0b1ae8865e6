"""Benchmark of a cold start on one huge open segment: the first delivery from it."""

import os
import time
from collections.abc import Awaitable, Callable

from bench.connection import (
    SUBSCRIPTION,
    Command,
    Connection,
    LoadError,
    connected,
    open_consumer,
    open_producer,
    open_reader,
)
from bench.consuming import EntryId, Receiver
from bench.frames import Shape, encode_load
from bench.publishing import Publisher
from bench.scenarios import STALL_SECONDS, Trial
from bench.servers import Magnetar
from bench.usage import Measures, memory
from magnetar_proto.deliveries import decode_message
from magnetar_proto.sends import decode_receipt

FILL_SECONDS_A_GB = 120
ONE_SEGMENT = {
    "managedLedgerMaxEntriesPerLedger": str(1 << 30),
    "managedLedgerMaxSizePerLedgerMbytes": str(1 << 20),
}
Opening = Callable[[Connection], Awaitable[None]]


def cold(trial: Trial, shape: Shape) -> Measures:
    """Fill one segment, kill -9, and start with nothing in the kernel's cache; for a new
    subscription from the beginning, and again for a reader from the middle.
    """
    server = trial.server
    assert isinstance(server, Magnetar)
    server.stop()
    server.configure(ONE_SEGMENT)
    server.start()
    ledger, entries = _filled(trial, shape)
    middle = ledger, entries // 2

    async def from_beginning(connection: Connection) -> None:
        await open_consumer(connection, trial.topic, f"{SUBSCRIPTION}-new")

    async def from_middle(connection: Connection) -> None:
        await open_reader(connection, trial.topic, middle)

    beginning = _first_delivery(trial, from_beginning, (ledger, 0))
    reading = _first_delivery(trial, from_middle, middle)
    return {
        "healthy_ms": max(beginning["healthy_ms"], reading["healthy_ms"]),
        "first_ms": beginning["first_ms"],
        "beginning_ms": beginning["delivered_ms"],
        "middle_ms": reading["delivered_ms"],
        "rss_mib": beginning["rss_mib"],
        "stored_gb": server.stored_bytes() / 1e9,
    }


def _filled(trial: Trial, shape: Shape) -> EntryId:
    """The ledger, and how many entries are in it; LoadError if there is more than one."""
    load = encode_load(shape, max(100, trial.backlog_bytes // (shape.size * shape.batch)))
    seconds = STALL_SECONDS + FILL_SECONDS_A_GB * trial.backlog_gb
    last_ids: list[EntryId] = []

    async def fill() -> Measures:
        async with connected(trial.server.port) as connection:
            await open_consumer(connection, trial.topic)  # so that it is kept
            await open_producer(connection, trial.topic)
            publisher = Publisher(connection)
            inner = connection.on_receipts

            def noted(count: int, last: Command) -> None:
                last_ids[:] = [decode_receipt(*last)[3:]]
                inner(count, last)

            connection.on_receipts = noted
            if await publisher.publish(load, seconds) < load.entries:
                raise LoadError(f"only {publisher.answered} of {load.entries} entries were stored")
        return {}

    trial.run(fill, stall_seconds=seconds)
    ledger, last = last_ids[0]
    if last + 1 != load.entries:
        raise LoadError(f"the segment was not one: the last of {load.entries} entries is {last}")
    return ledger, load.entries


def _first_delivery(trial: Trial, opening: Opening, expected: EntryId) -> Measures:
    """After a kill: when the server is healthy, and how long `opening` then waits for an entry."""
    server = trial.server
    server.kill()
    for path in server.data_dir.rglob("*"):
        if path.is_file():
            _uncache(str(path))
    server.start()
    ids: list[EntryId] = []

    async def work() -> Measures:
        async with connected(server.port) as connection:
            began = time.perf_counter()
            await opening(connection)
            receiver = Receiver(connection)
            connection.on_message = lambda one: ids.append(decode_message(*one)[1:3])
            await receiver.receive(1, STALL_SECONDS)
        if not ids or ids[0] != expected:
            raise LoadError(f"the first delivery was {ids[:1]} instead of {expected}")
        arrived = receiver.arrivals[0][0]
        return {
            "healthy_ms": server.healthy_ms,
            "delivered_ms": (arrived - began) * 1000,
            "first_ms": (arrived - server.started_at) * 1000,
            "rss_mib": memory(server.pid).rss,
        }

    return trial.run(work)


def _uncache(path: str) -> None:
    """Have the kernel forget a file's pages; those not written yet it must write first."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
