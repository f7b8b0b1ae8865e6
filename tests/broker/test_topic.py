"""Topics: producers and receipts, subscribing, last ids, upkeep, failing."""

from contextlib import suppress

import pytest

from fakes.connection import Receipt, RecordingConnection
from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld, entry
from magnetar_broker.errors import (
    ConsumerBusy,
    NotAllowed,
    NotReady,
    ProducerBusy,
    SubscriptionMissing,
    UnknownTrouble,
)
from magnetar_broker.limits import TopicLimits
from magnetar_broker.producer import ProducerRequest
from magnetar_broker.retention import Retention
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_storage.errors import Corrupt, DiskFull

# Producers ------------------------------------------------------------------------------


def test_a_run_is_answered_when_it_is_durable() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection, producer_id=7)
    sends = world.send(producer, b"abc", b"d", counts=[1, 5])
    assert (connection.receipts, producer.pending) == ([], 2)
    world.clock.pump()
    ledger, _ = world.topic.log.position(0)
    assert connection.receipts == [Receipt(7, 0, 0, ledger, 0), Receipt(7, 1, 0, ledger, 1)]
    assert (connection.published_entries, connection.published_bytes) == (2, sends.size)
    assert (producer.pending, world.topic.messages_in, world.topic.bytes_in) == (0, 6, 4)


def test_receipts_keep_their_order_over_a_roll() -> None:
    world = TopicWorld(roll=BY_THREE)
    connection = RecordingConnection()
    producer = world.producer(connection)
    for _ in range(10):
        world.send(producer, b"x", b"y")
        world.clock.step()
    world.clock.pump()
    positions = [(r.ledger, r.entry) for r in connection.receipts]
    assert positions == [world.topic.log.position(offset) for offset in range(20)]


def test_a_producer_that_left_is_answered_nothing_but_its_messages_stay() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection)
    world.send(producer, b"a")
    answered: list[str] = []
    producer.when_answered(lambda: answered.append("all"))
    producer.close()
    assert answered == []
    world.clock.pump()
    assert (connection.receipts, connection.published_entries, answered) == ([], 1, ["all"])
    assert world.topic.log.end == 1
    producer.when_answered(lambda: answered.append("at once"))
    assert answered == ["all", "at once"]


def test_a_name_is_held_by_one_who_answers() -> None:
    world = TopicWorld()
    holder = RecordingConnection("10.0.0.9:1")
    world.producer(holder, name="same")
    with pytest.raises(ProducerBusy, match=r"same .* from 10\.0\.0\.9:1"):
        world.producer(RecordingConnection(), name="same", epoch=5)
    holder.alive = False
    second = world.producer(RecordingConnection(), name="same")
    assert holder.closed_producers == [1], "should it be there after all, it is told"
    assert list(world.topic.producers) == [second]


def test_the_same_producer_with_a_higher_epoch_replaces_itself_silently() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    first = world.producer(connection, epoch=1)
    with pytest.raises(ProducerBusy):
        world.producer(connection, epoch=1)
    second = world.producer(connection, epoch=2)
    assert (first.closed, connection.closed_producers) == (True, [])
    assert list(world.topic.producers) == [second]
    first.close()
    assert len(world.topic.producers) == 1


def test_the_number_of_producers_is_limited() -> None:
    world = TopicWorld(TopicLimits(max_producers=2))
    world.producer(name="a")
    leaving = world.producer(name="b")
    with pytest.raises(ProducerBusy, match="maxProducersPerTopic"):
        world.producer(name="c")
    leaving.close()
    world.producer(name="c")


def test_many_producers_at_once_write_into_one_segment() -> None:
    world = TopicWorld()
    world.store.create_gate = gate = world.clock.promise()
    joining = [
        world.begin(world.topic.add_producer(RecordingConnection(), ProducerRequest(1, name)))
        for name in "abc"
    ]
    gate.set_result(None)
    world.clock.pump()
    for one in joining:
        world.send(one.result(), b"x")
    world.clock.pump()
    assert [segment.entries for segment in world.topic.log.segments] == [None]
    assert world.topic.log.end == 3


# Failing --------------------------------------------------------------------------------


