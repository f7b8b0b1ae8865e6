"""What a task writes to a real broker, without Spark."""

import asyncio
import urllib.request
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import magnetar
from fakes.waiting import until
from frame_proxy import FrameProxy
from magnetar.producing.routing import partition_of
from magnetar.schema import AutoConsume
from magnetar_proto import PulsarApi_pb2 as pb
from pyspark_magnetar.bridge import Bridge, bridge_to
from pyspark_magnetar.sink.columns import SinkSchema
from pyspark_magnetar.sink.numbered import DeduplicationOff
from pyspark_magnetar.sink.numbering import Numbering
from pyspark_magnetar.sink.task import Task
from pyspark_magnetar.sink.write_options import WriteOptions
from running_broker import RunningBroker

PROPERTIES = pa.map_(pa.string(), pa.string())


def new_topic() -> str:
    return f"persistent://public/default/sink-{uuid.uuid4().hex[:10]}"


def partitioned(broker: RunningBroker, topic: str, count: int) -> None:
    """Make a topic of so many partitions."""
    path = topic.replace("://", "/")
    request = urllib.request.Request(
        f"{broker.http_url}/admin/v2/{path}/partitions", str(count).encode(), method="PUT"
    )
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request, timeout=60).close()


class Sink:
    """Tasks on one broker."""

    def __init__(self, broker: RunningBroker, service_url: str = "") -> None:
        """`service_url` is another way to the broker than its own."""
        self.broker = broker
        self._service_url = service_url or broker.service_url

    def task(
        self,
        batch: pa.RecordBatch,
        numbering: Numbering | None = None,
        txn: magnetar.Transaction | None = None,
        **options: str,
    ) -> Task:
        given = {"service.url": self._service_url}
        given |= options
        parsed = WriteOptions.parse(given)
        schema = SinkSchema.of(from_arrow_schema(batch.schema))
        return Task(parsed, schema, self.bridge, 0, numbering, txn)

    @property
    def bridge(self) -> Bridge:
        return bridge_to(WriteOptions.parse({"service.url": self._service_url}).connecting)

    def write(
        self,
        batch: pa.RecordBatch,
        numbering: Numbering | None = None,
        rows_at_a_time: int = 10_000,
        until: int | None = None,
        **options: str,
    ) -> dict[str, Any]:
        """Write the rows as a task does that dies behind `until`, if that is given."""
        task = self.task(batch, numbering, None, **options)
        try:
            for start in range(0, batch.num_rows if until is None else until, rows_at_a_time):
                task.add(batch.slice(start, rows_at_a_time))
            return task.finish()
        except BaseException:
            task.abandon()
            raise


@pytest.fixture
def sink(broker: RunningBroker) -> Sink:
    return Sink(broker)


@pytest.fixture
async def client(broker: RunningBroker) -> AsyncIterator[magnetar.Client]:
    async with magnetar.connect(broker.service_url) as opened:
        yield opened


async def received(
    client: magnetar.Client, topic: str, count: int, **how: Any
) -> list[magnetar.Message]:
    """So many messages, and none behind them."""
    found: list[magnetar.Message] = []
    async with await client.subscribe(topic, "check", initial_position="earliest", **how) as it:
        while len(found) < count:
            found += await it.receive_batch(timeout_s=60)
        marker = uuid.uuid4().bytes
        async with await client.producer(topic) as producer:
            await producer.send(marker)
        ended = False
        while not ended:
            more = await it.receive_batch(timeout_s=60)
            ended = any(message.data == marker for message in more)
            found += [message for message in more if message.data != marker]
    assert len(found) == count
    return found


def values_of(count: int) -> list[bytes]:
    return [b"row %d" % number for number in range(count)]


async def test_all_that_describes_a_message_arrives(sink: Sink, client: magnetar.Client) -> None:
    topic = new_topic()
    batch = pa.record_batch(
        {
            "value": pa.array([b"v", None, b"x" * 300_000, b"last"]),
            "__key": pa.array(["k", "k", None, "ä"]),
            "__orderingKey": pa.array([b"o", None, None, None]),
            "__eventTime": pa.array(
                [1_700_000_000_123_999, None, 1000, 2000], pa.timestamp("us", "UTC")
            ),
            "__messageProperties": pa.array([[("a", "b"), ("c", "")], None, [], []], PROPERTIES),
            "__messageId": pa.array([b"of the source", None, None, None]),
        }
    )
    done = sink.write(batch, topic=topic, compressionType="zstd")
    assert done[topic][0] == 4
    first, deleted, large, last = await received(client, topic, 4)
    assert (first.data, first.key, first.ordering_key) == (b"v", "k", b"o")
    assert (first.event_time_ms, first.properties) == (1_700_000_000_123, {"a": "b", "c": ""})
    assert (deleted.is_null, deleted.key, deleted.event_time_ms) == (True, "k", 0)
    assert (len(large.data), large.key) == (300_000, None)
    assert (last.key, last.event_time_ms) == ("ä", 2)
    assert first.entry.position == deleted.entry.position, "they were sent as one batch"
    assert (last.entry.ledger, last.entry.entry) == done[topic][1]


