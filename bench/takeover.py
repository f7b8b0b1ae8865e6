"""Benchmark of a change of the controller: how long publishing and opening topics pause."""

import asyncio
import time
from contextlib import AsyncExitStack
from itertools import pairwise

import psutil

from bench.connection import Command, LoadError, connected, look_up, open_producer
from bench.frames import Shape
from bench.publishing import PacedPublisher
from bench.scenarios import PER_SECOND, Trial
from bench.usage import Measures


def takeover(trial: Trial, shape: Shape, entries: int) -> Measures:
    """Publish an even load to a loaded topic, and kill the controller at its half."""
    load = trial.load(shape, entries, write_entries=1)

    async def work() -> Measures:
        port, receipts = trial.server.port, list[float]()
        async with AsyncExitStack() as stack:
            asking = await stack.enter_async_context(connected(port))
            owner = await look_up(asking, trial.topic)
            producing = await stack.enter_async_context(connected(port, owner))
            await open_producer(producing, trial.topic)
            publisher = PacedPublisher(producing, load, PER_SECOND)
            counted, half = producing.on_receipts, producing.promise()

            def noted(count: int, last: Command) -> None:
                receipts.extend([time.perf_counter()] * count)
                if len(receipts) * 2 > load.entries and not half.done():
                    half.set_result(None)
                counted(count, last)

            producing.on_receipts = noted
            began = time.perf_counter()
            publishing = asyncio.create_task(publisher.publish())
            await half
            controller_of(trial.server.pid).kill()
            killed = time.perf_counter()
            opening = asyncio.create_task(_opened(port, f"{trial.topic}-new", killed))
            await publishing
            ended = time.perf_counter()
            opened_ms = await opening
        # With the beginning and the end: all receipts of a half may arrive at once.
        before = [began, *(at for at in receipts if at <= killed)]
        return {
            "msg_per_s": load.entries / (ended - began),
            "opening_gap_ms": opened_ms,
            "calm_gap_ms": _longest_ms(before),
            "publish_gap_ms": _longest_ms([*before[-1:], *receipts[len(before) - 1 :], ended]),
        }

    return trial.run(work)


def controller_of(pid: int) -> psutil.Process:
    """Return the controller of a broker of several processes: the first that is started."""
    return min(psutil.Process(pid).children(), key=lambda child: child.create_time())


async def _opened(port: int, topic: str, since: float) -> float:
    """Return the milliseconds after which a producer is open on a new topic."""
    while True:
        try:
            async with connected(port) as connection:
                await open_producer(connection, topic)
                return (time.perf_counter() - since) * 1000
        except LoadError:  # refused, to be tried again, because the controller has ended
            continue


def _longest_ms(times: list[float]) -> float:
    """Return the milliseconds between the two successive times that are furthest apart, or 0."""
    return max((after - before for before, after in pairwise(times)), default=0.0) * 1000