def test_when_the_log_fails_everybody_is_sent_away_and_nothing_is_acknowledged() -> None:
    world = TopicWorld()
    sender, receiver = RecordingConnection(), RecordingConnection()
    producer, consumer = world.producer(sender), world.subscribe(receiver, permits=10)
    world.send(producer, b"a")
    world.send(producer, b"b")
    world.store.break_writers(DiskFull("no room"))
    world.clock.pump()
    assert (sender.receipts, sender.published_entries) == ([], 2)
    assert (sender.closed_producers, receiver.closed_consumers) == ([1], [consumer.id])
    assert world.dropped == [world.topic]
    for late in (
        world.topic.add_producer(sender, ProducerRequest(2, "late")),
        world.topic.subscribe(receiver, world.request()),
    ):
        with pytest.raises(NotReady):
            world.do(late)
    world.send(producer, b"late")
    assert sender.published_entries == 3
    world.reload()
    world.publish(b"c")
    assert world.topic.log.end == 1


def test_a_roll_that_fails_drops_the_topic_without_anybody_publishing() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=10)
    world.store.create_failure = None
    producer = world.producer()
    world.store.create_failure = DiskFull("no room")
    world.send(producer, b"a", b"b", b"c")
    world.clock.pump()
    assert (world.dropped, consumer.closed) == ([world.topic], True)
    world.store.create_failure = None
    world.reload()
    assert world.offsets(world.subscribe(permits=10)) == [0, 1, 2]


def test_an_owner_that_was_replaced_gives_up() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    producer = world.producer(connection)
    old = world.topic
    world.reload()
    world.send(producer, b"x")
    world.clock.pump()
    assert (connection.receipts, connection.closed_producers) == ([], [1])
    assert world.dropped == [old]
    assert world.topic.log.end == 0


def test_closing_tells_everybody_and_keeps_everything() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    world.producer(connection)
    consumer = world.subscribe(connection, permits=10)
    world.publish(b"a", b"b")
    world.ack(consumer, 0)
    world.do(world.topic.close())
    assert (connection.closed_producers, connection.closed_consumers) == ([1], [consumer.id])
    assert world.dropped == []
    assert all(segment.entries is not None for segment in world.topic.log.segments)
    world.reload()
    assert world.offsets(world.subscribe(permits=10)) == [1]


# Subscribing ----------------------------------------------------------------------------


def test_a_new_subscription_begins_at_the_end_or_at_the_start() -> None:
    world = TopicWorld()
    world.publish(b"a", b"b")
    latest, earliest = (
        world.subscribe(sub="l", permits=9),
        world.subscribe(sub="e", permits=9, earliest=True),
    )
    world.publish(b"c")
    assert (world.offsets(latest), world.offsets(earliest)) == ([2], [0, 1, 2])


def test_a_reader_begins_where_it_says_and_leaves_nothing_behind() -> None:
    world = TopicWorld(roll=BY_THREE)
    for _ in range(7):
        world.publish(b"x")
    third = MessageId(*world.topic.log.position(3))
    for start, expected in ((third, [3, 4, 5, 6]), (EARLIEST, list(range(7))), (LATEST, [])):
        reader = world.subscribe(sub="reader", durable=False, start=start, permits=99)
        assert world.offsets(reader) == expected
        world.ack(reader, *expected)
        reader.close()
        assert world.topic.subscriptions == {}
    assert world.reload().subscriptions == {}


def test_a_reader_that_replaces_a_dead_one_hears_what_is_published() -> None:
    world = TopicWorld()
    dead = RecordingConnection()
    dead.alive = False
    world.subscribe(dead, sub="reader", durable=False, permits=10)
    reader = world.subscribe(sub="reader", durable=False, permits=10)
    assert world.topic.subscriptions == {"reader": reader.subscription}
    world.publish(b"a")
    assert world.offsets(reader) == [0]


def test_durable_and_not_durable_do_not_share_a_name() -> None:
    world = TopicWorld()
    world.subscribe(sub="d")
    world.subscribe(sub="n", durable=False)
    with pytest.raises(NotAllowed, match="durable already"):
        world.subscribe(sub="d", durable=False)
    with pytest.raises(NotAllowed, match="not durable already"):
        world.subscribe(sub="n")


