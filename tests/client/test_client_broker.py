"""The client against the real daemon: sending, receiving, acknowledging, reading."""

import asyncio
import urllib.request
import uuid
from collections import Counter

import pytest

import magnetar
from fakes.client_clock import FOR_EVER_S, ManualClock
from magnetar.producing.batching import COMPRESSIONS
from running_broker import RunningBroker

TIMEOUT_S = 60.0


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


def partition(broker: RunningBroker, topic: str, count: int) -> None:
    """Make a topic of so many partitions."""
    local = topic.rsplit("/", 1)[1]
    url = f"{broker.http_url}/admin/v2/persistent/public/default/{local}/partitions"
    request = urllib.request.Request(url, str(count).encode(), method="PUT")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        assert answer.status == 204


async def take(consumer: magnetar.Consumer, count: int) -> list[magnetar.Message]:
    messages: list[magnetar.Message] = []
    while len(messages) < count:
        messages += await consumer.receive_batch(timeout_s=TIMEOUT_S)
    return messages


async def read(reader: magnetar.Reader, count: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        values += [message.value for message in await reader.read_batch(timeout_s=TIMEOUT_S)]
    return values


async def must_be_empty(client: magnetar.Client, topic: str, subscription: str) -> None:
    """Nothing of the topic is left to a subscription: what comes next is a marker sent now."""
    consumer = await client.subscribe(topic, subscription)
    producer = await client.producer(topic)
    await producer.send(b"marker")
    assert (await consumer.receive(TIMEOUT_S)).value == b"marker"


async def test_everything_about_a_message_arrives(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic, name="writer")
        sent = await producer.send(b"value", key="key", properties={"a": "b"}, event_time_ms=77)
        message = await consumer.receive(TIMEOUT_S)
        assert message.id == sent
        assert message.value == b"value"
        assert (message.key, message.properties) == ("key", {"a": "b"})
        assert message.event_time_ms == 77
        assert message.producer_name == "writer"
        assert message.topic == topic
        assert message.redelivery_count == 0


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("batched", [True, False])
async def test_a_batch_arrives_in_order(
    broker: RunningBroker, compression: str, batched: bool
) -> None:
    topic = new_topic()
    values = [b"%d" % index * (index % 50) for index in range(2500)]
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        batching = magnetar.BatchLimits() if batched else None
        producer = await client.producer(topic, compression=compression, batching=batching)
        ids = await producer.send_batch(values)
        assert ids == sorted(ids)
        entries = {(message_id.ledger, message_id.entry) for message_id in ids}
        assert (len(entries) < 100) == batched
        received = await take(consumer, len(values))
        assert [message.value for message in received] == values
        assert [message.id for message in received] == ids


async def test_receipts_without_waiting(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(new_topic(), max_pending_messages=3)
        receipts = [producer.send_nowait(b"%d" % index) for index in range(3)]
        assert not any(receipt.done() for receipt in receipts)
        with pytest.raises(magnetar.QueueFull):
            producer.send_nowait(b"too many")
        await producer.flush()
        assert all(receipt.done() for receipt in receipts)
        assert [await receipt for receipt in receipts] == sorted(r.id() for r in receipts)
        many = await asyncio.gather(*(producer.send(b"x") for _ in range(50)))
        assert len(set(many)) == 50


async def test_a_cancelled_send_harms_no_other(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(new_topic())
        doomed = asyncio.create_task(producer.send(b"a"))
        other = asyncio.create_task(producer.send(b"b"))
        await asyncio.sleep(0)
        doomed.cancel()
        assert (await other).batch_index == 1
        with pytest.raises(asyncio.CancelledError):
            await doomed


async def test_a_message_above_the_limit_fails_alone(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        with pytest.raises(magnetar.MessageTooLarge, match="maxMessageSize"):
            await producer.send(bytes(6 * 1024 * 1024))
        large = bytes(5 * 1024 * 1024 - 1024)
        await producer.send(large)
        assert (await consumer.receive(TIMEOUT_S)).value == large


async def test_acknowledged_messages_do_not_come_back(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        await producer.send_batch([b"x"] * 100)
        messages = await take(consumer, 100)
        consumer.ack(messages[:50])
        consumer.ack(messages[50])
        consumer.ack(messages[51:])
        await consumer.close()
    async with magnetar.connect(broker.service_url) as client:
        await must_be_empty(client, topic, "s")


async def test_the_rest_of_a_batch_comes_back(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type="shared")
        producer = await client.producer(topic)
        await producer.send_batch([b"%d" % index for index in range(10)])
        messages = await take(consumer, 10)
        assert len({message.entry.position for message in messages}) == 1
        consumer.ack(messages[::2])
        await consumer.close()
        again = await client.subscribe(topic, "s", type="shared")
        rest = await take(again, 5)
        assert [message.value for message in rest] == [b"1", b"3", b"5", b"7", b"9"]
        again.ack(rest)
        await again.close()
        await must_be_empty(client, topic, "s")


async def test_cumulative_acks_cover_what_came_before(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        await producer.send(b"first")
        await producer.send_batch([b"%d" % index for index in range(10)])
        messages = await take(consumer, 11)
        consumer.ack_up_to(messages[6])
        await consumer.close()
        again = await client.subscribe(topic, "s")
        assert [message.value for message in await take(again, 4)] == [b"6", b"7", b"8", b"9"]
        with pytest.raises(magnetar.Closed):
            consumer.ack_up_to(messages[-1])


async def test_permits_flow_beyond_the_queue(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", queue_size=3)
        producer = await client.producer(topic, batching=None)
        values = [b"%d" % index for index in range(200)]
        await producer.send_batch(values)
        for value in values:
            assert (await consumer.receive(TIMEOUT_S)).value == value


async def test_partitions_share_the_messages(broker: RunningBroker) -> None:
    topic = new_topic()
    partition(broker, topic, 3)
    async with magnetar.connect(broker.service_url) as client:
        assert await client.partitions(topic) == [f"{topic}-partition-{n}" for n in range(3)]
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        keyed = [magnetar.Outgoing(b"%d" % index, key=f"key{index % 10}") for index in range(300)]
        ids = await producer.send_batch(keyed)
        keyless = await producer.send_batch([b"-"] * 3000)
        assert {message_id.partition for message_id in keyless} == {0, 1, 2}
        messages = await take(consumer, 3300)
        by_key: dict[object, list[int]] = {}
        places = Counter[tuple[str | bytes, int]]()
        for message in messages:
            assert message.topic == f"{topic}-partition-{message.id.partition}"
            if message.key is not None:
                by_key.setdefault(message.key, []).append(int(message.value))
                places[message.key, message.id.partition] += 1
        assert len(places) == 10, "one partition for each key"
        assert all(numbers == sorted(numbers) for numbers in by_key.values())
        assert {message.id for message in messages} == {*ids, *keyless}
        consumer.ack(messages)
        await consumer.flush()


async def test_readers_begin_at_the_requested_position(
    broker: RunningBroker, clock: ManualClock
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        producer = await client.producer(topic)
        ids = await producer.send_batch([b"0", b"1", b"2"])
        ids.append(await producer.send(b"3"))
        for index, message_id in enumerate(ids):
            for inclusive in (True, False):
                reader = await client.reader(topic, message_id, inclusive=inclusive)
                expected = [b"%d" % n for n in range(index + (not inclusive), 4)]
                assert await read(reader, len(expected)) == expected
                await reader.close()
        latest = await client.reader(topic, magnetar.LATEST)
        earliest = await client.reader(topic)
        assert await latest.last_message_ids() == [ids[3]]
        await producer.send(b"4")
        assert await read(latest, 1) == [b"4"]
        assert await read(earliest, 5) == [b"0", b"1", b"2", b"3", b"4"]
        with pytest.raises(magnetar.OperationTimeout, match="nothing was received"):
            await clock.drive(latest.read(timeout_s=2), 2)


async def test_an_empty_topic_has_no_last_message(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        reader = await client.reader(new_topic())
        assert [tuple(last)[:2] for last in await reader.last_message_ids()] == [(-1, -1)]


async def test_entries_come_unopened(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        producer = await client.producer(topic)
        first = await producer.send(b"alone")
        batch = await producer.send_batch([b"a", b"b", b"c"])
        async with await client.entry_reader(topic) as reader:
            entries: list[magnetar.Entry] = []
            while len(entries) < 2:
                entries += await reader.receive_entries(timeout_s=TIMEOUT_S)
            assert [entry.position for entry in entries] == [first[:2], batch[0][:2]]
            assert [entry.permits for entry in entries] == [1, 3]
            assert [message.value for message in entries[1].messages()] == [b"a", b"b", b"c"]
            assert (await reader.last_message_id()) == batch[-1]


async def test_entries_of_many_partitions_need_one_named(broker: RunningBroker) -> None:
    topic = new_topic()
    partition(broker, topic, 2)
    async with magnetar.connect(broker.service_url) as client:
        with pytest.raises(ValueError, match="has 2 partitions"):
            await client.entry_reader(topic)
        producer = await client.producer(f"{topic}-partition-1")
        sent = await producer.send(b"x")
        reader = await client.entry_reader(f"{topic}-partition-1")
        [entry] = await reader.receive_entries(timeout_s=TIMEOUT_S)
        assert (*entry.position, entry.partition) == (sent.ledger, sent.entry, 1)


async def test_refusals_give_the_reason(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        await client.subscribe(topic, "s")
        with pytest.raises(magnetar.Busy, match=r"ConsumerBusy.*another subscription type"):
            await client.subscribe(topic, "s")
        await client.producer(topic, name="mine")
        with pytest.raises(magnetar.Busy, match="ProducerBusy"):
            await client.producer(topic, name="mine")


async def test_closed_objects_refuse_with_their_state(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        waiting = asyncio.create_task(consumer.receive())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(magnetar.Closed, match="consumer of"):
            await waiting
        await producer.close()
        with pytest.raises(magnetar.Closed, match="producer on"):
            await producer.send(b"x")
    with pytest.raises(magnetar.Closed, match="client is closed"):
        await client.producer(topic)


async def test_an_address_without_a_listener(clock: ManualClock) -> None:
    async with magnetar.connect(
        "pulsar://127.0.0.1:1", connect_timeout_s=FOR_EVER_S, clock=clock
    ) as client:
        with pytest.raises(magnetar.OperationTimeout, match=r"within 30 s: cannot connect"):
            await clock.drive(client.partitions("t"), 10)


async def test_the_first_of_several_addresses_may_be_down(broker: RunningBroker) -> None:
    url = f"pulsar://127.0.0.1:1,127.0.0.1:{broker.port}"
    async with magnetar.connect(url) as client:
        producer = await client.producer(new_topic())
        await producer.send(b"x")
