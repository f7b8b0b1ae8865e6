"""Acknowledgements by message id, in transactions and without, against the real broker."""

import asyncio

import pytest

import magnetar
import magnetar.sync
from client.receiving import TIMEOUT_S, take, values
from client.transacting import ALL_TYPES, SINGLE, Unwanted, filled, left, new_topic, subscribed
from fakes.client_clock import ManualClock
from running_broker import RunningBroker


@pytest.mark.parametrize("kind", ALL_TYPES)
@pytest.mark.parametrize("batched", [True, False])
async def test_messages(client: magnetar.Client, kind: str, batched: bool) -> None:
    topic = await filled(client, 5, batched)
    consumer = await subscribed(client, topic, kind)
    ids = [message.id for message in await take(consumer, 5)]
    with pytest.raises(Unwanted):
        async with client.transaction() as txn:
            for one in ids[:2]:
                consumer.ack_id(one, txn=txn)
            await txn.flush()
            raise Unwanted
    again: set[bytes] = set()
    while len(again) < 2:
        again |= set(values(await take(consumer, 1))) & {b"0", b"1"}
    async with client.transaction() as txn:
        for one in (ids[0], ids[3]):
            consumer.ack_id(one, txn=txn)
    await consumer.close()
    assert await left(client, topic, kind) == [b"1", b"2", b"4"]


async def test_whole_entries(client: magnetar.Client) -> None:
    topic = await filled(client, 3)
    consumer = await subscribed(client, topic, "shared")
    ledger, entry, *_ = (await take(consumer, 3))[0].id
    async with client.transaction() as txn:
        consumer.ack_id(magnetar.MessageId(ledger, entry), txn=txn)
    await consumer.close()
    assert await left(client, topic, "shared") == []


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("batched", [True, False])
async def test_everything_up_to_an_id(client: magnetar.Client, kind: str, batched: bool) -> None:
    topic = await filled(client, 6, batched)
    consumer = await subscribed(client, topic, kind)
    ids = [message.id for message in await take(consumer, 6)]
    with pytest.raises(Unwanted):
        async with client.transaction() as txn:
            consumer.ack_up_to_id(ids[3], txn=txn)
            await txn.flush()
            raise Unwanted
    assert values(await take(consumer, 4)) == [b"0", b"1", b"2", b"3"]
    async with client.transaction() as txn:
        consumer.ack_up_to_id(ids[4], txn=txn)
        consumer.ack_up_to_id(ids[1], txn=txn)
    await consumer.close()
    assert await left(client, topic, kind) == [b"5"]


async def test_the_same_id_twice_in_one_transaction(client: magnetar.Client) -> None:
    topic = await filled(client, 2)
    consumer = await subscribed(client, topic, "shared")
    first, second = await take(consumer, 2)
    with pytest.raises(magnetar.TransactionConflict, match="received twice"):
        async with client.transaction() as txn:
            consumer.ack([first, second], txn=txn)
            consumer.ack_id(first.id, txn=txn)
    await consumer.close()
    assert await left(client, topic, "shared") == [b"0", b"1"]


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_batch_is_split_whatever_the_subscription_does_otherwise(
    client: magnetar.Client, by_id: bool
) -> None:
    topic = await filled(client, 3)
    consumer = await client.subscribe(
        topic, "s", initial_position="earliest", batch_index_acks=False
    )
    message = (await take(consumer, 3))[1]
    async with client.transaction() as txn:
        if by_id:
            consumer.ack_up_to_id(message.id, txn=txn)
        else:
            consumer.ack_up_to(message, txn=txn)
    await consumer.close()
    assert await left(client, topic) == [b"2"]


async def test_ids_of_a_batch_that_is_acknowledged_already(client: magnetar.Client) -> None:
    topic = await filled(client, 2)
    consumer = await subscribed(client, topic, "shared")
    ids = [message.id for message in await take(consumer, 2)]
    for _ in range(2):
        for one in ids:
            consumer.ack_id(one)
        await consumer.flush()
    with pytest.raises(magnetar.TransactionConflict, match="acknowledged already"):
        async with client.transaction() as txn:
            consumer.ack_id(ids[0], txn=txn)


async def test_ids_of_which_nothing_is_known(client: magnetar.Client) -> None:
    topic = await filled(client, 1)
    consumer = await subscribed(client, topic)
    [message] = await take(consumer, 1)
    unknown = magnetar.MessageId(10**9, 1, 0)
    async with client.transaction() as txn:
        for use in (consumer.ack_id, consumer.ack_up_to_id):
            with pytest.raises(ValueError, match="has not received"):
                use(unknown, txn=txn)
    for use in (consumer.ack_id, consumer.ack_up_to_id):
        with pytest.raises(magnetar.Closed, match="committed"):
            use(message.id, txn=txn)
    await consumer.close()
    assert await left(client, topic) == [b"0"]


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("kind", ["shared", "exclusive"])
async def test_messages_in_parts(client: magnetar.Client, kind: str, in_transaction: bool) -> None:
    """The id is that of the last part: the others are acknowledged as well."""
    topic = new_topic()
    consumer = await subscribed(client, topic, kind)
    producer = await client.producer(topic, batching=None, chunking=True)
    await producer.send(bytes(11 * 1024 * 1024))
    [message] = await take(consumer, 1)
    if in_transaction:
        async with client.transaction() as txn:
            consumer.ack_id(message.id, txn=txn)
    else:
        consumer.ack_id(message.id)
    await consumer.close()
    entries = await client.entry_consumer(topic, "s", type=kind)
    await producer.send(b"small")
    [first] = await entries.receive_entries(1, TIMEOUT_S)
    assert not first.is_chunk
    await entries.close()


async def test_messages_in_parts_come_again(broker: RunningBroker, clock: ManualClock) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(topic, "s", type="shared", nack_delay_s=0.01)
        producer = await client.producer(topic, batching=None, chunking=True)
        large = bytes(6 * 1024 * 1024)
        await producer.send(large)
        for count in range(2):
            [message] = await take(consumer, 1)
            assert (message.value, message.redelivery_count) == (large, count)
            consumer.nack_id(message.id)
            clock.advance(0.02)


async def test_without_asyncio(broker: RunningBroker) -> None:
    def use() -> bytes:
        topic = new_topic()
        with magnetar.sync.connect(broker.service_url) as client:
            consumer = client.subscribe(topic, "s", initial_position="earliest")
            client.producer(topic).send_batch([b"0", b"1", b"2", b"3"])
            ids = [consumer.receive(TIMEOUT_S).id for _ in range(4)]
            with client.transaction() as txn:
                consumer.ack_up_to_id(ids[1], txn=txn)
            with client.transaction() as txn:
                consumer.ack_id(ids[3], txn=txn)
            consumer.close()
            again = client.subscribe(topic, "s").receive(TIMEOUT_S)
            return again.value

    assert await asyncio.to_thread(use) == b"2"
