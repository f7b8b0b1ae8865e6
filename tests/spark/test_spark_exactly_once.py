"""Each row is stored once, although tasks fail, and driver and workers are killed at any point."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import magnetar
from effort import part_of
from running_broker import RunningBroker
from spark.counting_job import ROWS, SHUFFLED
from spark.killed_job import Job

TOPIC = "persistent://public/default/counted"
JOB = Path(__file__).with_name("counting_job.py")
LOG = f"{TOPIC}-log"
DRIVERS = part_of(8, least=2)
"""Runs of the driver that are killed; in each of them some workers are, too, and the broker."""
WORKERS_KILLED = 3
MOST_MESSAGES = 2 * ROWS
"""That arrive before the next kill."""
MOST_RECORDS = SHUFFLED + 1
"""Of the transaction log, for each micro-batch: most kills are between two of them."""


@pytest.mark.parametrize("mode", ["dedup", "transaction"])
async def test_rows_are_there_once_whatever_is_killed(
    make_broker: Callable[..., RunningBroker], tmp_path: Path, mode: str
) -> None:
    broker = make_broker(brokerDeduplicationEnabled=str(mode == "dedup").lower())
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "spark.log"
    given = [broker.service_url, TOPIC, str(checkpoint), mode]
    watched, most = (TOPIC, MOST_MESSAGES) if mode == "dedup" else (LOG, MOST_RECORDS)
    choice = random.Random(7)
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(watched, "watching", initial_position="earliest")
        for run in range(DRIVERS):
            job = Job(JOB, [*given, str(run)], log)
            try:
                for killed in range(WORKERS_KILLED + 1):
                    await arrival(consumer, choice.randint(1, most), job)
                    if killed < WORKERS_KILLED:
                        job.kill_worker(choice)
                if run % 2:
                    broker.kill()
                    broker.start()
                    await arrival(consumer, choice.randint(1, most), job)
            finally:
                job.kill()
        await consumer.close()
        last = max(committed(checkpoint), default=-1) + 3
        job = Job(JOB, [*given, str(DRIVERS), str(last)], log)
        try:
            assert job.process.wait(600) == 0, log.read_text()[-5000:]
        finally:
            job.kill()
        stored = await values_of(client)
    twice = [value for value, count in stored.items() if count > 1]
    finished = (max(committed(checkpoint)) + 1) * ROWS
    missing = [row for row in range(finished) if b"row %d" % row not in stored]
    assert (twice, missing) == ([], [])
    assert finished > last * ROWS


async def arrival(consumer: magnetar.Consumer, count: int, job: Job) -> None:
    """Return when so many messages have arrived, or the driver has ended of what was killed."""
    while count > 0 and job.is_running:
        with suppress(magnetar.OperationTimeout):
            messages = await consumer.receive_batch(count, timeout_s=5)
            consumer.ack_up_to(messages[-1])
            count -= len(messages)


def committed(checkpoint: Path) -> list[int]:
    """The micro-batches that are finished."""
    return [int(one.name) for one in (checkpoint / "commits").glob("*") if one.name.isdecimal()]


async def values_of(client: magnetar.Client) -> Counter[bytes]:
    """All rows, without what attempts of tasks add to them."""
    end = b"the end"
    async with await client.producer(TOPIC) as producer:
        await producer.send(end)
    found: Counter[bytes] = Counter()
    async with await client.reader(TOPIC, magnetar.EARLIEST) as reader:
        while end not in found:
            messages = await reader.read_batch(timeout_s=600)
            found.update(message.data.rstrip() for message in messages)
    del found[end]
    return found
