"""Benchmark of policies: time from setting one over HTTP until clients are subject to it."""

import asyncio
import http.client
import json
import time
from contextlib import AsyncExitStack, closing
from statistics import quantiles

from bench.connection import Connection, LoadError, connected, open_producer
from bench.publishing import OPENING
from bench.scenarios import Trial
from bench.usage import Measures
from magnetar_proto import PulsarApi_pb2 as pb

PROBE_ID = 1
POLICY = "maxProducersPerTopic"
FEWEST_CHANGES = 20


class Namespace:
    """A namespace created for the measurement, with its limit of producers."""

    def __init__(self, http_port: int, name: str) -> None:
        self.name = name
        self._web = http.client.HTTPConnection("127.0.0.1", http_port)
        self._ask("PUT", "", {"bundles": {"numBundles": 4}})

    def allow(self, producers: int) -> float:
        """Set how many a topic may have; returns when that was answered."""
        self._ask("POST", f"/{POLICY}", producers)
        return time.perf_counter()

    def _ask(self, method: str, path: str, value: object) -> None:
        headers = {"Content-Type": "application/json"}
        body = json.dumps(value)
        self._web.request(method, f"/admin/v2/namespaces/{self.name}{path}", body, headers)
        answer = self._web.getresponse()
        text = answer.read()
        if answer.status != http.client.NO_CONTENT:
            raise LoadError(f"{method} {path}: {answer.status} {text.decode()}")

    def close(self) -> None:
        """The connection."""
        self._web.close()


def enforce(trial: Trial, topics: int, changes: int) -> Measures:
    """Allow no second producer on any topic, and see when one is refused; and so on."""
    count = max(20, int(topics * trial.scale))
    rounds = max(FEWEST_CHANGES, int(changes * trial.scale))
    tenant = trial.topic.rpartition("/")[0].partition("://")[2].partition("/")[0]
    name = f"{tenant}/{trial.topic.rpartition('/')[2]}"

    async def work() -> Measures:
        async with AsyncExitStack() as stack:
            namespace = stack.enter_context(closing(Namespace(trial.server.http_port, name)))
            holding = await stack.enter_async_context(connected(trial.server.port))
            probing = await stack.enter_async_context(connected(trial.server.port))
            names = [f"persistent://{name}/{number}" for number in range(count)]
            for first in range(0, count, OPENING):
                some = enumerate(names[first : first + OPENING], first + 1)
                await asyncio.gather(*(open_producer(holding, t, at) for at, t in some))
            meter = trial.meter(trial.server.pid)
            met_ms, answered_ms = [], []
            for number in range(rounds):
                topic = names[number * 7919 % count]
                met, answered = await _until(namespace, probing, topic, 1)
                met_ms.append(met)
                answered_ms.append(answered)
                await _until(namespace, probing, topic, 0)
            measures = meter.stop(2 * rounds, 0)
            cuts = quantiles(met_ms, n=100)
            measures["p50_ms"], measures["p99_ms"] = cuts[49], cuts[98]
            measures["answered_ms"] = quantiles(answered_ms, n=100)[49]
            return measures

    return trial.run(work)


async def _until(
    namespace: Namespace, probing: Connection, topic: str, producers: int
) -> tuple[float, float]:
    """Milliseconds until a second producer is treated so, and until the change was answered."""
    began = time.perf_counter()
    changing = asyncio.ensure_future(asyncio.to_thread(namespace.allow, producers))
    while await _is_admitted(probing, topic) != (producers == 0):
        pass
    met = time.perf_counter()
    return (met - began) * 1000, (await changing - began) * 1000


async def _is_admitted(probing: Connection, topic: str) -> bool:
    request_id = probing.request_id()
    try:
        await probing.call(
            pb.CommandProducer(topic=topic, producer_id=PROBE_ID, request_id=request_id)
        )
    except LoadError as error:
        if "ProducerBusy" not in str(error):
            raise
        return False
    request_id = probing.request_id()
    await probing.call(pb.CommandCloseProducer(producer_id=PROBE_ID, request_id=request_id))
    return True
