"""Drives the source as Spark drives it, in one process and without a JVM."""

import asyncio
import json
import pickle
import time
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

import magnetar
from pyspark_magnetar import DefaultSource
from pyspark_magnetar.source.reader import BatchReader, StreamReader
from running_broker import RunningBroker

ALL = ReadAllAvailable()


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


def send(broker: RunningBroker, topic: str, values: Sequence[bytes]) -> list[magnetar.MessageId]:
    """Send these in batches of seven."""
    return send_all(broker, topic, [values])


def send_all(
    broker: RunningBroker, topic: str, parts: Sequence[Sequence[bytes]]
) -> list[magnetar.MessageId]:
    """Send these, each part once the one before is stored."""

    async def run() -> list[magnetar.MessageId]:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(topic, batching=magnetar.BatchLimits(max_messages=7))
            return [found for part in parts for found in await producer.send_batch(part)]

    return asyncio.run(run())


def admin(broker: RunningBroker, method: str, path: str, body: bytes | None = None) -> Any:
    """Ask for a topic of the namespace public/default; returns the answer."""
    url = f"{broker.http_url}/admin/v2/persistent/public/default/{path}"
    request = urllib.request.Request(url, body, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


NOT_RETAINED = b'{"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}'


def wait_for_mark(broker: RunningBroker, topic: str, ledger: int, entry: int) -> None:
    """Until the subscription has acknowledged exactly up to this entry."""
    path = f"{topic.rsplit('/', 1)[1]}/internalStats"
    give_up_s = time.monotonic() + 60
    while time.monotonic() < give_up_s:
        cursor = admin(broker, "GET", path)["cursors"].get("of-spark")
        if cursor is not None and cursor["markDeletePosition"] == f"{ledger}:{entry}":
            return
        time.sleep(0.02)
    raise AssertionError(f"the subscription is at {cursor}, not at {ledger}:{entry}")


def seal(broker: RunningBroker, topic: str) -> None:
    """Have the next message begin another ledger."""
    admin(broker, "PUT", f"{topic.rsplit('/', 1)[1]}/unload")


def trim(broker: RunningBroker, topic: str) -> None:
    """Delete all closed ledgers that no subscription needs, also messages that nobody has read."""
    path = topic.rsplit("/", 1)[1]
    # Where the policy is set, it alone decides how long unread messages stay.
    admin(broker, "POST", f"{path}/retention", NOT_RETAINED)
    admin(broker, "POST", f"{path}/trim")


def stream(broker: RunningBroker, topic: str, start: str = "earliest", **more: str) -> StreamReader:
    """A streaming reader; without a topic, `more` names the topics."""
    options = {"service.url": broker.service_url, "topic": topic, "startingoffsets": start}
    given = {**options, "pollIntervalMs": "20", **more}
    source = DefaultSource({name: value for name, value in given.items() if value})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def batch(broker: RunningBroker, topic: str, **more: str) -> BatchReader:
    """A batch reader; without a topic, `more` names the topics."""
    options = {"service.url": broker.service_url, "topic": topic, **more}
    source = DefaultSource({name: value for name, value in options.items() if value})
    reader = source.reader(source.schema())
    assert isinstance(reader, BatchReader)
    return reader


def changed(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The next offset, once there is one."""
    while (end := reader.latestOffset(start, ALL)) is start:
        pass
    return end


def following(
    reader: StreamReader, start: dict[str, Any], count: int
) -> tuple[list[bytes], dict[str, Any]]:
    """The values behind `start`, at least so many, and the offset behind them.

    They may come as several batches: the reader asks for the last entry while they are stored.
    """
    found: list[bytes] = []
    while len(found) < count:
        end = changed(reader, start)
        found += values(reader, reader.partitions(start, end))
        start = end
    return found, start


def values(
    reader: DataSourceReader | DataSourceStreamReader, splits: Sequence[InputPartition]
) -> list[bytes]:
    """What the tasks of a batch read; readers and splits travel to them as pickles."""
    found: list[bytes] = []
    for split in splits:
        task, part = pickle.loads(pickle.dumps((reader, split)))
        for record_batch in task.read(part):
            found += record_batch.column("value").to_pylist()
    return found


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]
