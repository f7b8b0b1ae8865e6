"""Transactions that one process fills and another one ends."""

import asyncio

import pytest

import magnetar
import magnetar.sync
from client.receiving import take, values
from client.transacting import filled, left, new_topic, subscribed
from magnetar.producing.batching import Packed
from running_broker import RunningBroker


async def handed_over(broker: RunningBroker, topic: str, *given: bytes) -> tuple[int, int]:
    """A transaction with these messages, whose client has gone."""
    async with magnetar.connect(broker.service_url) as first:
        producer = await first.producer(topic)
        txn = first.transaction()
        await txn.begin()
        for value in given:
            producer.send_nowait(value, txn=txn)
        found = await txn.hand_over()
        with pytest.raises(magnetar.Closed, match="handed over"):
            await txn.commit()
    return found


async def test_another_client_commits(broker: RunningBroker, client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    txn_id = await handed_over(broker, topic, b"one", b"two")
    producer = await client.producer(topic)
    txn = client.transaction()
    txn.resume(txn_id)
    await producer.send(b"three", txn=txn)
    assert txn.state == "open"
    await txn.commit()
    assert values(await take(consumer, 3)) == [b"one", b"two", b"three"]


async def test_another_client_aborts(broker: RunningBroker, client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    txn_id = await handed_over(broker, topic, b"one", b"two")
    txn = client.transaction()
    txn.resume(txn_id)
    await txn.abort()
    producer = await client.producer(topic)
    await producer.send(b"three")
    assert values(await take(consumer, 1)) == [b"three"]
    late = client.transaction()
    late.resume(txn_id)
    with pytest.raises(magnetar.TransactionOver):
        await late.commit()


async def test_what_failed_is_not_handed_over(client: magnetar.Client) -> None:
    producer = await client.producer(new_topic())
    txn = client.transaction()
    await txn.begin()
    receipt = producer.send_nowait(bytes(6 << 20), txn=txn)
    with pytest.raises(magnetar.MessageTooLarge):
        await txn.hand_over()
    assert (txn.state, type(receipt.error)) == ("aborted", magnetar.MessageTooLarge)


async def test_acknowledgements_are_not_handed_over(client: magnetar.Client) -> None:
    consumer = await subscribed(client, await filled(client, 1))
    message = await consumer.receive(60)
    async with client.transaction() as txn:
        consumer.ack(message, txn=txn)
        with pytest.raises(ValueError, match="commit it here"):
            await txn.hand_over()
        with pytest.raises(magnetar.Closed, match="begun before"):
            txn.resume((0, 0))


async def test_an_encoded_batch_is_of_the_transaction(client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = (await client.producer(topic)).partitions[0]
    part = b"\x00\x00\x00\x02\x18\x01"  # a size, and that the value has one byte
    for outcome in ("abort", "commit"):
        txn = client.transaction()
        await txn.begin()
        body = part + outcome[:1].encode()
        await producer.send_packed(Packed(2, body * 2), txn)
        await getattr(txn, outcome)()
    with pytest.raises(magnetar.Closed):
        producer.send_packed(Packed(2, body * 2), txn)
    assert values(await take(consumer, 2)) == [b"c", b"c"]


def test_without_asyncio(broker: RunningBroker) -> None:
    with magnetar.sync.connect(broker.service_url) as client:
        topic = new_topic()
        consumer = client.subscribe(topic, "s", initial_position="earliest")
        with client.producer(topic) as producer, client.transaction() as txn:
            producer.send(b"one", txn=txn)
            found = txn.hand_over()
        resumed = client.transaction()
        resumed.resume(found)
        resumed.commit()
        assert consumer.receive(60).data == b"one"


async def test_acknowledgements_that_come_while_it_waits_are_not_handed_over(
    client: magnetar.Client,
) -> None:
    topic = await filled(client, 1)
    consumer = await subscribed(client, topic)
    producer = await client.producer(new_topic())
    message = await consumer.receive(60)
    txn = client.transaction()
    await txn.begin()
    producer.send_nowait(b"one", txn=txn)
    handing_over = asyncio.create_task(txn.hand_over())
    await asyncio.sleep(0)
    consumer.ack(message, txn=txn)
    with pytest.raises(ValueError, match="commit it here"):
        await handing_over
    await txn.commit()
    await consumer.close()
    assert await left(client, topic) == []