async def test_a_subscription_keeps_what_is_written(sink: Sink, client: magnetar.Client) -> None:
    topic = new_topic()
    batch = pa.record_batch({"value": pa.array(values_of(10))})
    sink.write(batch, topic=topic, initialSubscriptionName="kept")
    async with await client.subscribe(topic, "kept", initial_position="latest") as kept:
        found = [(await kept.receive(60)).data for _ in range(10)]
    assert found == values_of(10)


async def test_rows_name_their_topics(sink: Sink, client: magnetar.Client) -> None:
    topics = [new_topic() for _ in range(3)]
    batch = pa.record_batch(
        {
            "value": pa.array(values_of(3000)),
            "__topic": pa.array([topics[row % 3] for row in range(3000)]),
        }
    )
    sink.write(batch)
    for index, topic in enumerate(topics):
        found = await received(client, topic, 1000)
        assert [message.data for message in found] == values_of(3000)[index::3]
    without = pa.record_batch({"value": pa.array([b"a"]), "__topic": pa.array([None], pa.string())})
    with pytest.raises(ValueError, match="1 rows have no __topic"):
        sink.write(without)


async def test_keys_and_rows_choose_partitions(sink: Sink, client: magnetar.Client) -> None:
    topic = new_topic()
    partitioned(sink.broker, topic, 3)
    count = 5000
    keys = [None if row % 5 == 0 else f"k{row % 50}" for row in range(count)]
    chosen = [1 if row % 10 == 0 else -1 for row in range(count)]
    batch = pa.record_batch(
        {
            "value": pa.array(values_of(count)),
            "__key": pa.array(keys),
            "__partition": pa.array(chosen, pa.int32()),
        }
    )
    sink.write(batch, topic=topic)
    found = await received(client, topic, count)
    places: dict[str, set[int]] = {}
    for message in found:
        row = int(message.data.split()[1])
        if row % 10 == 0:
            assert message.entry.partition == 1
        elif message.key is not None:
            assert isinstance(message.key, str)
            places.setdefault(message.key, set()).add(message.entry.partition)
    assert places == {key: {partition_of(key, 3, "java")} for key in places}
    assert {message.entry.partition for message in found if message.key is None} == {0, 1, 2}
    with pytest.raises(ValueError, match="is 3: expected at most 2"):
        sink.write(
            pa.record_batch({"value": pa.array([b"a"]), "__partition": pa.array([3], pa.int32())}),
            topic=topic,
        )


async def test_rows_of_several_columns_are_avro_records(
    sink: Sink, client: magnetar.Client
) -> None:
    topic = new_topic()
    batch = pa.record_batch({"id": pa.array([1, None]), "name": pa.array(["a", "b"])})
    sink.write(batch, topic=topic)
    info = await client.schema(topic)
    assert info.type_name == "AVRO"
    async with await client.subscribe(
        topic, "s", initial_position="earliest", schema=AutoConsume()
    ) as consumer:
        found = [(await consumer.receive(60)).value for _ in range(2)]
    assert found == [{"id": 1, "name": "a"}, {"id": None, "name": "b"}]


async def test_a_batch_has_one_key_where_it_is_wanted(sink: Sink, client: magnetar.Client) -> None:
    topic = new_topic()
    keys = [f"k{row % 7}" for row in range(700)]
    batch = pa.record_batch({"value": pa.array(values_of(700)), "__key": pa.array(keys)})
    sink.write(batch, topic=topic, batchingByKey="true")
    found = await received(client, topic, 700)
    assert len({message.entry.position for message in found}) == 7
    for key in set(keys):
        of_key = [message.data for message in found if message.key == key]
        assert of_key == [b"row %d" % row for row in range(700) if f"k{row % 7}" == key]


async def test_what_is_delivered_later_is_an_entry_by_itself(
    sink: Sink, client: magnetar.Client
) -> None:
    topic = new_topic()
    batch = pa.record_batch(
        {
            "value": pa.array(values_of(100)),
            "__deliverAt": pa.array([None] * 50 + [1000] + [None] * 49, pa.int64()),
        }
    )
    sink.write(batch, topic=topic)
    found = await received(client, topic, 100)
    assert [message.deliver_at_ms for message in found] == [0] * 50 + [1000] + [0] * 49
    assert [message.data for message in found] == values_of(100)


