"""Opens and closes many times, and checks that nothing is left in this process or the broker's.

The process must have done nothing else: `python -m client.leaking <service URL> <pid> <cycles>`.
"""

import asyncio
import gc
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import psutil

import magnetar
from client.key_pairs import key_reader
from fakes.waiting import until

AT_A_TIME = 10
MOST_OBJECTS = 500
MOST_BYTES = 16 * 1024 * 1024
"""What the allocator and caches may take in the meantime: a kilobyte a cycle is more."""

Cycle = Callable[[magnetar.Client, str], Awaitable[None]]


async def producers(client: magnetar.Client, topic: str) -> None:
    async with await client.producer(topic) as producer:
        await producer.send(b"x")


async def encrypting_producers(client: magnetar.Client, topic: str) -> None:
    options: dict[str, Any] = {
        "encryption_keys": ["k"],
        "key_reader": key_reader("k", kind="curve"),
    }
    async with await client.producer(topic, **options) as producer:
        await producer.send(b"x")


async def consumers(client: magnetar.Client, topic: str) -> None:
    async with await client.subscribe(
        topic, "s", type="shared", ack_timeout_s=60, nack_delay_s=60, auto_scale_queue=True
    ) as consumer:
        consumer.nack(await consumer.receive())  # and the next one receives it


async def readers(client: magnetar.Client, topic: str) -> None:
    async with await client.reader(topic) as reader:
        await reader.read()


async def table_views(client: magnetar.Client, topic: str) -> None:
    async with await client.table_view(topic):
        pass


async def transactions(client: magnetar.Client, topic: str) -> None:
    async with (
        await client.producer(topic) as producer,
        await client.subscribe(topic, "s", type="shared") as consumer,
        client.transaction() as txn,
    ):
        await producer.send(b"x", txn=txn)
        consumer.ack(await consumer.receive(), txn=txn)


async def clients(client: magnetar.Client, topic: str) -> None:
    async with magnetar.connect(client.service_url) as another:
        await another.producer(topic)


PARTS = {
    producers: 4, encrypting_producers: 20, consumers: 4, readers: 4, table_views: 20, clients: 8,
    transactions: 40,
}  # fmt: skip
"""What of the cycles is of each kind: one in so many."""


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def run(cycle: Cycle, count: int, client: magnetar.Client) -> None:
    async def some(topic: str) -> None:
        async with await client.subscribe(topic, "s", type="shared"):
            pass
        async with await client.producer(topic) as producer:
            await producer.send(b"first", key="k")
        for _ in range(count // AT_A_TIME):
            await cycle(client, topic)

    prefix = f"persistent://public/default/leaks-{uuid.uuid4().hex[:10]}"
    await asyncio.gather(*(some(f"{prefix}-{number}") for number in range(AT_A_TIME)))


async def leave_nothing(service_url: str, broker_pid: int, cycles: int) -> None:
    """AssertionError says what is left."""
    process = psutil.Process()
    async with magnetar.connect(service_url, memory_limit=1 << 26) as client:
        for kind in PARTS:
            await run(kind, 2 * AT_A_TIME, client)
        gc.collect()
        tasks, objects, memory = (
            len(asyncio.all_tasks()),
            len(gc.get_objects()),
            process.memory_info().rss,
        )
        here, there = descriptors(os.getpid()), descriptors(broker_pid)
        for kind, part in PARTS.items():
            await run(kind, cycles // part, client)
            # What ends after its owner, such as a task that was cancelled, ends in a later turn.
            name = kind.__name__
            await until(lambda: len(asyncio.all_tasks()) <= tasks, f"{name} leave no task")
            await until(lambda: descriptors(os.getpid()) <= here, f"{name} leave no socket")
            gc.collect()
            more = len(gc.get_objects()) - objects
            assert more < MOST_OBJECTS, (kind, more)
        taken = process.memory_info().rss - memory
        assert taken < MOST_BYTES, taken
        assert not client._parts
        await until(
            lambda: descriptors(broker_pid) <= there + 20 * AT_A_TIME, "the broker has no sockets"
        )


if __name__ == "__main__":
    asyncio.run(leave_nothing(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
