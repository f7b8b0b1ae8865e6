"""Benchmark of transactions: their rate, what aborts cost others, and what an open one costs.

`python -m bench.transactions URL TOPIC` publishes in transactions and aborts them all, in a process
of its own.  It prints a line when it is under way, goes on until SIGTERM, and then prints how many
it has aborted.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import repeat

import click
import uvloop

import magnetar
from bench.connection import SUBSCRIPTION, LoadError
from bench.frames import Shape
from bench.scenarios import Trial, even_load, publish
from bench.usage import Measures, cpu_ratio

AT_A_TIME = 16
"""Transactions of one client that are open together."""
TIMEOUT_S = 600.0
SETTINGS = {"transactionCoordinatorEnabled": "true", "systemTopicEnabled": "true"}
"""What a broker needs for these rows that has no transactions by default."""
Step = Callable[[], Awaitable[None]]


def transact(trial: Trial, shape: Shape, transactions: int, each: int) -> Measures:
    """Consume, transform and produce: each transaction has so many acknowledgements and messages.

    `messages` counts transactions.
    """
    count = max(AT_A_TIME, int(transactions * trial.scale))
    value = bytes(shape.size)

    async def work() -> Measures:
        async with magnetar.connect(_url(trial)) as client:
            source = await client.producer(trial.topic, batching=None)
            consumer = await client.subscribe(
                trial.topic, SUBSCRIPTION, type="shared", initial_position="earliest"
            )
            target = await client.producer(f"{trial.topic}-target", batching=None)

            async def step() -> None:
                taken: list[magnetar.Message[bytes]] = []
                while len(taken) < each:
                    taken += await consumer.receive_batch(each - len(taken))
                async with client.transaction(TIMEOUT_S) as txn:
                    consumer.ack(taken, txn=txn)
                    await target.send_batch(repeat(value, each), txn=txn)

            # As many before that: a server that compiles what it runs is measured when it has.
            await source.send_batch(repeat(value, each * count))
            await _repeat(step, count, trial.seconds)
            await source.send_batch(repeat(value, each * count))
            meter = trial.meter(trial.server.pid)
            done = await _repeat(step, count, trial.seconds)
            return meter.stop(done, shape.size * each)

    return trial.run(work)


async def _repeat(step: Step, count: int, seconds: float) -> int:
    """Do it so many times, some side by side, until the time is over; how many were done."""
    begun, until = 0, time.perf_counter() + seconds

    async def worker() -> None:
        nonlocal begun
        while begun < count and time.perf_counter() < until:
            begun += 1
            await step()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_A_TIME):
            tasks.create_task(worker())
    return begun


def beside_aborts(trial: Trial, shape: Shape, entries: int, per_second: int) -> Measures:
    """An even load, first alone and then beside transactions that are all aborted."""
    load = trial.load(shape, entries, write_entries=1)

    async def work() -> Measures:
        quiet = await even_load(replace(trial, topic=f"{trial.topic}-quiet"), load, per_second)
        async with _aborts(_url(trial), f"{trial.topic}-aborted") as done:
            measures = await even_load(trial, load, per_second)
        return measures | {
            "quiet_p99_ms": quiet["p99_ms"],
            "of_quiet": measures["p99_ms"] / quiet["p99_ms"],
            "aborted_per_s": done.aborted / measures["seconds"],
        }

    return trial.run(work)


@dataclass
class Done:
    """What the aborting process has done, known when it has ended."""

    aborted: int = 0


@asynccontextmanager
async def _aborts(url: str, topic: str) -> AsyncIterator[Done]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.transactions", url, topic), stdout=asyncio.subprocess.PIPE
    )
    done = Done()
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise LoadError("the transactions did not begin")
        yield done
        if process.returncode is not None:
            raise LoadError("the transactions ended early")
    finally:
        if process.returncode is None:
            process.terminate()
        printed = await process.stdout.read()
        await process.wait()
    done.aborted = int(printed)


@click.command()
@click.argument("url")
@click.argument("topic")
def main(url: str, topic: str) -> None:
    """Abort transactions of one message each until SIGTERM."""
    uvloop.run(_abort(url, topic))


async def _abort(url: str, topic: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    aborted = 0
    async with magnetar.connect(url) as client:
        producer = await client.producer(topic, batching=None)

        async def worker() -> None:
            nonlocal aborted
            while not stopped.is_set():
                txn = client.transaction(TIMEOUT_S)
                await txn.begin()
                await producer.send(b"x", txn=txn)
                await txn.abort()
                aborted += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_A_TIME):
                tasks.create_task(worker())
            print("under way", flush=True)
    print(aborted)


def beside_open(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish while a transaction is open on another topic, between two runs without.

    `seen_of_plain` is the rate on the topic that had the transaction, once that has ended.
    """
    other = f"{trial.topic}-other"
    before = publish(replace(trial, topic=f"{trial.topic}-before"), shape, entries)
    measures: Measures = {}

    async def begin_and_measure() -> Measures:
        async with magnetar.connect(_url(trial)) as client:
            producer = await client.producer(other, batching=None)
            async with client.transaction(TIMEOUT_S) as txn:
                await producer.send(bytes(shape.size), txn=txn)
                found = await asyncio.to_thread(publish, trial, shape, entries)
            return found

    measures = asyncio.run(begin_and_measure())
    seen = publish(replace(trial, topic=other), shape, entries)
    after = publish(replace(trial, topic=f"{trial.topic}-after"), shape, entries)
    rate, cpu = ((before[name] + after[name]) / 2 for name in ("msg_per_s", "cpu_us"))
    return measures | {
        "of_plain": measures["msg_per_s"] / rate,
        "cpu_of_plain": cpu_ratio(measures["cpu_us"], cpu),
        "seen_of_plain": seen["msg_per_s"] / rate,
    }


def _url(trial: Trial) -> str:
    return f"pulsar://127.0.0.1:{trial.server.port}"


if __name__ == "__main__":
    main()
