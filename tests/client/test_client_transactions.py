"""Transactions of the asyncio client, against the real broker: messages, and how they end."""

import asyncio
import logging

import pytest

import magnetar
import magnetar.sync
from client.receiving import take, values
from client.transacting import Unwanted, filled, new_topic, subscribed
from fakes.client_clock import ManualClock
from fakes.waiting import until
from frame_proxy import FrameProxy, Kind
from magnetar.producing.batching import SameMessages
from running_broker import RunningBroker


async def test_nothing_is_received_before_the_commit(client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic)
    async with client.transaction() as txn:
        await producer.send(b"one", txn=txn)
        receipt = producer.send_nowait(b"two", txn=txn, key="k")
        await producer.send_batch([b"three", magnetar.Outgoing(b"four")], txn=txn)
        await producer.send(b"outside")
        assert receipt.done()
        await txn.flush()
        reader = await client.reader(topic)
        assert not await reader.has_message_available()
    assert values(await take(consumer, 5)) == [b"one", b"two", b"three", b"four", b"outside"]


async def test_a_batch_is_of_one_transaction(client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(
        topic, batching=magnetar.BatchLimits(max_delay_ms=60_000), key_batching=False
    )
    first, second = client.transaction(), client.transaction()
    await first.begin()
    await second.begin()
    for number in range(4):
        for txn in (first, second, None):
            producer.send_nowait(b"%d" % number, txn=txn, properties={"of": str(txn)})
    await producer.flush()
    await first.abort()
    await second.commit()
    received = await take(consumer, 8)
    assert {message.properties["of"] for message in received} == {str(second), "None"}


async def test_keyed_batches_are_of_one_transaction(client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic, key_batching=True)
    async with client.transaction() as txn:
        for number in range(4):
            producer.send_nowait(b"%d" % number, key="a", txn=txn)
            producer.send_nowait(b"%d" % number, key="b")
        producer.send_nowait(b"4", key="a", txn=txn)
    received = await take(consumer, 9)
    for key, count in (("a", 5), ("b", 4)):
        ordered = [message.value for message in received if message.key == key]
        assert ordered == [b"%d" % number for number in range(count)]


async def test_a_send_that_fails_aborts_it(client: magnetar.Client) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic, batching=None)
    with pytest.raises(magnetar.MessageTooLarge):
        async with client.transaction() as txn:
            await producer.send(b"small", txn=txn)
            with pytest.raises(magnetar.MessageTooLarge):
                await producer.send(bytes(6 * 1024 * 1024), txn=txn)
    assert txn.state == "aborted"
    await producer.send(b"outside")
    assert values(await take(consumer, 1)) == [b"outside"]


async def test_closing_the_client_aborts_what_is_open(broker: RunningBroker) -> None:
    async with magnetar.connect(broker.service_url) as client:
        topic = await filled(client, 1)
        consumer = await subscribed(client, topic)
        producer = await client.producer(topic)
        txn = client.transaction()
        await txn.begin()
        producer.send_nowait(b"never", txn=txn)
        await txn.flush()
        assert len(await take(consumer, 1)) == 1
    assert txn.state == "aborted"


async def test_cancelling_the_block_aborts(client: magnetar.Client) -> None:
    producer = await client.producer(new_topic())
    open_ones: list[magnetar.Transaction] = []

    async def block() -> None:
        async with client.transaction() as txn:
            await producer.send(b"never", txn=txn)
            open_ones.append(txn)
            await asyncio.Event().wait()

    working = asyncio.create_task(block())
    await until(lambda: open_ones, "the block sleeps")
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert open_ones[0].state == "aborted"


