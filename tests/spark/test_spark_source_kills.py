"""Each message is read once, although driver, workers and broker are killed at any point."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import magnetar
from effort import part_of
from running_broker import RunningBroker
from spark.copying_job import MOST_ROWS
from spark.killed_job import Job
from spark.source_driver import admin

pytestmark = pytest.mark.timeout(3600)

NAME = "copied"
TOPIC = f"persistent://public/default/{NAME}"
JOB = Path(__file__).with_name("copying_job.py")
DRIVERS = part_of(8, least=2)
"""Runs of the driver that are killed; in each of them some workers are, and in some the broker."""
WORKERS_KILLED = 3
MOST_BATCHES = 2
"""Micro-batches before the next kill."""
CODECS = ("none", "lz4", "zlib", "zstd", "snappy")


async def publish(client: magnetar.Client, values: list[str], choice: random.Random) -> None:
    """In batches of many sizes and compressions, alone, and in chunks."""
    first = 0
    while first < len(values):
        some = values[first : first + choice.randint(1, 400)]
        first += len(some)
        chunked = choice.random() < 0.1
        batching = magnetar.BatchLimits(choice.randint(1, 60)) if choice.random() < 0.7 else None
        producer = await client.producer(
            TOPIC,
            batching=None if chunked else batching,
            compression=choice.choice(CODECS),
            chunking=chunked,
            max_chunk_bytes=40 if chunked else None,
        )
        async with producer:
            await producer.send_batch([value.encode() for value in some])


async def test_messages_are_read_once_whatever_is_killed(
    make_broker: Callable[..., RunningBroker], tmp_path: Path
) -> None:
    broker = make_broker()
    admin(broker, "PUT", f"{NAME}/partitions", b"2")
    choice, published = random.Random(11), list[str]()

    async def feed(batches: int) -> int:
        """Publish what fills so many micro-batches."""
        first, more = len(published), batches * MOST_ROWS
        new = [f"{first + number} {'.' * choice.randint(0, 120)}" for number in range(more)]
        async with magnetar.connect(broker.service_url) as client:
            await publish(client, new, choice)
        published.extend(new)
        return batches

    given = [broker.service_url, TOPIC, str(tmp_path)]
    log, result = tmp_path / "spark.log", tmp_path / "result"
    for run in range(DRIVERS):
        job = Job(JOB, [*given, str(run)], log)
        try:
            for _ in range(WORKERS_KILLED):
                job.await_lines(await feed(choice.randint(1, MOST_BATCHES)))
                job.kill_worker(choice)
            if run % 2:
                broker.kill()
                broker.start()
            else:
                admin(broker, "POST", f"{NAME}/partitions", b"%d" % (3 + run))
            job.await_lines(await feed(choice.randint(0, MOST_BATCHES)))
        finally:
            job.kill()
    job = Job(JOB, [*given, str(DRIVERS), str(result)], log)
    try:
        assert job.process.wait(900) == 0, log.read_text()[-5000:]
    finally:
        job.kill()
    found, expected = Counter(result.read_text().splitlines()), Counter(published)
    assert found - expected == Counter()  # nothing twice
    assert expected - found == Counter()  # nothing lost