async def test_a_message_that_is_too_large_needs_chunks(
    sink: Sink, client: magnetar.Client
) -> None:
    topic = new_topic()
    batch = pa.record_batch({"value": pa.array([b"a", bytes(6 << 20), b"b"])})
    with pytest.raises(magnetar.MessageTooLarge):
        sink.write(batch, topic=topic)
    other = new_topic()
    sink.write(batch, topic=other, chunkingEnabled="true")
    assert [len(message.data) for message in await received(client, other, 3)] == [1, 6 << 20, 1]


async def test_an_unused_producer_that_cannot_be_closed(
    sink: Sink, client: magnetar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no concern of the task that has stored its rows."""
    batch = pa.record_batch({"value": pa.array(values_of(10))})
    sink.write(batch, topic=new_topic())
    monkeypatch.setattr("pyspark_magnetar.sink.topics.MAX_IDLE", 1)

    async def fail(producer: magnetar.Producer[bytes]) -> None:
        raise magnetar.OperationTimeout("no answer")

    monkeypatch.setattr(magnetar.Producer, "close", fail)
    topic = new_topic()
    for _ in range(2):
        sink.write(batch, topic=topic)
    monkeypatch.undo()
    await received(client, topic, 20)


class TestExactlyOnce:
    @pytest.fixture
    def broker(self, make_broker: Any) -> RunningBroker:
        broker: RunningBroker = make_broker(brokerDeduplicationEnabled="true")
        return broker

    async def test_an_attempt_goes_on_where_the_one_before_was_killed(
        self, sink: Sink, client: magnetar.Client
    ) -> None:
        topic = new_topic()
        batch = pa.record_batch({"value": pa.array(values_of(9000))})
        numbering = Numbering("spark-query-0", 5 << 32)
        sink.write(batch, numbering, 700, until=2100, topic=topic, batchingMaxMessages="300")
        # The next attempt makes other batches: one that has old and new rows would be dropped.
        sink.write(batch, numbering, 4000, until=4000, topic=topic, batchingMaxMessages="999")
        sink.write(batch, numbering, 10_000, topic=topic)
        sink.write(batch, numbering, 10_000, topic=topic)
        found = await received(client, topic, 9000)
        assert [message.data for message in found] == values_of(9000)
        assert [message.sequence_id for message in found] == list(range(5 << 32, (5 << 32) + 9000))
        later = Numbering("spark-query-0", 6 << 32)
        sink.write(batch.slice(0, 10), later, topic=topic)
        await received_again(client, topic, values_of(9000) + values_of(10))

    async def test_partitions_and_topics_have_numbers_of_their_own(
        self, sink: Sink, client: magnetar.Client
    ) -> None:
        topics = [new_topic() for _ in range(2)]
        partitioned(sink.broker, topics[0], 3)
        count = 8000
        batch = pa.record_batch(
            {
                "value": pa.array(values_of(count)),
                "__topic": pa.array([topics[row % 3 // 2] for row in range(count)]),
                "__key": pa.array([None if row % 2 else f"k{row % 40}" for row in range(count)]),
            }
        )
        numbering = Numbering("spark-query-1", 0)
        sink.write(batch, numbering, 500, until=3500)
        sink.write(batch, numbering, 7000, until=7000)
        sink.write(batch, numbering, 2000)
        for index, topic in enumerate(topics):
            expected = [row for row in range(count) if row % 3 // 2 == index]
            found = await received(client, topic, len(expected))
            assert Counter(message.data for message in found) == Counter(
                b"row %d" % row for row in expected
            )
            assert {message.sequence_id for message in found} == set(expected)

    async def test_messages_in_chunks(self, sink: Sink, client: magnetar.Client) -> None:
        topic = new_topic()
        values = [b"a", bytes(6 << 20), b"b", bytes(7 << 20), b"c"]
        batch = pa.record_batch({"value": pa.array(values)})
        for end in (2, 4, None):
            sink.write(batch, Numbering("n", 0), 1, end, topic=topic, chunkingEnabled="true")
        found = await received(client, topic, len(values))
        assert [message.data for message in found] == values

    async def test_an_attempt_waits_for_the_name(
        self, sink: Sink, client: magnetar.Client, broker: RunningBroker
    ) -> None:
        topic = new_topic()
        batch = pa.record_batch({"value": pa.array(values_of(10))})
        numbering = Numbering("held", 0)
        holder = await client.producer(topic, name="held")
        with pytest.raises(magnetar.Busy) as raised:
            await asyncio.to_thread(
                sink.write, batch, numbering, topic=topic, producerNameTimeout="1s"
            )
        assert raised.value.__notes__ == [
            "waited 1 s (producerNameTimeout) for the name held, which another producer has"
        ]
        async with FrameProxy(broker.port) as proxy:
            write = partial(Sink(broker, proxy.service_url).write, batch, numbering, topic=topic)
            writing = asyncio.create_task(asyncio.to_thread(write))
            asked = partial(proxy.commands, pb.BaseCommand.PRODUCER)
            await until(lambda: len(asked()) > 1, "it asks again for the name")
            assert not writing.done()
            await holder.close()
            await writing
        await received(client, topic, 10)

    async def test_a_topic_that_keeps_nothing_is_refused(self, sink: Sink) -> None:
        batch = pa.record_batch({"value": pa.array([b"a"])})
        with pytest.raises(ValueError, match="is not persistent"):
            sink.write(batch, Numbering("n", 0), topic="non-persistent://public/default/t")


async def received_again(client: magnetar.Client, topic: str, expected: list[bytes]) -> None:
    async with await client.reader(topic, magnetar.EARLIEST) as reader:
        found: list[bytes] = []
        while len(found) <= len(expected):  # the marker of `received` is among them
            found.append((await reader.read(60)).data)
    assert [value for value in found if value.startswith(b"row")] == expected


async def test_exactly_once_is_refused_where_the_broker_forgets(
    sink: Sink, client: magnetar.Client
) -> None:
    topic = new_topic()
    batch = pa.record_batch({"value": pa.array(values_of(5000))})
    with pytest.raises(DeduplicationOff, match="switch it on for the topic"):
        sink.write(batch, Numbering("n", 0), topic=topic)
    assert [message.data for message in await received(client, topic, 1)] == [b"row 0"]


class TestTransactions:
    @staticmethod
    def rows(
        sink: Sink, topic: str, by_key: str = "false", fails: bool = False
    ) -> tuple[int, int] | None:
        """Write rows of all kinds as an attempt of a task; the transaction is open."""
        count = 3000
        batch = pa.record_batch(
            {
                "value": pa.array(values_of(count)),
                "__key": pa.array([f"k{row % 7}" for row in range(count)]),
                "__deliverAt": pa.array([1 if row == 99 else 0 for row in range(count)]),
            }
        )
        txn = sink.bridge.client.transaction(3600)  # longer than `received` waits
        task = sink.task(batch, txn=txn, topic=topic, batchingByKey=by_key)
        try:
            for start in range(0, count, 700):
                task.add(batch.slice(start, 700))
            if fails:
                raise ArithmeticError("the query has failed")
            task.finish()
            return task.hand_over()
        except BaseException:
            task.abandon()
            raise

    @pytest.mark.parametrize("by_key", ["true", "false"])
    async def test_rows_are_there_when_the_driver_commits(
        self, sink: Sink, client: magnetar.Client, by_key: str
    ) -> None:
        topic = new_topic()
        partitioned(sink.broker, topic, 2)
        for is_committed in (False, True):
            txn_id = await asyncio.to_thread(self.rows, sink, topic, by_key)
            assert txn_id is not None
            txn = client.transaction()
            txn.resume(txn_id)
            await (txn.commit() if is_committed else txn.abort())
        found = await received(client, topic, 3000)
        assert Counter(message.data for message in found) == Counter(values_of(3000))

    async def test_an_attempt_that_fails_leaves_nothing(
        self, sink: Sink, client: magnetar.Client
    ) -> None:
        topic = new_topic()
        with pytest.raises(ArithmeticError):
            await asyncio.to_thread(self.rows, sink, topic, fails=True)
        await received(client, topic, 0)

    async def test_without_rows_there_is_no_transaction(self, sink: Sink) -> None:
        batch = pa.record_batch({"value": pa.array([], pa.binary())})
        txn = sink.bridge.client.transaction(60)
        task = sink.task(batch, txn=txn, topic=new_topic())
        task.add(batch)
        task.finish()
        assert (task.hand_over(), txn.state) == (None, "not begun")
        task.abandon()

    async def test_a_task_that_fails_at_its_end_closes_no_producer_of_others(
        self, sink: Sink, client: magnetar.Client
    ) -> None:
        topic = new_topic()
        batch = pa.record_batch({"value": pa.array(values_of(10))})

        def fail_at_the_end() -> None:
            txn = sink.bridge.client.transaction(60)
            task = sink.task(batch, txn=txn, topic=topic)
            task.add(batch)
            task.finish()
            sink.bridge.run(txn.abort())
            with pytest.raises(magnetar.Closed):
                task.hand_over()
            task.abandon()

        await asyncio.to_thread(fail_at_the_end)
        await asyncio.to_thread(sink.write, batch, topic=topic)
        await received(client, topic, 10)

    async def test_a_topic_that_keeps_nothing_is_refused(self, sink: Sink) -> None:
        with pytest.raises(magnetar.NotAllowed, match="transactions need persistent topics"):
            await asyncio.to_thread(self.rows, sink, "non-persistent://public/default/t")
