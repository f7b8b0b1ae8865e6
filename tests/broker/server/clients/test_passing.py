"""Clients of a broker of several processes (passing.py), some of which are killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

import official
from fakes.waiting import HANGS_SECONDS
from fakes.workers import AsyncClient, address, connect_frame
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

PROGRAM = Path(__file__).with_name("passing.py")
TESTS = Path(__file__).parents[3]
WORKERS = 3
PING = encode(pb.CommandPing())


class Passing:
    """The broker; its log goes to standard error."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(WORKERS)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(TESTS)},
        )
        self.port = int(self._event("port")["port"])
        self._workers: dict[int, int] = {}
        while len(self._workers) < WORKERS:
            self._take_worker()
        self._event("ready")

    def _event(self, name: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        event: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert name in event, event
        return event

    def _take_worker(self) -> None:
        event = self._event("worker")
        self._workers[event["worker"]] = event["pid"]

    def kill(self, worker: int) -> None:
        os.kill(self._workers[worker], signal.SIGKILL)

    def await_restart(self) -> None:
        """Wait until a worker that was killed serves again."""
        self._take_worker()

    def stop(self) -> int:
        self._process.terminate()
        self._process.communicate()
        return self._process.returncode


@pytest.fixture
def passing() -> Iterator[Passing]:
    broker = Passing()
    yield broker
    assert broker.stop() == 0


def topics(name: str) -> list[str]:
    """Return a topic of each worker, see `OwnersByLength`."""
    return [f"persistent://public/default/{name}-{'x' * number}" for number in range(WORKERS)]


def test_official_clients_reach_the_owners_through_one_port(passing: Passing) -> None:
    client = official.connect(f"pulsar://127.0.0.1:{passing.port}")
    for topic in topics("all"):
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        official.publish(client.create_producer(topic), "a", "b", "c")
        assert official.texts(official.take(consumer, 3)) == ["a", "b", "c"]
    client.close()


def test_official_clients_go_on_when_a_worker_was_killed(passing: Passing) -> None:
    client = official.connect(f"pulsar://127.0.0.1:{passing.port}")
    producers = [
        client.create_producer(topic, send_timeout_millis=official.TIMEOUT_MS)
        for topic in topics("killed")
    ]
    for worker in range(WORKERS):
        passing.kill(worker)
        for producer in producers:
            official.publish(producer, "a")
        passing.await_restart()
    client.close()


async def come(port: int, number: int, outcomes: asyncio.Queue[str]) -> None:
    """Connect a client of some worker until it is served, and send it a PING."""
    worker = number % WORKERS
    frame = connect_frame(address(worker), filler=number * 7919 % 20_000)
    while True:
        client = await AsyncClient.open(port)
        try:
            await client.send(frame + PING)
            answers = [await client.receive(), await client.receive()]
        except ConnectionError:
            answers = [None]
        finally:
            await client.close()
        if None not in answers:
            break
        outcomes.put_nowait("ended")  # with a worker that was killed
    connected, pong = answers
    assert isinstance(connected, pb.CommandConnected), connected
    assert isinstance(pong, pb.CommandPong), pong
    outcomes.put_nowait("served")


async def load(port: int, count: int, outcomes: asyncio.Queue[str]) -> None:
    at_a_time = asyncio.Semaphore(100)

    async def one(number: int) -> None:
        async with at_a_time:
            await come(port, number, outcomes)

    await asyncio.gather(*map(one, range(count)))


def present(outcomes: asyncio.Queue[str]) -> list[str]:
    """Return the outcomes that are available and were not taken yet."""
    return [outcomes.get_nowait() for _ in range(outcomes.qsize())]


async def test_a_thousand_clients_at_once_are_all_served(passing: Passing) -> None:
    outcomes: asyncio.Queue[str] = asyncio.Queue()
    await load(passing.port, 1000, outcomes)
    assert present(outcomes) == ["served"] * 1000


async def test_none_is_refused_or_forgotten_while_workers_are_killed(passing: Passing) -> None:
    outcomes: asyncio.Queue[str] = asyncio.Queue()
    loading = asyncio.create_task(load(passing.port, 3000, outcomes))
    seen: list[str] = []
    for worker in range(WORKERS):
        async with asyncio.timeout(HANGS_SECONDS):
            seen += [await outcomes.get() for _ in range(700)]
        passing.kill(worker)
        await asyncio.to_thread(passing.await_restart)
    await loading
    assert (seen + present(outcomes)).count("served") == 3000
