"""Messages that come again: nack, ack timeout, all; retry and dead letter topics; seeking."""

import asyncio
import uuid

import pulsar
import pytest

import magnetar
from client.receiving import TIMEOUT_S, next_millisecond, take, values
from fakes.client_clock import ManualClock
from magnetar import DeadLetterPolicy, RedeliveryBackoff
from running_broker import RunningBroker

KINDS = ["exclusive", "failover", "shared", "key_shared"]


def new_topic() -> str:
    return f"persistent://public/default/again-{uuid.uuid4().hex[:10]}"


@pytest.mark.parametrize("kind", KINDS)
async def test_nacked_messages_come_again(
    broker: RunningBroker, clock: ManualClock, kind: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(topic, "s", type=kind, nack_delay_s=60)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        first = await take(consumer, 3)
        consumer.ack([first[0], first[2]])
        await consumer.flush()
        consumer.nack(first[1])
        clock.advance(59.9)
        assert consumer.statistics.nacked_entries == 0
        clock.advance(0.11)
        assert consumer.statistics.nacked_entries == 1
        [again] = await take(consumer, 1)
        assert again.value == b"1"
        assert again.redelivery_count == (1 if "shared" in kind else 0)
        consumer.ack(again)
        await consumer.flush()


@pytest.mark.parametrize("kind", ["exclusive", "shared"])
async def test_the_rest_of_a_nacked_batch_comes_again(
    broker: RunningBroker, clock: ManualClock, kind: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "s", type=kind, nack_backoff=RedeliveryBackoff(0.01, 1)
        )
        producer = await client.producer(topic)
        await producer.send_batch([b"%d" % number for number in range(6)])
        first = await take(consumer, 6)
        consumer.ack(first[::2])
        consumer.nack(first[1])
        clock.advance(0.02)
        assert values(await take(consumer, 3)) == [b"1", b"3", b"5"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_acknowledged_in_time_comes_again(
    broker: RunningBroker, clock: ManualClock, kind: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        consumer = await client.subscribe(
            topic, "s", type=kind, ack_timeout_s=1, ack_timeout_tick_s=0.05, ack_delay_ms=60_000
        )
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2", b"3"])
        first = await take(consumer, 4)
        # Not flushed: the acknowledgements overtake the request to deliver again.
        consumer.ack([first[0], first[3]])
        clock.advance(0.9)
        assert consumer.statistics.timed_out_entries == 0
        clock.advance(0.15)
        assert values(await take(consumer, 2)) == [b"1", b"2"]


@pytest.mark.parametrize("kind", KINDS)
async def test_all_that_is_unacknowledged_comes_again(broker: RunningBroker, kind: str) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type=kind, queue_size=100)
        producer = await client.producer(topic, batching=None)
        sent = [b"%d" % number for number in range(150)]
        await producer.send_batch(sent)
        first = await take(consumer, 60)
        consumer.ack(first[:20])
        for _ in range(5):
            consumer.redeliver_all()
        rest: dict[bytes, None] = {}
        while len(rest) < 130:
            batch = await consumer.receive_batch(timeout_s=TIMEOUT_S)
            consumer.ack(batch)
            rest.update(dict.fromkeys(values(batch)))
        assert sorted(rest, key=int) == sent[20:]
        await consumer.flush()


@pytest.mark.parametrize("kind", ["exclusive", "shared"])
async def test_messages_are_acknowledged_by_their_ids(broker: RunningBroker, kind: str) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type=kind)
        producer = await client.producer(topic)
        ids = await producer.send_batch([b"0", b"1", b"2"])
        ids.append(await producer.send(b"3"))
        ids.append(await producer.send(b"4"))
        await take(consumer, 5)
        for index in (0, 2, 3):
            consumer.ack_id(ids[index])
        with pytest.raises(ValueError, match="has not received"):
            consumer.ack_id(magnetar.MessageId(10**9, 1, 0))
        await consumer.close()
        again = await client.subscribe(topic, "s", type=kind)
        assert values(await take(again, 2)) == [b"1", b"4"]


async def test_without_batch_index_acks_a_batch_comes_again_whole(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type="shared", batch_index_acks=False)
        producer = await client.producer(topic)
        await producer.send_batch([b"0", b"1"])
        await producer.send_batch([b"2", b"3"])
        first = await take(consumer, 4)
        consumer.ack(first[0])
        consumer.ack(first[2:])
        await consumer.close()
        again = await client.subscribe(topic, "s", type="shared")
        assert values(await take(again, 2)) == [b"0", b"1"]
        await (await client.producer(topic)).send(b"end")
        assert values(await take(again, 1)) == [b"end"]


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
async def test_what_comes_too_often_goes_to_the_dead_letter_topic(
    broker: RunningBroker, official: pulsar.Client, clock: ManualClock, kind: str
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        policy = DeadLetterPolicy(max_redeliveries=2, initial_subscription="kept")
        consumer = await client.subscribe(
            topic, "s", type=kind, nack_delay_s=0.01, dead_letter=policy
        )
        producer = await client.producer(topic)
        sent = await producer.send(b"poison", key="k", properties={"a": "b"}, event_time_ms=5)
        for count in range(3):
            [message] = await take(consumer, 1)
            assert message.redelivery_count == count
            consumer.nack(message)
            clock.advance(0.02)

        def dead_letter() -> pulsar.Message:
            dead = official.subscribe(
                f"{topic}-s-DLQ", "kept", consumer_type=pulsar.ConsumerType.Shared
            )
            return dead.receive(int(TIMEOUT_S * 1000))

        moved = await asyncio.to_thread(dead_letter)
        assert (moved.data(), moved.partition_key(), moved.event_timestamp()) == (b"poison", "k", 5)
        assert moved.properties() == {
            "a": "b",
            "REAL_TOPIC": topic,
            "ORIGIN_MESSAGE_ID": f"{sent.ledger}:{sent.entry}:-1",
            "ORIGIN_MESSAGE_IDY_TIME": f"{sent.ledger}:{sent.entry}:-1",
        }
        await consumer.close()
        again = await client.subscribe(topic, "s", type=kind)
        await producer.send(b"end")
        assert values(await take(again, 1)) == [b"end"]


@pytest.mark.parametrize("batch_index_acks", [True, False])
@pytest.mark.parametrize("is_flushed", [True, False])
async def test_of_a_batch_only_what_fails_in_the_last_round_is_a_dead_letter(
    broker: RunningBroker, batch_index_acks: bool, is_flushed: bool
) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            type="shared",
            nack_delay_s=0.01,
            batch_index_acks=batch_index_acks,
            dead_letter=DeadLetterPolicy(max_redeliveries=1),
        )
        dead = await client.subscribe(f"{topic}-s-DLQ", "d", initial_position="earliest")
        producer = await client.producer(topic)
        await producer.send_batch([b"bad", b"good", b"late", b"worse"])
        consumer.nack(await take(consumer, 4))
        bad, good, late, worse = await take(consumer, 4)
        assert late.redelivery_count == 1
        consumer.ack(good)
        if is_flushed:
            await consumer.flush()
        consumer.nack(bad)
        assert values(await take(dead, 1)) == [b"bad"]
        consumer.nack(worse)  # while `late` is still being processed
        assert values(await take(dead, 1)) == [b"worse"]
        consumer.ack(late)
        await consumer.flush()
        await producer.send_batch([b"all", b"fail"])
        for _ in range(2):
            consumer.nack(await take(consumer, 2))
        assert values(await take(dead, 2)) == [b"all", b"fail"]


async def test_what_is_left_of_a_batch_still_has_its_ack_timeout(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            type="shared",
            nack_delay_s=0.01,
            ack_timeout_s=1.0,
            dead_letter=DeadLetterPolicy(max_redeliveries=1),
        )
        dead = await client.subscribe(f"{topic}-s-DLQ", "d", initial_position="earliest")
        await (await client.producer(topic)).send_batch([b"bad", b"forgotten"])
        consumer.nack(await take(consumer, 2))
        consumer.nack((await take(consumer, 2))[:1])
        assert values(await take(dead, 2)) == [b"bad", b"forgotten"]


async def test_a_consumer_that_dies_counts_as_well(
    broker: RunningBroker, clock: ManualClock
) -> None:
    """Beyond the limit, as after consumers without a policy, nothing is delivered any more."""
    topic = new_topic()
    async with magnetar.connect(broker.service_url, clock=clock) as client:
        careless = await client.subscribe(topic, "s", type="shared", nack_delay_s=0.01)
        # Keeps the subscription's counts while the others change.
        producer = await client.producer(topic)
        await producer.send(b"poison")
        for _ in range(4):
            [message] = await take(careless, 1)
            careless.nack(message)
            clock.advance(0.02)
        await take(careless, 1)
        policy = DeadLetterPolicy(max_redeliveries=2)
        dead = await client.subscribe(f"{topic}-s-DLQ", "d", initial_position="earliest")
        careful = await client.subscribe(topic, "s", type="shared", dead_letter=policy)
        await careless.close()
        assert values(await take(dead, 1)) == [b"poison"]
        await careful.close()


async def test_reconsuming_later_goes_by_the_retry_topic(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(
            topic, "s", type="shared", retry=True, dead_letter=DeadLetterPolicy(max_redeliveries=2)
        )
        dead = await client.subscribe(f"{topic}-s-DLQ", "d", initial_position="earliest")
        producer = await client.producer(topic)
        sent = await producer.send(b"x", key=b"\x00\xff", properties={"mine": "1"})
        where = f"{sent.ledger}:{sent.entry}:-1"
        for rounds in range(3):
            [message] = await take(consumer, 1)
            assert message.topic == (f"{topic}-s-RETRY" if rounds else topic)
            if rounds:
                assert message.properties["RECONSUMETIMES"] == str(rounds)
                assert message.properties["DELAY_TIME"] == "20"
                assert message.properties["custom"] == str(rounds - 1)
                assert message.properties["ORIGIN_MESSAGE_ID"] == where
                assert message.properties["REAL_TOPIC"] == topic
            await consumer.reconsume_later(message, 0.02, {"custom": str(rounds)})
        [moved] = await take(dead, 1)
        assert (moved.key, moved.properties["mine"]) == (b"\x00\xff", "1")
        assert moved.properties["RECONSUMETIMES"] == "3"
        await consumer.flush()


async def test_reconsuming_later_up_to_a_message(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", retry=True)
        producer = await client.producer(topic, batching=None)
        await producer.send_batch([b"0", b"1", b"2"])
        first = await take(consumer, 3)
        await consumer.reconsume_later_cumulative(first[1], 0)
        [moved] = await take(consumer, 1)
        assert (moved.value, moved.topic) == (b"1", f"{topic}-s-RETRY")
        consumer.ack(moved)
        await consumer.close()
        again = await client.subscribe(topic, "s", retry=True)
        assert values(await take(again, 1)) == [b"2"]
        with pytest.raises(ValueError, match="retry=True"):
            plain = await client.subscribe(topic, "other")
            await plain.reconsume_later(first[0], 1)


async def test_an_older_name_of_the_retry_topic_is_used_where_it_exists(
    broker: RunningBroker,
) -> None:
    subscription = f"s-{uuid.uuid4().hex[:8]}"
    old = f"persistent://public/default/{subscription}-RETRY"
    async with magnetar.connect(broker.service_url) as client:
        await client.producer(old)
        topic = new_topic()
        consumer = await client.subscribe(topic, subscription, type="shared", retry=True)
        assert consumer.topics == [topic, old]


@pytest.mark.parametrize("kind", KINDS)
async def test_seeking(broker: RunningBroker, kind: str) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", type=kind)
        producer = await client.producer(topic, batching=None)
        ids = await producer.send_batch([b"0", b"1", b"2"])
        between = await next_millisecond()
        ids += await producer.send_batch([b"3", b"4"])
        messages = await take(consumer, 5)
        consumer.ack(messages)
        await consumer.seek(ids[1])
        assert sorted(values(await take(consumer, 4))) == [b"1", b"2", b"3", b"4"]
        await consumer.seek(between)
        assert sorted(values(await take(consumer, 2))) == [b"3", b"4"]
        await consumer.seek(magnetar.EARLIEST)
        assert len(await take(consumer, 5)) == 5
        await consumer.seek(magnetar.LATEST)
        await producer.send(b"end")
        assert values(await take(consumer, 1)) == [b"end"]
        assert await consumer.last_message_ids() == {topic: ids[4]._replace(entry=ids[4].entry + 1)}


async def test_unsubscribing_deletes_the_subscription(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        one = await client.subscribe(topic, "s", type="shared")
        two = await client.subscribe(topic, "s", type="shared")
        with pytest.raises(magnetar.BrokerError):
            await one.unsubscribe()
        await one.unsubscribe(force=True)
        await (await client.producer(topic)).send(b"before")
        await two.close()
        fresh = await client.subscribe(topic, "other", initial_position="earliest")
        assert values(await take(fresh, 1)) == [b"before"]


async def test_without_a_durable_subscription_nothing_comes_again(broker: RunningBroker) -> None:
    topic = new_topic()
    async with magnetar.connect(broker.service_url) as client:
        consumer = await client.subscribe(topic, "s", start=magnetar.EARLIEST)
        await (await client.producer(topic)).send(b"x")
        [message] = await take(consumer, 1)
        with pytest.raises(ValueError, match="use seek"):
            consumer.nack(message)
        with pytest.raises(ValueError, match="use seek"):
            consumer.redeliver_all()
        with pytest.raises(ValueError, match="durable"):
            await client.subscribe(topic, "t", start=magnetar.EARLIEST, ack_timeout_s=1)