def test_two_who_create_the_same_subscription_share_it() -> None:
    world = TopicWorld()
    both = [world.begin_subscribe(RecordingConnection(), sub_type=SHARED) for _ in range(2)]
    assert not any(one.done() for one in both)
    world.clock.pump()
    first, second = (one.result() for one in both)
    assert first.subscription is second.subscription is world.subscription()
    assert len(world.subscription().consumers) == 2


def test_subscriptions_and_consumers_are_limited() -> None:
    world = TopicWorld(TopicLimits(max_subscriptions=2, max_consumers=3))
    for name in ("a", "a", "b"):
        world.subscribe(sub=name, sub_type=SHARED)
    with pytest.raises(ConsumerBusy, match="maxConsumersPerTopic"):
        world.subscribe(sub="a", sub_type=SHARED)
    next(iter(world.subscription("b").consumers)).close()
    for durable in (True, False):
        with pytest.raises(NotAllowed, match="maxSubscriptionsPerTopic"):
            world.subscribe(sub="c", durable=durable)


def test_many_at_once_do_not_get_past_the_limit_of_consumers() -> None:
    world = TopicWorld(TopicLimits(max_consumers=2))
    joining = [world.begin_subscribe(RecordingConnection(), sub=name) for name in "abcd"]
    world.clock.pump()
    outcomes = []
    for one in joining:
        try:
            outcomes.append(one.result().subscription.name)
        except ConsumerBusy:
            outcomes.append("refused")
    assert outcomes == ["a", "b", "refused", "refused"]


def test_a_reader_that_is_refused_leaves_no_subscription_behind() -> None:
    world = TopicWorld(TopicLimits(max_consumers=1))
    world.subscribe(sub="a")
    with pytest.raises(ConsumerBusy):
        world.subscribe(sub="reader", durable=False)
    assert list(world.topic.subscriptions) == ["a"]


def test_without_automatic_subscriptions_there_must_be_one() -> None:
    world = TopicWorld(TopicLimits(auto_subscription=False))
    with pytest.raises(SubscriptionMissing):
        world.subscribe()
    with pytest.raises(NotAllowed):
        world.do(world.topic.ensure_subscription("sub"))
    world.subscribe(sub="reader", durable=False)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    world.subscribe()


def test_a_producers_subscription_begins_at_the_start() -> None:
    world = TopicWorld()
    world.publish(b"a")
    world.do(world.topic.ensure_subscription("sub"))
    world.do(world.topic.ensure_subscription("sub"))
    assert world.offsets(world.subscribe(permits=9)) == [0]


def test_properties_of_a_subscription_are_kept() -> None:
    world = TopicWorld()
    world.subscribe(properties={"k": "v"})
    assert world.reload().cursors.cursors["sub"].properties == {"k": "v"}


def test_a_rollback_begins_so_many_seconds_ago() -> None:
    world = TopicWorld()
    now = world.clock.now_ms()
    world.publish(*[entry(now - 1000 * ago) for ago in (30, 20, 10, 0)])
    consumer = world.subscribe(permits=9, rollback_seconds=20)
    assert world.offsets(consumer) == [1, 2, 3]


def test_a_rollback_that_fails_does_not_keep_anybody_out() -> None:
    world = TopicWorld(cache_bytes=0)
    world.publish(*[entry(world.clock.now_ms() + n) for n in range(4)])
    world.store.read_failure = Corrupt("file", 3, "rot")
    consumer = world.subscribe(rollback_seconds=20, earliest=True)
    assert consumer in list(world.subscription().consumers)


def test_two_who_roll_back_at_once_do_not_both_become_exclusive() -> None:
    world = TopicWorld(cache_bytes=0)
    world.publish(entry(world.clock.now_ms()))
    world.do(world.topic.ensure_subscription("sub"))
    world.store.read_gate = gate = world.clock.promise()
    both = [world.begin_subscribe(RecordingConnection(), rollback_seconds=5) for _ in range(2)]
    gate.set_result(None)
    world.clock.pump()
    admitted = []
    for one in both:
        with suppress(ConsumerBusy, UnknownTrouble):
            admitted.append(one.result())
    assert admitted == list(world.subscription().consumers)
    assert len(admitted) == 1


