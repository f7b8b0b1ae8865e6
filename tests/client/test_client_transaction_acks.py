"""Acknowledgements in transactions of the asyncio client, against the real broker."""

import asyncio

import pytest

import magnetar
import magnetar.sync
from client.receiving import TIMEOUT_S, take, values
from client.transacting import ALL_TYPES, SINGLE, Unwanted, filled, left, new_topic, subscribed
from fakes.waiting import until
from frame_proxy import FrameProxy, Kind
from running_broker import RunningBroker


@pytest.mark.parametrize("kind", ALL_TYPES)
async def test_consume_transform_produce(client: magnetar.Client, kind: str) -> None:
    source, target = await filled(client, 5), new_topic()
    results = await subscribed(client, target)
    producer = await client.producer(target)
    consumer = await subscribed(client, source, kind)
    for message in await take(consumer, 5):
        async with client.transaction() as txn:
            await producer.send(message.value * 2, txn=txn)
            consumer.ack(message, txn=txn)
        assert txn.state == "committed"
    assert values(await take(results, 5)) == [b"00", b"11", b"22", b"33", b"44"]
    await consumer.close()
    assert await left(client, source, kind) == []


@pytest.mark.parametrize("kind", ALL_TYPES)
@pytest.mark.parametrize("batched", [True, False])
async def test_what_an_aborted_transaction_acknowledged_comes_again(
    client: magnetar.Client, kind: str, batched: bool
) -> None:
    topic = await filled(client, 8, batched)
    consumer = await subscribed(client, topic, kind)
    producer = await client.producer(topic)
    messages = await take(consumer, 6)
    consumer.ack(messages[4:])
    await consumer.flush()
    with pytest.raises(Unwanted):
        async with client.transaction() as txn:
            consumer.ack(messages[:4], txn=txn)
            await producer.send(b"never", txn=txn)
            await txn.flush()
            raise Unwanted
    assert txn.state == "aborted"
    again: dict[bytes, magnetar.Message] = {}
    while len(again) < 6:
        for message in await take(consumer, 1):
            assert message.value not in (b"4", b"5", b"never")
            again[message.value] = message
    assert sorted(again) == [b"0", b"1", b"2", b"3", b"6", b"7"]
    async with client.transaction() as txn:
        consumer.ack(again.values(), txn=txn)
    await consumer.close()
    assert await left(client, topic, kind) == []


@pytest.mark.parametrize("kind", SINGLE)
async def test_an_abort_brings_nothing_twice(client: magnetar.Client, kind: str) -> None:
    topic = await filled(client, 20, batched=False)
    consumer = await subscribed(client, topic, kind)
    [first, *_] = await take(consumer, 3)
    with pytest.raises(Unwanted):
        async with client.transaction() as txn:
            consumer.ack(first, txn=txn)
            await txn.flush()
            raise Unwanted
    rest = values(await take(consumer, 18))
    assert rest == [b"0", *(b"%d" % number for number in range(3, 20))]


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
async def test_an_abort_brings_no_part_of_a_batch_twice(client: magnetar.Client, kind: str) -> None:
    topic = await filled(client, 6)
    consumer = await subscribed(client, topic, kind)
    with pytest.raises(Unwanted):
        async with client.transaction() as txn:
            consumer.ack(await take(consumer, 2), txn=txn)  # the others wait in the client
            await txn.flush()
            raise Unwanted
    async with client.transaction() as txn:
        messages: list[magnetar.Message] = []
        while len(messages) < 6 or not any(message.redelivery_count for message in messages):
            messages += await take(consumer, 1)
        consumer.ack(messages, txn=txn)
    assert sorted(values(messages)) == [b"%d" % number for number in range(6)]
    await (await client.producer(topic)).send(b"next")
    assert values(await take(consumer, 1)) == [b"next"]


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
async def test_what_was_acknowledged_is_left_out_after_a_reconnect(
    proxy: FrameProxy, kind: str
) -> None:
    async with magnetar.connect(proxy.service_url, backoff_first_ms=10) as client:
        topic = await filled(client, 4)
        consumer = await client.subscribe(
            topic, "s", type=kind, initial_position="earliest", ack_delay_ms=60_000
        )
        async with client.transaction() as txn:
            consumer.ack(await take(consumer, 4), txn=txn)
            flows = len(proxy.commands(Kind.FLOW))
            proxy.cut()
            await until(lambda: len(proxy.commands(Kind.FLOW)) > flows, "it asks for messages")
            await (await client.producer(topic)).send(b"next")
            assert values(await take(consumer, 1)) == [b"next"]
        await consumer.close()
        assert await left(client, topic, kind) == [b"next"]


