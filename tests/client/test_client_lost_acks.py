"""Acknowledgements that get lost between a client and a broker that both live."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator

import pytest

import magnetar
from client.receiving import take, values
from effort import seeds
from fakes.client_clock import PATIENT, ManualClock
from fakes.waiting import until
from frame_proxy import FrameProxy, Kind
from running_broker import RunningBroker

KINDS = ["exclusive", "failover", "shared", "key_shared"]
LOSSES = {"acks": Kind.ACK, "answers": Kind.ACK_RESPONSE}


def new_topic() -> str:
    return f"persistent://public/default/acks-{uuid.uuid4().hex[:10]}"


@pytest.fixture
async def proxy(broker: RunningBroker) -> AsyncIterator[FrameProxy]:
    async with FrameProxy(broker.port) as made:
        yield made


async def left(broker: RunningBroker, topic: str, kind: str) -> list[bytes]:
    """What another consumer is delivered in front of a message that is published now."""
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type=kind)
        await (await client.producer(topic)).send(b"last")
        found: list[bytes] = []
        while b"last" not in found:
            found += values(await take(consumer, 1))
        return found[:-1]


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_lost_acknowledgement_is_sent_again(
    proxy: FrameProxy, broker: RunningBroker, clock: ManualClock, kind: str, lost: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(proxy.service_url, clock=clock, **PATIENT) as client:
        consumer = await client.subscribe(topic, "s", type=kind, ack_delay_ms=0, ack_resend_s=0.1)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1"])
        await (await client.producer(topic)).send_batch([b"2", b"3", b"4"])
        first = await take(consumer, 5)
        proxy.lose(LOSSES[lost], 3)
        consumer.ack([first[1], first[3]])
        await clock.drive(consumer.flush(), 0.1)
        assert proxy.lost[LOSSES[lost]] == 3
        await consumer.close()
        assert await left(broker, topic, kind) == [b"0", b"2", b"4"]


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("kind", ["exclusive", "failover"])
async def test_a_lost_cumulative_acknowledgement_is_sent_again(
    proxy: FrameProxy, broker: RunningBroker, clock: ManualClock, kind: str, lost: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(proxy.service_url, clock=clock, **PATIENT) as client:
        consumer = await client.subscribe(topic, "s", type=kind, ack_resend_s=0.1)
        producer = await client.producer(topic)
        await producer.send_batch([b"0", b"1", b"2"])
        await producer.send_batch([b"3", b"4", b"5"])
        first = await take(consumer, 6)
        proxy.lose(LOSSES[lost], 2)
        consumer.ack_up_to(first[4])
        await clock.drive(consumer.flush(), 0.1)
        assert proxy.lost[LOSSES[lost]] == 2
        await consumer.close()
        assert await left(broker, topic, kind) == [b"5"]


async def test_it_counts_as_acknowledged_once_the_broker_has_answered(
    proxy: FrameProxy, clock: ManualClock
) -> None:
    topic = new_topic()
    async with magnetar.connect(proxy.service_url, clock=clock, **PATIENT) as client:
        consumer = await client.subscribe(topic, "s", ack_resend_s=0.05)
        await (await client.producer(topic)).send(b"x")
        messages = await take(consumer, 1)
        proxy.lose(Kind.ACK, 1_000_000)
        consumer.ack(messages)
        flushing = asyncio.create_task(consumer.flush())
        async with clock.running(0.05):
            await until(lambda: proxy.lost[Kind.ACK] > 3, "it is sent again and again")
            assert not flushing.done()
            proxy.loses = lambda command: False
            await flushing


@pytest.mark.parametrize("kind", KINDS)
async def test_the_ack_timeout_sends_the_acknowledgement_again_and_not_the_message(
    proxy: FrameProxy, broker: RunningBroker, clock: ManualClock, kind: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(proxy.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "s", type=kind, ack_delay_ms=0, ack_resend_s=3600,
            ack_timeout_s=1, ack_timeout_tick_s=0.05,
        )  # fmt: skip
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        first = await take(consumer, 3)
        # The second is lost on its way before the request for the third as well.
        proxy.lose(Kind.ACK, 2)
        consumer.ack(first[:2])
        clock.advance(1.05)
        again = await take(consumer, 1)
        assert values(again) == [b"2"], "what was acknowledged is not processed twice"
        asked = proxy.commands(Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES)
        named = [one.redeliverUnacknowledgedMessages.message_ids for one in asked]
        wanted = [first[2].id.entry] if "shared" in kind else []
        assert [[one.entryId for one in ids] for ids in named] == [wanted]
        consumer.ack(again)
        consumer.redeliver_all()  # which sends what was not answered again
        await consumer.flush()
        await producer.send(b"3")
        assert values(await take(consumer, 1)) == [b"3"]
        await consumer.close()
        assert await left(broker, topic, kind) == [b"3"]


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("kind", KINDS)
async def test_no_hole_stays_whatever_is_lost(
    proxy: FrameProxy, broker: RunningBroker, clock: ManualClock, kind: str, seed: int
) -> None:
    """The first and a third of all acknowledgements and answers are lost, connections are cut, and
    messages are refused, forgotten and asked for again: all is acknowledged in the end."""
    topic = new_topic()
    chance = random.Random(seed)
    ends = {Kind.ACK, Kind.ACK_RESPONSE}
    async with (
        magnetar.connect(proxy.service_url, backoff_first_ms=10, clock=clock, **PATIENT) as client,
        clock.running(1.05),
    ):
        consumer = await client.subscribe(
            topic, "s", type=kind, ack_delay_ms=1, ack_resend_s=0.05, nack_delay_s=0.02,
            ack_timeout_s=1, ack_timeout_tick_s=0.05, queue_size=50,
        )  # fmt: skip
        async with magnetar.connect(broker.service_url) as other:
            sent = [b"%d" % number for number in range(400)]
            single, batched = (
                await other.producer(topic, batching=None),
                await other.producer(topic),
            )
            # Of a batch on a shared subscription a nack asks again for what is queued, too, and
            # `redeliver_all` for what is on its way: there are no epochs.
            producers = [single] if "shared" in kind else [single, batched]
            for first in range(0, 400, 20):
                await chance.choice(producers).send_batch(sent[first : first + 20])
        proxy.loses = lambda command: (
            command.type in ends and (not proxy.lost[command.type] or chance.random() < 1 / 3)
        )
        acked: set[bytes] = set()
        twice: set[bytes] = set()
        while len(acked) < len(sent):
            for message in await consumer.receive_batch(10):
                fate = chance.random()
                if message.value in acked:
                    twice.add(message.value)
                if fate < 0.9 or message.value in acked:
                    consumer.ack(message)
                    acked.add(message.value)
                elif fate < 0.95:
                    consumer.nack(message)
            if chance.random() < 0.02:
                proxy.cut()
            if chance.random() < 0.02 and "shared" not in kind:
                consumer.redeliver_all()
        assert not twice, "what was acknowledged was delivered again"
        await consumer.flush()
        proxy.loses = lambda command: False
        await consumer.close()
    assert await left(broker, topic, kind) == []
    assert all(proxy.lost[end] for end in ends)
