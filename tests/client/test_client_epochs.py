"""Consumer epochs, and what the application has: nothing is delivered to it twice unasked."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

import magnetar
from admin_http import Admin
from client.receiving import TIMEOUT_S, take, values
from fakes.client_clock import ManualClock
from fakes.waiting import until
from frame_proxy import FrameProxy, Kind
from running_broker import RunningBroker

SINGLE = ["exclusive", "failover"]


def new_topic(domain: str = "persistent") -> str:
    return f"{domain}://public/default/epochs-{uuid.uuid4().hex[:10]}"


@pytest.fixture
async def proxy(broker: RunningBroker) -> AsyncIterator[FrameProxy]:
    async with FrameProxy(broker.port) as made:
        yield made


def through(proxy: FrameProxy) -> magnetar.Client:
    return magnetar.connect(proxy.service_url, backoff_first_ms=10)


async def reconnected(proxy: FrameProxy) -> None:
    """Cut the connections, and wait until the consumer has subscribed and asked for messages."""
    subscribed = len(proxy.commands(Kind.SUBSCRIBE))
    await until(lambda: len(proxy.commands(Kind.FLOW)) >= subscribed, "it is connected")
    before = len(proxy.commands(Kind.FLOW))
    proxy.cut()
    await until(lambda: len(proxy.commands(Kind.FLOW)) > before, "it asks for messages again")


async def backlog(client: magnetar.Client, topic: str, kind: str) -> list[bytes]:
    """What another consumer is delivered in front of a message that is published now."""
    other = await client.subscribe(topic, "s", type=kind)
    await (await client.producer(topic)).send(b"last")
    found: list[bytes] = []
    while b"last" not in found:
        found += values(await take(other, 1))
    await other.close()
    return found[:-1]


@pytest.mark.parametrize("kind", SINGLE)
async def test_every_subscribe_and_every_redelivery_raises_the_epoch(
    proxy: FrameProxy, kind: str
) -> None:
    async with through(proxy) as client:
        consumer = await client.subscribe(new_topic(), "s", type=kind)
        consumer.redeliver_all()
        await reconnected(proxy)
        consumer.redeliver_all()
        await until(lambda: len(proxy.commands(Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES)) == 2, "")
        subscribes = [one.subscribe for one in proxy.commands(Kind.SUBSCRIBE)]
        asked = [
            one.redeliverUnacknowledgedMessages
            for one in proxy.commands(Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES)
        ]
        assert [one.consumer_epoch for one in subscribes] == [0, 2]
        assert all(one.HasField("consumer_epoch") for one in subscribes)
        assert [one.consumer_epoch for one in asked] == [1, 3]


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
async def test_shared_types_have_no_epochs(proxy: FrameProxy, kind: str) -> None:
    async with through(proxy) as client:
        await client.subscribe(new_topic(), "s", type=kind)
        [command] = proxy.commands(Kind.SUBSCRIBE)
        assert not command.subscribe.HasField("consumer_epoch")


@pytest.mark.parametrize("kind", SINGLE)
async def test_what_was_on_its_way_at_a_redelivery_is_dropped(proxy: FrameProxy, kind: str) -> None:
    topic = new_topic()
    async with through(proxy) as client:
        consumer = await client.subscribe(topic, "s", type=kind)
        producer = await client.producer(topic, batching=None)
        await producer.send(b"0")
        await take(consumer, 1)
        proxy.hold(Kind.MESSAGE)
        await producer.send_batch([b"1", b"2"])
        await until(lambda: proxy.held == 2, "the messages are on their way")
        consumer.redeliver_all()
        await until(lambda: proxy.held == 5, "all are sent again")
        proxy.release()
        await producer.send(b"end")
        assert values(await take(consumer, 4)) == [b"0", b"1", b"2", b"end"]


async def test_a_broker_without_epochs_delivers_again(proxy: FrameProxy) -> None:
    topic = new_topic()
    proxy.has_epochs = False
    async with through(proxy) as client:
        consumer = await client.subscribe(topic, "s")
        await (await client.producer(topic)).send(b"x")
        await take(consumer, 1)
        consumer.redeliver_all()
        assert values(await take(consumer, 1)) == [b"x"]


async def test_a_redelivery_before_the_consumer_is_connected_does_not_stop_it(
    proxy: FrameProxy,
) -> None:
    topic = new_topic()
    async with through(proxy) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic)
        await producer.send(b"x")
        await take(consumer, 1)
        proxy.hold(Kind.SUCCESS)
        proxy.cut()
        await until(lambda: proxy.held, "it has subscribed and was not answered")
        consumer.redeliver_all()
        proxy.release()
        assert values(await take(consumer, 1)) == [b"x"]


@pytest.mark.parametrize("kind", SINGLE)
async def test_without_persistence_a_redelivery_stops_nothing(
    broker: RunningBroker, kind: str
) -> None:
    topic = new_topic("non-persistent")
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type=kind)
        producer = await client.producer(topic)
        await producer.send(b"x")
        [first] = await take(consumer, 1)
        consumer.redeliver_all()
        await producer.send(b"y")
        assert values([first, *await take(consumer, 1)]) == [b"x", b"y"]


@pytest.mark.parametrize("kind", SINGLE)
async def test_what_the_application_has_is_not_delivered_again_after_a_reconnect(
    proxy: FrameProxy, broker: RunningBroker, kind: str
) -> None:
    topic = new_topic()
    async with through(proxy) as client, magnetar.connect(broker.service_url) as other:
        consumer = await client.subscribe(topic, "s", type=kind)
        producer = await other.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        await (await other.producer(topic)).send_batch([b"3", b"4", b"5"])
        first = await take(consumer, 5)
        consumer.ack(first[1])
        await consumer.flush()
        await reconnected(proxy)
        await producer.send(b"6")
        assert values(await take(consumer, 2)) == [b"5", b"6"], "what was not taken comes"
        await reconnected(proxy)
        await producer.send(b"7")
        assert values(await take(consumer, 1)) == [b"7"]
        consumer.ack(first)
        await consumer.close()
        assert await backlog(other, topic, kind) == [b"5", b"6", b"7"], "nothing else is lost"


@pytest.mark.parametrize("kind", SINGLE)
async def test_an_unload_and_a_cumulative_acknowledgement_later(
    broker: RunningBroker, kind: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, backoff_first_ms=10) as client:
        consumer = await client.subscribe(topic, "s", type=kind)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"%d" % number for number in range(10)])
        first = await take(consumer, 7)
        unload = f"{topic.replace('://', '/')}/unload"
        assert (await asyncio.to_thread(Admin(broker).put, unload)).status == 204
        assert values(await take(consumer, 3)) == [b"7", b"8", b"9"]
        consumer.ack_up_to(first[4])
        await consumer.flush()
        consumer.redeliver_all()
        assert values(await take(consumer, 5)) == [b"5", b"6", b"7", b"8", b"9"]


async def test_chunked_messages_that_the_application_has(proxy: FrameProxy) -> None:
    topic = new_topic()
    async with through(proxy) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic, batching=None, chunking=True)
        large = bytes(6 * 1024 * 1024)
        await producer.send(large)
        assert values(await take(consumer, 1)) == [large]
        await reconnected(proxy)
        await producer.send(b"next")
        assert values(await take(consumer, 1)) == [b"next"]


async def test_what_is_asked_for_comes_again_after_a_reconnect(proxy: FrameProxy) -> None:
    topic = new_topic()
    async with through(proxy) as client:
        consumer = await client.subscribe(topic, "s", nack_delay_s=3600)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        first = await take(consumer, 3)
        consumer.nack(first[1])
        await reconnected(proxy)
        assert values(await take(consumer, 1)) == [b"1"], "a nack waits no longer"
        await consumer.seek(magnetar.EARLIEST)
        assert values(await take(consumer, 3)) == [b"0", b"1", b"2"]
        await reconnected(proxy)
        consumer.redeliver_all()
        assert values(await take(consumer, 3)) == [b"0", b"1", b"2"]


async def test_the_ack_timeout_goes_on_over_a_reconnect(
    proxy: FrameProxy, clock: ManualClock
) -> None:
    topic = new_topic()
    async with magnetar.connect(proxy.service_url, backoff_first_ms=10, clock=clock) as client:
        consumer = await client.subscribe(topic, "s", ack_timeout_s=1, ack_timeout_tick_s=0.05)
        await (await client.producer(topic)).send(b"forgotten")
        await take(consumer, 1)
        clock.advance(0.5)
        await clock.drive(reconnected(proxy), 0.1)
        clock.advance(0.55)
        assert values(await take(consumer, 1)) == [b"forgotten"]


async def test_what_an_operator_moves_back_comes_again(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, backoff_first_ms=10) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2", b"3"])
        first = await take(consumer, 4)
        consumer.ack([first[0], first[2]])
        await consumer.flush()
        reset = f"{topic.replace('://', '/')}/subscription/s/resetcursor/0"
        assert (await asyncio.to_thread(Admin(broker).post, reset)).status == 204
        assert values(await take(consumer, 2)) == [b"0", b"2"], "it has the others"


async def test_other_clients_rule_is_an_option(proxy: FrameProxy) -> None:
    topic = new_topic()
    async with through(proxy) as client:
        consumer = await client.subscribe(topic, "s", redeliver_on_reconnect=True)
        await (await client.producer(topic)).send(b"x")
        await take(consumer, 1)
        await reconnected(proxy)
        assert values(await take(consumer, 1)) == [b"x"]


async def test_an_active_consumer_that_is_replaced_for_a_while(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        mine = await client.subscribe(topic, "s", type="failover", priority=1)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"%d" % number for number in range(6)])
        first = await take(mine, 3)
        await until(lambda: len(mine.inbox) == 3, "the others have arrived")
        theirs = await client.subscribe(topic, "s", type="failover", priority=0)
        got = await take(theirs, 6)
        await until(lambda: not mine.active_topics, "it is told")
        assert not len(mine.inbox), "what it had not taken is the other's"
        theirs.ack(got[3])
        await theirs.close()
        mine.ack(first)
        assert values(await take(mine, 2)) == [b"4", b"5"]
        await producer.send(b"end")
        assert values(await take(mine, 1)) == [b"end"]


@pytest.mark.parametrize("kind", SINGLE)
async def test_many_reconnects_under_load(
    proxy: FrameProxy, broker: RunningBroker, kind: str
) -> None:
    """Each message is handed out once and in order, though few are acknowledged at each cut."""
    topic = new_topic()
    total, every = 3000, 400
    async with through(proxy) as client, magnetar.connect(broker.service_url) as other:
        consumer = await client.subscribe(topic, "s", type=kind, queue_size=200)
        producer = await other.producer(topic)
        sent = [b"%d" % number for number in range(total)]
        for first in range(0, total, 50):
            await producer.send_batch(sent[first : first + 50])
        received: list[magnetar.Message] = []
        acked = cuts = 0
        while len(received) < total:
            received += await consumer.receive_batch(37, TIMEOUT_S)
            if len(received) - acked > 500:
                consumer.ack(received[acked : acked + 150 : 2])
                consumer.ack(received[acked + 1 : acked + 150 : 2])
                acked += 150
            if len(received) > (cuts + 1) * every:
                proxy.cut()
                cuts += 1
        assert values(received) == sent
        assert cuts == (total - 1) // every
        consumer.ack(received)
        await consumer.close()
        assert await backlog(other, topic, kind) == []