async def test_the_answer_to_an_acknowledgement_is_lost(proxy: FrameProxy) -> None:
    async with magnetar.connect(proxy.service_url, backoff_first_ms=10) as client:
        topic = await filled(client, 4)
        consumer = await subscribed(client, topic, "shared")
        async with client.transaction() as txn:
            consumer.ack(await take(consumer, 4), txn=txn)
            proxy.lose(Kind.ACK_RESPONSE, 1)
            flushing = asyncio.create_task(txn.flush())
            await until(lambda: proxy.lost[Kind.ACK_RESPONSE], "the answer was lost")
            proxy.cut()
            await flushing
        await consumer.close()
        assert await left(client, topic, "shared") == []


@pytest.mark.parametrize("kind", SINGLE)
async def test_a_cumulative_acknowledgement(client: magnetar.Client, kind: str) -> None:
    topic = await filled(client, 6)
    consumer = await subscribed(client, topic, kind)
    messages = await take(consumer, 6)
    with pytest.raises(Unwanted):
        async with client.transaction() as txn:
            consumer.ack_up_to(messages[3], txn=txn)
            await txn.flush()
            raise Unwanted
    again = await take(consumer, 4)
    assert values(again) == values(messages[:4])
    async with client.transaction() as txn:
        consumer.ack_up_to(again[1], txn=txn)
        consumer.ack_up_to(again[3], txn=txn)
    await consumer.close()
    assert await left(client, topic, kind) == [b"4", b"5"]


async def test_acknowledged_before(client: magnetar.Client) -> None:
    topic = await filled(client, 2)
    consumer = await subscribed(client, topic, "shared")
    messages = await take(consumer, 2)
    consumer.ack(messages)
    await consumer.flush()
    with pytest.raises(magnetar.TransactionConflict, match="aborted"):
        async with client.transaction() as txn:
            consumer.ack(messages[0], txn=txn)
    assert txn.state == "aborted"


async def test_acknowledged_in_two_transactions(client: magnetar.Client) -> None:
    topic, target = await filled(client, 2), new_topic()
    consumer = await subscribed(client, topic, "shared")
    producer = await client.producer(target)
    results = await subscribed(client, target)
    messages = await take(consumer, 2)
    async with client.transaction() as first:
        consumer.ack(messages, txn=first)
        await first.flush()
        with pytest.raises(magnetar.TransactionConflict):
            async with client.transaction() as second:
                await producer.send(b"second", txn=second)
                consumer.ack(messages[1], txn=second)
        await producer.send(b"first", txn=first)
    assert values(await take(results, 1)) == [b"first"]
    await consumer.close()
    assert await left(client, topic, "shared") == []


async def test_the_same_message_twice_in_one_transaction(client: magnetar.Client) -> None:
    """The application has processed it twice, so it must not take effect."""
    topic = await filled(client, 3)
    consumer = await subscribed(client, topic, "shared")
    messages = await take(consumer, 3)
    with pytest.raises(magnetar.TransactionConflict, match="received twice"):
        async with client.transaction() as txn:
            consumer.ack(messages[:2], txn=txn)
            await txn.flush()
            consumer.ack(messages[1:], txn=txn)
    assert txn.state == "aborted"
    await consumer.close()
    assert await left(client, topic, "shared") == [b"0", b"1", b"2"]


