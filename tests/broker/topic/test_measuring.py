"""Rates: what is counted, by whom, and that topics without traffic are left alone."""

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions.skipping import expire_before
from magnetar_broker.topic.measuring import Consuming, Publishing, close_window, consuming
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry

BATCH = 5


def chunk(number: int, of: int) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=0, uuid="m",
        chunk_id=number, num_chunks_from_msg=of,
    )  # fmt: skip
    return encode_entry(metadata, b"part")


def rates(world: TopicWorld) -> Consuming:
    close_window(world.topic, 1)
    return consuming(world.subscription())


def received(world: TopicWorld, sub_type: int, entries: int = 4) -> Consumer:
    """A consumer that was sent some batches, of which nothing is measured yet."""
    consumer = world.subscribe(sub_type=sub_type, permits=1000)
    world.clock.advance(2)  # a Failover consumer becomes active
    world.publish(*[entry(0, BATCH)] * entries, counts=[BATCH] * entries)
    close_window(world.topic, 1)
    return consumer


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_acknowledged_messages_are_counted_and_not_entries(sub_type: int) -> None:
    world = TopicWorld()
    consumer = received(world, sub_type)
    world.ack(consumer, 0, 2)
    assert rates(world).acked == 2 * BATCH
    assert consumer.meter.rates[3] == 2 * BATCH
    assert rates(world).acked == 0


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_a_cumulative_acknowledgement_counts_what_was_not_acknowledged(sub_type: int) -> None:
    world = TopicWorld()
    consumer = received(world, sub_type)
    world.ack(consumer, 1)
    world.ack(consumer, 2, cumulative=True)
    world.ack(consumer, 2, cumulative=True)
    assert rates(world).acked == 3 * BATCH


def test_acknowledging_part_of_a_batch_counts_its_messages() -> None:
    world = TopicWorld()
    consumer = received(world, SHARED)
    world.ack(consumer, 0, ack_set=(0b11000,))
    assert rates(world).acked == 3
    world.ack(consumer, 0)
    assert rates(world).acked == 2


def test_what_another_consumer_acknowledges_counts_for_the_one_that_held_it() -> None:
    world = TopicWorld()
    consumer = received(world, SHARED, entries=1)
    other = world.subscribe(sub_type=SHARED)
    world.ack(other, 0)
    assert rates(world).acked == BATCH
    assert (consumer.meter.rates[3], other.meter.rates[3]) == (BATCH, 0)


def test_a_consumer_that_has_left_counts_for_its_subscription() -> None:
    world = TopicWorld()
    consumer = received(world, SHARED)
    world.ack(consumer, 0)
    consumer.close()
    assert rates(world).acked == BATCH
    assert rates(world) == Consuming()


def test_what_is_returned_is_not_acknowledged() -> None:
    world = TopicWorld()
    consumer = received(world, SHARED)
    world.nack(consumer, 0, 1)
    world.do(expire_before(world.subscription(), 1))
    assert rates(world).acked == 0
    world.subscribe(sub_type=SHARED, permits=1000)
    consumer.close()
    assert rates(world).acked == 0


def test_redelivered_and_expired_messages_have_rates() -> None:
    world = TopicWorld(limits=TopicLimits())
    consumer = received(world, SHARED)
    world.nack(consumer, 0)
    assert rates(world).redelivered == BATCH
    world.do(expire_before(world.subscription(), 2))
    assert rates(world).expired == 2 * BATCH


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, KEY_SHARED])
def test_chunks_are_counted_for_producer_and_consumer(sub_type: int) -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=sub_type, permits=1000)
    producer = world.producer()
    sends = world.send(producer, *(chunk(number, 2) for number in range(2)))
    world.clock.pump()
    assert rates(world).chunks == 2
    assert Publishing(*producer.meter.rates) == Publishing(2, sends.size, 2)
    assert consumer.chunks_out == world.topic.appender.chunks_in == 2


def test_each_producer_has_rates_of_its_own() -> None:
    world = TopicWorld()
    one = world.producer(name="one")
    two = world.producer(RecordingConnection(), name="two", producer_id=2)
    world.send(one, b"abc")
    world.send(two, b"ab", b"cde", counts=[1, 3])
    world.clock.pump()
    close_window(world.topic, 2)
    assert one.meter.rates == (0.5, 1.5, 0)
    assert two.meter.rates == (2.0, 2.5, 0)


def test_a_topic_without_traffic_is_not_measured() -> None:
    world = TopicWorld()
    received(world, SHARED)
    assert world.topic.traffic.fresh  # its rates are to become 0
    close_window(world.topic, 1)
    assert world.topic.meter.rates == (0, 0, 0, 0)
    assert not world.topic.traffic.fresh
    world.topic.meter.rates = (7, 7, 7, 7)
    close_window(world.topic, 1)
    assert world.topic.meter.rates == (7, 7, 7, 7)


def test_times_are_those_of_the_last_message_acknowledgement_and_request() -> None:
    world = TopicWorld()
    consumer = received(world, EXCLUSIVE)
    subscription, sent_ms = world.subscription(), world.clock.now_ms()
    assert (consumer.sent_ms, consumer.first_sent_ms) == (sent_ms, sent_ms)
    assert (consumer.acked_ms, subscription.acks.acked_ms, subscription.acks.advanced_ms) == (
        0,
        0,
        0,
    )
    world.clock.advance(1)
    world.ack(consumer, 1)  # leaves a gap: the mark-delete position stays
    assert consumer.acked_ms == subscription.acks.acked_ms == sent_ms + 1000
    assert subscription.acks.advanced_ms == 0
    world.clock.advance(1)
    world.ack(consumer, 0)
    assert subscription.acks.advanced_ms == sent_ms + 2000
    world.clock.advance(1)
    world.flow(consumer, 1)
    assert consumer.flow_ms == subscription.flow_ms == sent_ms + 3000
    assert consumer.first_flow_ms < consumer.flow_ms
    world.clock.advance(1)
    world.publish(b"more")
    assert (consumer.sent_ms, consumer.first_sent_ms) == (sent_ms + 4000, sent_ms)