def test_who_came_during_a_rollback_is_not_joined_by_another() -> None:
    world = TopicWorld()
    world.do(world.topic.ensure_subscription("sub"))
    rolling = world.begin_subscribe(RecordingConnection(), rollback_seconds=5)
    joining = world.begin_subscribe(RecordingConnection())
    assert not rolling.done() and not joining.done()
    world.clock.pump()
    admitted = []
    for one in (rolling, joining):
        with suppress(ConsumerBusy):
            admitted.append(one.result())
    assert admitted == list(world.subscription().consumers)
    assert len(admitted) == 1


# Last ids and upkeep --------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "index"), [(None, -1), (1, 0), (5, 4)])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_the_last_message(batch: int | None, index: int, cache_bytes: int) -> None:
    name = "persistent://public/default/topic-partition-3"
    world = TopicWorld(cache_bytes=cache_bytes, name=name)
    assert world.do(world.topic.last_message_id()) == (-1, -1, -1, 3)
    world.publish(entry(1), entry(2, batch))
    ledger, number = world.topic.log.position(1)
    assert world.do(world.topic.last_message_id()) == (ledger, number, index, 3)


def test_an_entry_without_readable_metadata_is_an_id_all_the_same() -> None:
    world = TopicWorld()
    world.publish(b"\xff\xff\xff")
    assert world.do(world.topic.last_message_id()) == (*world.topic.log.position(0), -1, -1)
    assert world.do(world.topic.first_since(5)) == 1


def test_what_every_durable_subscription_has_consumed_is_trimmed() -> None:
    world = TopicWorld(roll=BY_THREE)
    fast, slow = world.subscribe(sub="fast", permits=99), world.subscribe(sub="slow", permits=99)
    reader = world.subscribe(sub="reader", durable=False, permits=0)
    for _ in range(10):
        world.publish(b"x")
    world.ack(fast, 9, cumulative=True)
    world.do(world.topic.tidy())
    assert world.topic.log.first_offset == 0
    world.ack(slow, 6, cumulative=True)
    world.do(world.topic.tidy())
    assert world.topic.log.first_offset == 6
    world.flow(reader, 100)
    assert world.offsets(reader) == [6, 7, 8, 9]


def test_what_a_subscription_in_the_making_needs_is_not_trimmed() -> None:
    world = TopicWorld(roll=BY_THREE)
    for _ in range(4):
        world.publish(b"x", b"y", b"z")
    world.store.create_gate = world.clock.promise()
    making = world.begin_subscribe(RecordingConnection(), earliest=True)
    world.clock.pump()
    assert not making.done()
    world.do(world.topic.tidy())
    world.store.create_gate.set_result(None)
    world.clock.pump()
    consumer = making.result()
    world.flow(consumer, 100)
    assert world.offsets(consumer) == list(range(12))


def test_what_is_retained_stays_although_nobody_needs_it() -> None:
    limits = TopicLimits(retention=Retention(minutes=1, megabytes=-1))
    world = TopicWorld(limits, roll=BY_THREE)
    for _ in range(7):
        world.publish(b"x")
    world.do(world.topic.tidy())
    assert world.topic.log.first_offset == 0
    world.clock.advance(60)
    world.do(world.topic.tidy())
    assert world.topic.log.first_offset == 6


def test_what_was_trimmed_before_its_ack_was_durable_holds_up_nothing_after_a_crash() -> None:
    world = TopicWorld(roll=BY_THREE)
    consumer = world.subscribe(permits=100, sub_type=SHARED)
    world.publish(b"a", b"b", b"c")
    world.publish(b"d", b"e", b"f")
    world.ack(consumer, 1)
    world.ack(consumer, 0, 2, answered=False)
    world.do(world.topic.tidy())
    assert world.topic.log.first_offset == 3
    world.crash()
    assert world.subscription().cursor.mark_delete == 2
    world.ack(world.subscribe(sub_type=SHARED), 3, 4, 5)
    world.publish(b"g")
    world.do(world.topic.tidy())
    assert world.topic.log.first_offset == 6
