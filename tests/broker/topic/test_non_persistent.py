"""Topics that keep nothing."""

import pytest

from fakes.connection import Receipt, RecordingConnection
from fakes.memory_metadata import MemoryMetadata
from fakes.publish_runs import publish
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from fakes.world import ManualClock, ManualTasks, run, start
from magnetar_broker.base.errors import (
    ConsumerBusy,
    ConsumerUnassigned,
    MetadataError,
    UnknownError,
)
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.limits.shared_limits import shared_limits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.stored import Policies
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import ProducerRequest
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack
from magnetar_proto.entries import encode_entry
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName


class Volatile:
    """One topic and its clients."""

    def __init__(self, name: str = "topic") -> None:
        self.clock = ManualClock()
        full = TopicName.parse(f"non-persistent://public/default/{name}")
        self.topic = NonPersistentTopic(
            full,
            TopicLimits(),
            shared_limits(Settings(), ManualClock()),
            Policies(GuardedMetadata(MemoryMetadata(self.clock), None), Settings()),
            self.clock,
            ManualTasks(self.clock),
        )
        self.sender = RecordingConnection()
        self._producer = run(
            self.topic.producers.add(self.sender, ProducerRequest(1, "p")), self.clock
        )
        self._ids = 0

    def publish(self, *payloads: bytes) -> None:
        sends = PublishRun(self._producer)
        sends.payloads, sends.counts = list(payloads), [1] * len(payloads)
        sends.sequence_ids = sends.highest_ids = list(range(len(payloads)))
        sends.size = sum(map(len, payloads))
        publish(sends)

    def subscribe(
        self,
        sub_type: int = EXCLUSIVE,
        permits: int = 0,
        name: str = "",
        meta: KeySharedMeta | None = None,
    ) -> Consumer:
        self._ids += 1
        name = name or f"c{self._ids}"
        request = SubscribeRequest("sub", sub_type, self._ids, name, epoch=3, key_shared=meta)
        consumer = run(
            self.topic.subscriptions.subscribe(RecordingConnection(), request), self.clock
        )
        consumer.subscription.flow(consumer, permits)
        return consumer


def payloads(consumer: Consumer) -> list[bytes]:
    connection = consumer.connection
    assert isinstance(connection, RecordingConnection)
    return [message.payload for message in connection.take()]


def test_receipts_and_messages_carry_zeros() -> None:
    world = Volatile()
    consumer = world.subscribe(permits=5)
    world.publish(b"a", b"b")
    assert world.sender.receipts == [Receipt(1, 0, 0, 0, 0), Receipt(1, 1, 1, 0, 0)]
    assert world.sender.published_entries == 2
    connection = consumer.connection
    assert isinstance(connection, RecordingConnection)
    got = connection.take()
    assert [(m.ledger, m.entry, m.payload) for m in got] == [(0, 0, b"a"), (0, 0, b"b")]
    assert [m.epoch for m in got] == [None, None], "nothing could raise it"


def test_a_consumer_that_cannot_take_a_message_never_gets_it() -> None:
    world = Volatile()
    world.publish(b"no consumer yet")
    consumer = world.subscribe(permits=1)
    world.publish(b"taken", b"no permits")
    consumer.subscription.flow(consumer, 5)
    connection = consumer.connection
    assert isinstance(connection, RecordingConnection)
    connection.room = False
    world.publish(b"no room")
    connection.room = True
    assert payloads(consumer) == [b"taken"]
    assert world.topic.subscriptions["sub"].messages_dropped == 2
    assert world.topic.totals() == (4, 37, 1, 5)


def test_shared_takes_turns() -> None:
    world = Volatile()
    first, second = world.subscribe(SHARED, 2), world.subscribe(SHARED, 9)
    world.publish(b"0", b"1", b"2", b"3", b"4", b"5")
    assert (payloads(first), payloads(second)) == ([b"0", b"2"], [b"1", b"3", b"4", b"5"])


def test_failover_delivers_to_one_and_notifies_none() -> None:
    world = Volatile("topic-partition-1")
    first, second = world.subscribe(FAILOVER, 9, "a"), world.subscribe(FAILOVER, 9, "b")
    world.publish(b"0")
    second.close()
    world.publish(b"1")
    assert (payloads(first), payloads(second)) == ([b"1"], [b"0"])
    connection = first.connection
    assert isinstance(connection, RecordingConnection)
    assert connection.active == []


def keyed(key: str, payload: bytes) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, partition_key=key
    )
    return encode_entry(metadata, payload)


def test_key_shared_goes_by_the_key() -> None:
    world = Volatile()
    consumers = [world.subscribe(KEY_SHARED, 100) for _ in range(3)]
    sent = {key: [keyed(key, b"%d" % n) for n in range(5)] for key in "abcdefgh"}
    for n in range(5):
        world.publish(*(entries[n] for entries in sent.values()))
    got = [payloads(consumer) for consumer in consumers]
    for entries in sent.values():
        assert [[one for one in mine if one in entries] for mine in got].count(entries) == 1
    assert sum(map(len, got)) == 40 and min(map(len, got)) > 0


