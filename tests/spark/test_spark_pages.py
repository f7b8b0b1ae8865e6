"""The examples and the snippets of docs/spark.md run in one Spark, on generated data."""

import ast
import io
import json
import random
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

import magnetar
from running_broker import RunningBroker

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300
START_MS = 1_767_225_600_000
MINUTE_MS = 60_000
OUTPUT = re.compile(r"^# -> (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker of its own: the examples name their topics."""
    running = RunningBroker(
        tmp_path_factory.mktemp("pages") / "data", brokerDeduplicationEnabled="true"
    ).start()
    yield running
    running.close()


@pytest.fixture
async def client(broker: RunningBroker) -> AsyncIterator[magnetar.Client]:
    async with magnetar.connect(broker.service_url) as opened:
        yield opened


def example(name: str) -> ModuleType:
    """The example as a module."""
    path = ROOT / "examples" / f"{name}.py"
    module = ModuleType(name)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


async def send(client: magnetar.Client, topic: str, messages: list[magnetar.Outgoing[Any]]) -> None:
    async with await client.producer(topic) as producer:
        await producer.send_batch(messages)


async def values_of(client: magnetar.Client, topic: str) -> list[magnetar.Message]:
    found: list[magnetar.Message] = []
    async with await client.reader(topic, magnetar.EARLIEST) as reader:
        while await reader.has_message_available():
            found += await reader.read_batch(timeout_s=60)
    return found


async def test_windowed_counts_are_those_of_a_model(
    spark: SparkSession, broker: RunningBroker, client: magnetar.Client, tmp_path: Path
) -> None:
    windowed = example("windowed_counts")
    choice = random.Random(1)
    clicks = [
        (f"/{choice.randrange(3)}", START_MS + choice.randrange(20 * MINUTE_MS))
        for _ in range(3000)
    ]
    checkpoint = str(tmp_path)
    clicks.sort(key=lambda click: click[1])
    for part in (clicks[:2000], clicks[2000:]):
        await send(
            client,
            windowed.CLICKS,
            [
                magnetar.Outgoing(json.dumps({"page": page}).encode(), event_time_ms=at)
                for page, at in part
            ],
        )
        query = windowed.start(spark, broker.service_url, checkpoint, availableNow=True)
        assert query.awaitTermination(TIMEOUT_S)
    # A click far ahead moves the watermark behind all windows.
    last = magnetar.Outgoing(b'{"page": "/end"}', event_time_ms=START_MS + 100 * MINUTE_MS)
    await send(client, windowed.CLICKS, [last])
    query = windowed.start(spark, broker.service_url, checkpoint, availableNow=True)
    assert query.awaitTermination(TIMEOUT_S)
    model = Counter((page, at // MINUTE_MS * MINUTE_MS) for page, at in clicks)
    found = [json.loads(message.data) for message in await values_of(client, windowed.COUNTS)]
    assert {(one["page"], one["minute"] // 1000): one["clicks"] for one in found} == model
    assert len(found) == len(model), "each window is written once"


async def test_joined_streams_are_those_of_a_model(
    spark: SparkSession, broker: RunningBroker, client: magnetar.Client, tmp_path: Path
) -> None:
    join = example("join_streams")
    choice = random.Random(2)
    orders = [(number, f"c{number % 7}", START_MS + number * 1000) for number in range(500)]
    payments = [
        (number, choice.randrange(1, 9999), at + choice.randrange(-1, 80) * MINUTE_MS)
        for number, _, at in orders
        if choice.random() < 0.8
    ]
    await send(
        client,
        join.ORDERS,
        [
            magnetar.Outgoing(json.dumps({"id": i, "customer": c}).encode(), event_time_ms=at)
            for i, c, at in orders
        ],
    )
    await send(
        client,
        join.PAYMENTS,
        [
            magnetar.Outgoing(json.dumps({"order_id": i, "cents": c}).encode(), event_time_ms=at)
            for i, c, at in payments
        ],
    )
    query = join.start(spark, broker.service_url, str(tmp_path), availableNow=True)
    assert query.awaitTermination(TIMEOUT_S)
    ordered = {number: (customer, at) for number, customer, at in orders}
    model = [
        {"id": number, "customer": ordered[number][0], "cents": cents}
        for number, cents, at in payments
        if 0 <= at - ordered[number][1] <= 60 * MINUTE_MS
    ]
    found = [json.loads(message.data) for message in await values_of(client, join.PAID)]
    assert sorted(found, key=lambda one: int(one["id"])) == model


async def test_captured_changes_make_the_table(
    spark: SparkSession, broker: RunningBroker, client: magnetar.Client, tmp_path: Path
) -> None:
    capture = example("change_capture")
    choice = random.Random(3)
    database, model = str(tmp_path / "customers.db"), dict[str, str]()
    for _ in range(2):
        changes: list[magnetar.Outgoing[Any]] = []
        for number in range(400):
            key, data = f"c{choice.randrange(40)}", json.dumps({"number": number})
            if choice.random() < 0.2:
                changes.append(magnetar.Outgoing(b"", key=key, is_null=True))
                model.pop(key, None)
            else:
                changes.append(magnetar.Outgoing(data.encode(), key=key))
                model[key] = data
        await send(client, capture.CHANGES, changes)
        query = capture.start(
            spark, broker.service_url, str(tmp_path / "checkpoint"), database, availableNow=True
        )
        assert query.awaitTermination(TIMEOUT_S)
        table = sqlite3.connect(database)
        assert dict(table.execute("SELECT id, data FROM customers")) == model
        table.close()


async def test_dead_letters_are_sent_again_once(
    spark: SparkSession, broker: RunningBroker, client: magnetar.Client
) -> None:
    letters = example("replay_dead_letters")
    topics = [f"persistent://public/default/failing-{number}" for number in range(2)]
    dead = "persistent://public/default/failing-work-DLQ"
    for topic in topics:
        consumer = await client.subscribe(
            topic,
            "work",
            type="shared",
            nack_delay_s=0.01,
            dead_letter=magnetar.DeadLetterPolicy(
                1, dead_letter_topic=dead, initial_subscription="kept"
            ),
        )
        await send(
            client,
            topic,
            [
                magnetar.Outgoing(b"%d" % number, key=f"k{number}", properties={"a": "b"})
                for number in range(20)
            ],
        )
        kept = await client.subscribe(dead, "kept", type="shared", initial_position="earliest")
        moved = 0
        while moved < 20:
            try:
                for message in await consumer.receive_batch(timeout_s=0.1):
                    consumer.nack(message)
            except magnetar.OperationTimeout:
                pass
            try:
                batch = await kept.receive_batch(timeout_s=0.1)
            except magnetar.OperationTimeout:
                continue
            kept.ack(batch)
            moved += len(batch)
        await consumer.close()
        await kept.close()
    for _ in range(2):
        letters.replay(spark, broker.service_url, dead, "replay of today")
    for topic in topics:
        found = await values_of(client, topic)
        assert Counter(message.data for message in found) == Counter(
            b"%d" % number for number in range(20) for _ in range(2)
        )
        assert all(message.key == f"k{message.data.decode()}" for message in found)
        assert all(message.properties["a"] == "b" for message in found)


def test_the_notebook(
    spark: SparkSession, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_URL", broker.service_url)
    with redirect_stdout(io.StringIO()):
        notebook = example("ten_minutes")
    assert notebook.written == 1000
    assert [row.readings for row in notebook.by_sensor.collect()] == [200] * 5


def test_the_snippets_of_the_page(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    text = text.replace("pulsar://localhost:6650", broker.service_url)
    text = text.replace("checkpoints/", f"{tmp_path}/")
    snippets = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(snippets) >= 5
    namespace: dict[str, object] = {}
    for snippet in snippets:
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.parse(snippet), snippet, "exec"), namespace)
        assert printed.getvalue().splitlines() == OUTPUT.findall(snippet), snippet