@pytest.mark.parametrize("timeout_s", [0, -1, 1e9])
async def test_impossible_timeouts(client: magnetar.Client, timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s must be"):
        client.transaction(timeout_s)


async def test_the_answer_to_the_commit_is_lost(proxy: FrameProxy) -> None:
    """The coordinator is asked again; what it answers decides, and no failure is hidden."""
    async with magnetar.connect(proxy.service_url, backoff_first_ms=10) as client:
        topic = new_topic()
        consumer = await subscribed(client, topic)
        producer = await client.producer(topic)
        txn = client.transaction()
        await txn.begin()
        await producer.send(b"one", txn=txn)
        proxy.lose(Kind.END_TXN_RESPONSE, 1)
        committing = asyncio.create_task(txn.commit())
        await until(lambda: proxy.lost[Kind.END_TXN_RESPONSE], "the answer was lost")
        proxy.cut()
        try:
            await committing
        except magnetar.OperationTimeout as error:
            assert "unknown" in str(error)
            assert txn.state == "unknown"
        else:
            assert txn.state == "committed"
        assert values(await take(consumer, 1)) == [b"one"]


async def test_a_message_whose_receipt_was_lost_is_not_committed_twice(proxy: FrameProxy) -> None:
    """It is not sent again in its transaction, which can only be aborted; others are."""
    async with magnetar.connect(proxy.service_url, backoff_first_ms=10) as client:
        topic = new_topic()
        consumer = await subscribed(client, topic)
        producer = await client.producer(topic, batching=None)
        txn = client.transaction()
        await txn.begin()
        await producer.send(b"before", txn=txn)
        proxy.lose(Kind.SEND_RECEIPT, 2)
        receipt = producer.send_nowait(b"in it", txn=txn)
        outside = producer.send_nowait(b"outside")
        await until(lambda: proxy.lost[Kind.SEND_RECEIPT] == 2, "both receipts were lost")
        proxy.cut()
        with pytest.raises(magnetar.ConnectionLost, match="begin another one"):
            await receipt
        await outside
        with pytest.raises(magnetar.ConnectionLost, match="begin another one"):
            await txn.commit()
        assert txn.state == "aborted"
        async with client.transaction() as again:
            await producer.send(b"in another one", txn=again)
        received = values(await take(consumer, 3))
        assert received == [b"outside", b"outside", b"in another one"]


async def test_a_message_that_was_not_sent_before_a_reconnect_is_committed(
    broker: RunningBroker, proxy: FrameProxy
) -> None:
    async with (
        magnetar.connect(broker.service_url) as direct,
        magnetar.connect(proxy.service_url, backoff_first_ms=10) as client,
    ):
        topic = new_topic()
        consumer = await subscribed(direct, topic)
        producer = await client.producer(topic, batching=None)
        async with client.transaction() as txn:
            await producer.send(b"one", txn=txn)
            proxy.cut()
            await until(lambda: not producer.is_connected, "the producer has noticed")
            proxy.hold(Kind.PRODUCER_SUCCESS)
            receipt = producer.send_nowait(b"two", txn=txn)
            await until(lambda: proxy.held, "the producer is about to be registered")
            proxy.cut()
            proxy.release()
            await receipt
        assert values(await take(consumer, 2)) == [b"one", b"two"]


async def test_transactions_take_turns_among_the_coordinators(client: magnetar.Client) -> None:
    seen = set()
    for _ in range(3):
        async with client.transaction() as txn:
            seen.add(txn.id[0])
    assert len(seen) == 3


async def test_the_error_of_the_block_counts(
    proxy: FrameProxy, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with magnetar.connect(proxy.service_url, clock=clock) as client:

        async def block() -> None:
            async with client.transaction():
                proxy.loses = lambda command: command.type == Kind.END_TXN
                raise Unwanted

        working = asyncio.create_task(block())
        await until(lambda: proxy.lost[Kind.END_TXN], "the end is lost")
        clock.advance(30)
        with caplog.at_level(logging.WARNING, "magnetar"), pytest.raises(Unwanted):
            await working
        assert "will time out" in caplog.text


async def cancelled(work: asyncio.Task[object]) -> None:
    """Once it waits for its own work."""
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_send_that_is_cancelled_while_it_waits_is_of_it_nonetheless(
    client: magnetar.Client,
) -> None:
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic)
    async with client.transaction() as txn:
        await cancelled(asyncio.create_task(producer.send(b"one", txn=txn)))
    assert txn.state == "committed"
    assert values(await take(consumer, 1)) == [b"one"]


async def test_a_batch_whose_outcome_is_cancelled_is_not_committed(client: magnetar.Client) -> None:
    """Whether the broker has it is not asked any more; the producer goes on."""
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic)
    with pytest.raises(magnetar.Closed, match="cancelled"):
        async with client.transaction() as txn:
            producer.partitions[0].send_packed(SameMessages(b"never", 2), txn).cancel()
    assert txn.state == "aborted"
    producer.partitions[0].send_packed(SameMessages(b"outside", 2)).cancel()
    await producer.send(b"behind")
    assert producer.is_connected
    assert values(await take(consumer, 3)) == [b"outside", b"outside", b"behind"]


async def test_adding_a_partition_is_cancelled(client: magnetar.Client) -> None:
    """As by a program that cancels all tasks: then nothing waits without end."""
    producer = await client.producer(new_topic())
    with pytest.raises(magnetar.Closed, match="cancelled"):
        async with client.transaction() as txn:
            receipt = producer.send_nowait(b"never", txn=txn)
            txn.partition(producer.topic).cancel()
    assert txn.state == "aborted"
    assert isinstance(receipt.error, magnetar.Closed)


@pytest.mark.parametrize("first", ["commit", "abort", "hand_over"])
@pytest.mark.parametrize("second", ["commit", "abort", "hand_over"])
async def test_ended_in_two_ways_at_a_time(
    client: magnetar.Client, first: str, second: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One call ends the transaction, and the other one raises Closed."""
    topic = new_topic()
    consumer = await subscribed(client, topic)
    producer = await client.producer(topic)
    txn = client.transaction()
    await txn.begin()
    producer.send_nowait(b"in it", txn=txn)
    ends = [getattr(txn, first)(), getattr(txn, second)()]
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert [type(one) for one in outcomes if isinstance(one, Exception)] == [magnetar.Closed]
    if txn.state == "handed over":
        resumed = client.transaction()
        resumed.resume(txn.id)
        await resumed.commit()
    await producer.send(b"outside")
    expected = [b"outside"] if txn.state == "aborted" else [b"in it", b"outside"]
    assert values(await take(consumer, len(expected))) == expected
    assert "will time out" not in caplog.text


async def test_an_abort_that_is_cancelled_is_begun_again(proxy: FrameProxy) -> None:
    async with magnetar.connect(proxy.service_url) as client:
        topic = new_topic()
        producer = await client.producer(topic)
        txn = client.transaction()
        await txn.begin()
        await producer.send(b"one", txn=txn)
        proxy.hold(Kind.SEND_RECEIPT)
        producer.send_nowait(b"two", txn=txn)
        await cancelled(asyncio.create_task(txn.abort()))
        assert txn.state == "open"
        proxy.release()
        await txn.abort()
        assert txn.state == "aborted"