def test_key_shared_drops_what_its_owner_cannot_take() -> None:
    world = Volatile()
    lower = world.subscribe(KEY_SHARED, 1, meta=KeySharedMeta(sticky=True, ranges=((0, 32767),)))
    world.publish(keyed("key1", b"taken"), keyed("key1", b"no permits"), keyed("key2", b"no owner"))
    assert payloads(lower) == [keyed("key1", b"taken")]
    assert world.topic.subscriptions["sub"].messages_dropped == 2
    with pytest.raises(ConsumerBusy, match="policy"):
        world.subscribe(KEY_SHARED)
    with pytest.raises(ConsumerUnassigned):
        world.subscribe(KEY_SHARED, meta=KeySharedMeta(sticky=True, ranges=((5, 6),)))
    lower.close()
    with pytest.raises(ConsumerUnassigned):
        world.subscribe(KEY_SHARED, meta=KeySharedMeta(sticky=True))
    assert world.topic.subscriptions == {}


def test_a_subscription_ends_with_its_last_consumer() -> None:
    world = Volatile()
    consumer = world.subscribe(permits=5)
    with pytest.raises(ConsumerBusy):
        world.subscribe()
    consumer.close()
    assert world.topic.subscriptions == {}
    again = world.subscribe(SHARED, 5)
    world.publish(b"a")
    assert payloads(again) == [b"a"]
    run(again.subscription.unsubscribe(again, True), world.clock)
    assert world.topic.subscriptions == {}


def test_other_consumers_are_closed_only_by_force() -> None:
    world = Volatile()
    consumer, second = world.subscribe(SHARED), world.subscribe(SHARED, 5)
    with pytest.raises(MetadataError, match="1 other consumers"):
        run(consumer.subscription.unsubscribe(consumer, False), world.clock)
    assert not consumer.closed
    world.publish(b"a")
    assert payloads(second) == [b"a"]
    run(consumer.subscription.unsubscribe(consumer, True), world.clock)
    connection = second.connection
    assert isinstance(connection, RecordingConnection)
    assert (connection.closed_consumers, world.topic.subscriptions) == ([second.id], {})
    alone = world.subscribe()
    run(alone.subscription.unsubscribe(alone, False), world.clock)
    assert (alone.closed, world.topic.subscriptions) == (True, {})


def test_a_dead_exclusive_consumer_is_replaced_and_the_new_one_receives() -> None:
    world = Volatile()
    dead = world.subscribe(permits=5)
    connection = dead.connection
    assert isinstance(connection, RecordingConnection)
    connection.alive = False
    consumer = world.subscribe(permits=5)
    world.publish(b"a")
    assert (payloads(dead), payloads(consumer)) == ([], [b"a"])


def test_one_that_waited_for_a_dead_holder_does_not_join_a_newer_one() -> None:
    world = Volatile()
    holder = world.subscribe()
    connection = holder.connection
    assert isinstance(connection, RecordingConnection)
    connection.answer = world.clock.promise()
    request = SubscribeRequest("sub", EXCLUSIVE, 10, "late")
    waiting = start(world.topic.subscriptions.subscribe(RecordingConnection(), request))
    assert not waiting.done()
    holder.close()
    newcomer = world.subscribe()
    connection.alive = False
    connection.answer.set_result(None)
    with pytest.raises(ConsumerBusy):
        waiting.result()
    assert list(world.topic.subscriptions["sub"].consumers) == [newcomer]


def test_acks_seeks_and_redeliveries_are_answered_and_mean_nothing() -> None:
    world = Volatile()
    consumer = world.subscribe(permits=5)
    subscription = consumer.subscription
    world.publish(b"a")
    outcome: list[BaseException | None] = []
    subscription.acks.acknowledge(consumer, Ack(1, 0, [(0, 0, ())]), outcome.append)
    subscription.redeliver(consumer, [], None)
    run(subscription.seek_to_id(MessageId(0, 0), ()), world.clock)
    run(subscription.seek_to_time(0), world.clock)
    assert (outcome, payloads(consumer), consumer.closed) == ([None], [b"a"], False)
    assert run(subscription.backlog(), world.clock).messages == 0
    assert subscription.mark_delete_id() == (-1, -1, -1, -1)
    with pytest.raises(UnknownError):
        run(subscription.last_message_id(), world.clock)


def test_closing_disconnects_all_clients() -> None:
    world = Volatile()
    consumer = world.subscribe()
    run(world.topic.close(), world.clock)
    connection = consumer.connection
    assert isinstance(connection, RecordingConnection)
    assert (world.sender.closed_producers, connection.closed_consumers) == ([1], [consumer.id])
