"""Benchmark of compaction: its speed, CPU and memory, and the latency of a publisher meanwhile."""

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from random import Random
from statistics import quantiles

from bench.connection import Command, Connection, LoadError, connected, open_producer
from bench.frames import Load, Shape, Write, encode_load
from bench.publishing import Publisher
from bench.scenarios import STALL_SECONDS, Trial
from bench.usage import Measures, memory
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.sends import encode_send

LOOK_SECONDS = 0.05
COMPACTION_SECONDS = 1800
BESIDE_SECONDS = 0.002
QUIET_SECONDS = 2.0
"""How long publishing is measured without a compaction beside it."""
PORTION = 100_000
"""Messages that are encoded and sent at a time."""
WRITE_BYTES = 256 << 10


def compact(trial: Trial, shape: Shape, messages: int) -> Measures:
    """Publish messages of `shape.keys` keys, compact them, and publish to another topic meanwhile.

    Rates are of the messages that were there, each counted once.
    """
    total = max(1000, int(messages * trial.scale))

    async def work() -> Measures:
        port, server = trial.server.port, trial.server
        async with connected(port) as filling, connected(port) as other:
            await open_producer(filling, trial.topic)
            publisher = Publisher(filling)
            for load in keyed_loads(shape, total):
                if await publisher.publish(load, STALL_SECONDS) < load.entries:
                    raise LoadError(f"only {publisher.answered} entries were stored in time")
            await open_producer(other, f"{trial.topic}-beside")
            quiet = asyncio.Event()
            asyncio.get_running_loop().call_later(QUIET_SECONDS, quiet.set)
            before = await _publish_until(other, quiet)
            settled = memory(server.pid).rss
            done = asyncio.Event()
            beside = asyncio.ensure_future(_publish_until(other, done))
            meter = trial.meter(server.pid)
            await compacted(server.http_port, trial.topic)
            measures = meter.stop(total, shape.size)
            done.set()
            after = await beside
        return measures | {
            "p99_ms": _p99(after),
            "quiet_p99_ms": _p99(before),
            "more_mib": measures["peak_mib"] - settled,
        }

    return trial.run(work, stall_seconds=COMPACTION_SECONDS)


def _p99(taken: list[float]) -> float:
    return quantiles(taken, n=100)[98] if len(taken) > 1 else 0.0


async def _publish_until(connection: Connection, end: asyncio.Event) -> list[float]:
    """One small message after the other; the milliseconds to each receipt."""
    taken: list[float] = []
    writes = encode_load(Shape(100), 1).writes
    while not end.is_set():
        answered = connection.promise()

        def answer(count: int, last: Command, promise: "asyncio.Future[None]" = answered) -> None:
            promise.set_result(None)

        connection.on_receipts = answer
        began = time.perf_counter()
        connection.write_all(writes[0].buffers)
        await answered
        taken.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(BESIDE_SECONDS)
    return taken


async def compacted(http_port: int, topic: str) -> None:
    """Start a compaction; it has ended on return.  LoadError if it failed."""
    path = f"/admin/v2/{topic.replace('://', '/')}/compaction"
    status, _ = await asyncio.to_thread(_ask, http_port, "PUT", path)
    if status != http.client.NO_CONTENT:
        raise LoadError(f"the compaction of {topic} did not begin: {status}")
    while True:
        _, text = await asyncio.to_thread(_ask, http_port, "GET", path)
        state = json.loads(text)
        if state["status"] == "SUCCESS":
            return
        if state["status"] != "RUNNING":
            raise LoadError(f"{topic} was not compacted: {state}")
        await asyncio.sleep(LOOK_SECONDS)


def _ask(http_port: int, method: str, path: str) -> tuple[int, bytes]:
    web = http.client.HTTPConnection("127.0.0.1", http_port, timeout=STALL_SECONDS)
    with closing(web):
        web.request(method, path)
        answer = web.getresponse()
        return answer.status, answer.read()


def keyed_loads(shape: Shape, messages: int) -> Iterator[Load]:
    """All messages, some at a time; keys come in random order."""
    random, sent = Random(7), 0
    while sent < messages:
        count = min(PORTION, messages - sent)
        keys = [b"key-%d" % random.randrange(shape.keys) for _ in range(count)]
        if shape.keys >= messages:
            keys = [b"key-%d" % number for number in range(sent, sent + count)]
        yield _load(shape, [key.decode() for key in keys], sent // shape.batch)
        sent += count


def _load(shape: Shape, keys: list[str], first: int) -> Load:
    payload = Random(7).randbytes(shape.size)
    metadata = pb.MessageMetadata(producer_name="bench", publish_time=time.time_ns() // 1_000_000)
    writes: list[Write] = []
    buffers: list[bytes] = []
    size = sequence_id = 0
    for at in range(0, len(keys), shape.batch):
        body, group = payload, keys[at : at + shape.batch]
        if shape.batch > 1:
            singles = [pb.SingleMessageMetadata(partition_key=key) for key in group]
            body = encode_batch([(single, payload) for single in singles])
            metadata.num_messages_in_batch = len(group)
        else:
            metadata.partition_key = group[0]
        metadata.sequence_id = sequence_id = first + at // shape.batch
        encoded = metadata.SerializeToString()
        buffers.append(encode_send(1, sequence_id, len(group), encoded, body))
        size += len(body)
        if size >= WRITE_BYTES:
            writes.append(Write([b"".join(buffers)], len(buffers)))
            buffers, size = [], 0
    if buffers:
        writes.append(Write([b"".join(buffers)], len(buffers)))
    return Load(shape, writes, sequence_id + 1 - first)