async def test_a_part_of_a_batch_was_acknowledged_before_the_whole(
    client: magnetar.Client,
) -> None:
    """As when a batch comes again while a part of it still waits in the application."""
    topic = await filled(client, 3)
    consumer = await subscribed(client, topic, "shared")
    messages = await take(consumer, 3)
    async with client.transaction() as txn:
        consumer.ack(messages[1], txn=txn)
    with pytest.raises(magnetar.TransactionConflict):
        async with client.transaction() as txn:
            consumer.ack(messages, txn=txn)
    async with client.transaction() as txn:
        consumer.ack([messages[0], messages[2]], txn=txn)
    await consumer.close()
    assert await left(client, topic, "shared") == []


@pytest.mark.parametrize("is_cumulative", [False, True])
async def test_a_timeout_aborts(client: magnetar.Client, is_cumulative: bool) -> None:
    topic, target = await filled(client, 3), new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(target)
    results = await subscribed(client, target)
    messages = await take(consumer, 3)
    txn = client.transaction(timeout_s=2)
    await txn.begin()
    if is_cumulative:
        consumer.ack_up_to(messages[-1], txn=txn)
    else:
        consumer.ack(messages, txn=txn)
    await producer.send(b"late", txn=txn)
    await producer.send(b"outside")
    assert values(await take(results, 1)) == [b"outside"]  # which the open one held back
    with pytest.raises(magnetar.TransactionOver, match="timed out"):
        await txn.commit()
    assert txn.state == "aborted"
    assert values(await take(consumer, 3)) == values(messages)


async def test_one_that_has_ended_takes_nothing(client: magnetar.Client) -> None:
    topic = await filled(client, 1)
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic)
    [message] = await take(consumer, 1)
    txn = client.transaction()
    with pytest.raises(magnetar.Closed, match="not begun"):
        await producer.send(b"x", txn=txn)
    await txn.begin()
    await txn.abort()
    for use in (txn.commit, txn.abort, txn.begin):
        with pytest.raises(magnetar.Closed):
            await use()
    with pytest.raises(magnetar.Closed, match="aborted"):
        producer.send_nowait(b"x", txn=txn)
    with pytest.raises(magnetar.Closed, match="aborted"):
        consumer.ack(message, txn=txn)
    with pytest.raises(magnetar.Closed, match="aborted"):
        consumer.ack_up_to(message, txn=txn)
    await txn.close()


async def test_large_messages(client: magnetar.Client) -> None:
    topic, target = new_topic(), new_topic()
    large = bytes(6 * 1024 * 1024)
    producer = await client.producer(topic, batching=None, chunking=True)
    second = await client.producer(target, batching=None, chunking=True)
    consumer = await subscribed(client, topic, "shared")
    results = await subscribed(client, target)
    await producer.send(large)
    [message] = await take(consumer, 1)
    async with client.transaction() as txn:
        await second.send(message.value, txn=txn)
        consumer.ack(message, txn=txn)
    [result] = await take(results, 1)
    assert result.value == large
    await consumer.close()
    assert await left(client, topic, "shared") == []


async def test_across_topics_and_partitions(client: magnetar.Client) -> None:
    sources = [await filled(client, 10) for _ in range(3)]
    targets = [new_topic() for _ in range(3)]
    consumer = await client.subscribe_all(sources, "s", type="shared", initial_position="earliest")
    results = await client.subscribe_all(targets, "r", initial_position="earliest")
    producers = [await client.producer(target) for target in targets]
    messages = await take(consumer, 30)
    async with client.transaction() as txn:
        consumer.ack(messages, txn=txn)
        for index, message in enumerate(messages):
            producers[index % 3].send_nowait(message.value, txn=txn)
    assert sorted(values(await take(results, 30))) == sorted(values(messages))


