"""Benchmark of moves: how long official producers wait while bundles move to another worker."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from statistics import quantiles
from typing import Any

import pulsar

from bench.connection import LoadError, connected, look_up
from bench.scenarios import Trial
from bench.servers import Magnetar
from bench.several import WORKERS
from bench.usage import Measures

BUNDLES = 8
MOVES = 64
RELOADS = 8
PER_SECOND = 2000
"""Messages, of all topics."""
BETWEEN_SECONDS = 0.25
PAYLOAD = bytes(100)
TIMEOUT_MS = 30_000
NAMESPACE = "public/default"
Receipt = tuple[float, float]
"""When a message was sent, and after how many seconds its receipt came."""


def moves(trial: Trial, topics: int) -> Measures:
    """Move one bundle after the other to and fro, while every topic has a producer.

    A pause is the longest wait for a receipt, of one topic whose bundle moves.
    """
    server = trial.server
    assert isinstance(server, Magnetar)
    server.configure(
        {"magnetarWorkers": str(WORKERS), "defaultNumberOfNamespaceBundles": str(BUNDLES)}
    )
    server.restart()
    names = [f"{trial.topic}-{number}" for number in range(max(BUNDLES, int(topics * trial.scale)))]
    count = max(BUNDLES, int(MOVES * trial.scale))
    admin = _Admin(server.http_port)
    with _publishing(f"pulsar://127.0.0.1:{server.port}", names) as publishing:
        in_bundle: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            in_bundle[admin.bundle_of(name)].append(name)
        owners = {bundle: _owner(trial, some[0]) for bundle, some in in_bundle.items()}
        meter = trial.meter(server.pid)
        moved: list[tuple[float, float, list[str]]] = []
        for number in range(count):
            bundle = list(in_bundle)[number % len(in_bundle)]
            owners[bundle] = (owners[bundle] + 1) % WORKERS
            began = time.perf_counter()
            admin.move(bundle, owners[bundle])
            moved.append((began, time.perf_counter(), in_bundle[bundle]))
            time.sleep(BETWEEN_SECONDS)
    pauses_ms = [
        1000 * max(waited for _, waited in _around(publishing.receipts[name], began, ended))
        for began, ended, some in moved
        for name in some
    ]
    measures = meter.stop(sum(map(len, publishing.receipts.values())), len(PAYLOAD))
    cuts = quantiles(pauses_ms, n=1000)
    return measures | {
        "p50_ms": cuts[499],
        "p99_ms": cuts[989],
        "p999_ms": cuts[998],
        "answered_ms": quantiles([1000 * (end - begin) for begin, end, _ in moved], n=2)[0],
    }


def reloads(trial: Trial, topics: int) -> Measures:
    """Restart all workers one by one for a changed setting, while every topic has a producer.

    A pause is the longest wait for a receipt, of one topic in one reload.
    """
    server = trial.server
    assert isinstance(server, Magnetar)
    server.configure({"magnetarWorkers": str(WORKERS)})
    server.write_conf(maxConsumerMetadataSize=1024)
    server.restart()
    names = [f"{trial.topic}-{number}" for number in range(max(BUNDLES, int(topics * trial.scale)))]
    with _publishing(f"pulsar://127.0.0.1:{server.port}", names) as publishing:
        meter = trial.meter(server.pid)
        made: list[tuple[float, float]] = []
        for number in range(max(1, int(RELOADS * trial.scale))):
            server.write_conf(maxConsumerMetadataSize=1025 + number)
            began = time.perf_counter()
            server.reload()
            made.append((began, time.perf_counter()))
            time.sleep(BETWEEN_SECONDS)
    pauses_ms = [
        1000 * max(waited for _, waited in _around(publishing.receipts[name], *reload))
        for reload in made
        for name in names
    ]
    measures = meter.stop(sum(map(len, publishing.receipts.values())), len(PAYLOAD))
    cuts = quantiles(pauses_ms, n=1000)
    return measures | {
        "p50_ms": cuts[499],
        "p99_ms": cuts[989],
        "p999_ms": cuts[998],
        "answered_ms": quantiles([1000 * (end - begin) for begin, end in made], n=2)[0],
    }


def _around(receipts: list[Receipt], began: float, ended: float) -> Iterator[Receipt]:
    """Those of messages that waited while a bundle moved, or were sent just then."""
    return (
        (sent, waited)
        for sent, waited in receipts
        if sent + waited >= began and sent <= ended + BETWEEN_SECONDS / 2
    )


def _owner(trial: Trial, topic: str) -> int:
    """The number of the worker that serves a topic."""

    async def ask() -> Measures:
        async with connected(trial.server.port) as asking:
            owner = await look_up(asking, topic)
        return {"worker": float(owner.partition(":")[0].removeprefix("worker-"))}

    return int(trial.run(ask)["worker"])


class _Admin:
    """The REST API."""

    def __init__(self, port: int) -> None:
        self._web = HTTPConnection("127.0.0.1", port)

    def bundle_of(self, topic: str) -> str:
        return self._ask("GET", f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle")

    def move(self, bundle: str, worker: int) -> None:
        path = f"/admin/v2/namespaces/{NAMESPACE}/{bundle}/unload"
        self._ask("PUT", f"{path}?destinationBroker=worker-{worker}")

    def _ask(self, method: str, path: str) -> str:
        self._web.request(method, path)
        answer = self._web.getresponse()
        text = answer.read().decode()
        if answer.status >= 300:
            raise LoadError(f"{method} {path}: {answer.status} {text}")
        return text


class _Publishing:
    """Sends to all topics in turn; what came of it is complete once that has stopped."""

    def __init__(self, producers: dict[str, Any]) -> None:
        self.receipts: defaultdict[str, list[Receipt]] = defaultdict(list)
        self.refused: list[str] = []
        self.stopping = threading.Event()
        self._producers = producers
        self._thread = threading.Thread(target=self._go)

    def start(self) -> None:
        """Publish until `stop`."""
        self._thread.start()

    def _go(self) -> None:
        due = time.perf_counter()
        while not self.stopping.is_set():
            for name, producer in self._producers.items():
                due += 1 / PER_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))
                producer.send_async(PAYLOAD, self._received(name, time.perf_counter()))

    def stop(self) -> None:
        """Return when everything that was sent has its receipt; `LoadError` if it was refused."""
        self.stopping.set()
        self._thread.join()
        for producer in self._producers.values():
            producer.flush()
        if self.refused:
            raise LoadError(f"not stored: {self.refused[0]}")

    def _received(self, name: str, sent: float) -> Callable[[Any, Any], None]:
        def receive(result: Any, _: Any) -> None:
            if result == pulsar.Result.Ok:
                self.receipts[name].append((sent, time.perf_counter() - sent))
            else:
                self.refused.append(f"{name}: {result}")

        return receive


@contextmanager
def _publishing(url: str, names: list[str]) -> Iterator[_Publishing]:
    """Official producers that publish within the block; `LoadError` if a message was refused."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        make = partial(
            client.create_producer, send_timeout_millis=TIMEOUT_MS, batching_enabled=False
        )
        publishing = _Publishing({name: make(name) for name in names})
        publishing.start()
        try:
            time.sleep(BETWEEN_SECONDS)
            yield publishing
        finally:
            publishing.stop()
    finally:
        client.close()