@pytest.mark.parametrize("kind", ALL_TYPES)
async def test_the_connection_is_cut_in_the_middle(proxy: FrameProxy, kind: str) -> None:
    async with magnetar.connect(proxy.service_url, backoff_first_ms=10) as client:
        source, target = await filled(client, 10), new_topic()
        consumer = await subscribed(client, source, kind)
        producer = await client.producer(target)
        results = await subscribed(client, target)
        messages = await take(consumer, 10)
        async with client.transaction() as txn:
            await producer.send_batch(values(messages[:5]), txn=txn)
            consumer.ack(messages[:5], txn=txn)
            await txn.flush()
            proxy.cut()
            await until(lambda: not producer.is_connected, "the producer has noticed")
            await producer.send_batch(values(messages[5:]), txn=txn)
            consumer.ack(messages[5:], txn=txn)
            await txn.flush()
            proxy.cut()
        assert sorted(values(await take(results, 10))) == sorted(values(messages))
        await consumer.close()
        assert await left(client, source, kind) == []


async def test_the_coordinator_is_told_first(proxy: FrameProxy) -> None:
    async with magnetar.connect(proxy.service_url) as client:
        topic = await filled(client, 2)
        consumer = await subscribed(client, topic)
        producer = await client.producer(topic)
        messages = await take(consumer, 2)
        before = len(proxy.seen)
        async with client.transaction(timeout_s=7.5) as txn:
            await producer.send(b"x", txn=txn)
            await producer.send(b"y", txn=txn)
            consumer.ack(messages[:1], txn=txn)
            await txn.flush()
            consumer.ack(messages[1:], txn=txn)
        commands = [one for one in proxy.seen[before:] if one.type != Kind.FLOW]
        names = [
            Kind.Type.Name(one.type)
            for one in commands
            if one.type not in (Kind.LOOKUP, Kind.PARTITIONED_METADATA, Kind.PONG)
        ]
        assert names == [
            "TC_CLIENT_CONNECT_REQUEST", "NEW_TXN", "ADD_PARTITION_TO_TXN", "SEND", "SEND",
            "ADD_SUBSCRIPTION_TO_TXN", "ACK", "ACK", "END_TXN",
        ]  # fmt: skip
        assert proxy.commands(Kind.NEW_TXN)[0].newTxn.txn_ttl_millis == 7500
        acks = [one.ack for one in proxy.commands(Kind.ACK)][-2:]
        assert [(one.txnid_most_bits, one.txnid_least_bits) for one in acks] == [txn.id] * 2
        assert [list(one.message_id[0].ack_set) for one in acks] == [[0b10], [0b01]]
        assert [one.message_id[0].batch_size for one in acks] == [2, 2]


async def test_waiting_without_asyncio(broker: RunningBroker) -> None:
    def use() -> list[bytes]:
        topic = new_topic()
        with magnetar.sync.connect(broker.service_url) as client:
            consumer = client.subscribe(topic, "s", initial_position="earliest")
            producer = client.producer(topic)
            with client.transaction() as txn:
                producer.send(b"one", txn=txn)
                producer.send_nowait(b"two", txn=txn)
                producer.send_batch([b"three"], txn=txn)
            messages = [consumer.receive(TIMEOUT_S) for _ in range(3)]
            with pytest.raises(Unwanted), client.transaction() as txn:
                consumer.ack(messages, txn=txn)
                producer.send(b"never", txn=txn)
                txn.flush()
                raise Unwanted
            messages = [consumer.receive(TIMEOUT_S) for _ in range(3)]
            with client.transaction(timeout_s=600) as txn:
                consumer.ack(messages[:1], txn=txn)
                consumer.ack_up_to(messages[2], txn=txn)
            assert txn.state == "committed"
            return [message.value for message in messages]

    assert await asyncio.to_thread(use) == [b"one", b"two", b"three"]
