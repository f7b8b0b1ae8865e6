"""Key_Shared: keys keep their order and their consumer, and none waits for another."""

from typing import Any

import pytest

from fakes.connection import RecordingConnection
from fakes.key_model import keyed
from fakes.logs import BY_THREE
from fakes.topics import KEY_SHARED, TopicWorld, entry
from magnetar_broker.base.errors import ConsumerBusy, ConsumerUnassigned
from magnetar_broker.dispatch import scattered_source
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_selection import KeySharedMeta, RangeHalving
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.hashes import range_slot
from magnetar_storage.errors import Corrupt

KEYS = [f"key-{number}" for number in range(8)]
LOWER, UPPER = ((0, 32767),), ((32768, 65535),)


def publish(world: TopicWorld, *keys: str) -> None:
    world.publish(*map(keyed, keys))


def join(world: TopicWorld, permits: int = 100, **asked: Any) -> Consumer:
    return world.subscribe(permits=permits, sub_type=KEY_SHARED, **asked)


def sticky(*ranges: tuple[int, int]) -> KeySharedMeta:
    return KeySharedMeta(sticky=True, ranges=ranges)


def dispatcher(world: TopicWorld) -> KeyShared:
    found = world.subscription().dispatcher
    assert isinstance(found, KeyShared)
    return found


def owned(world: TopicWorld, consumer: Consumer) -> list[str]:
    """The keys that belong to a consumer now."""
    slots = dispatcher(world).queues.slots
    return [key for key in KEYS if slots.owner(slots.slot_of(key.encode())) is consumer]


def halving(**limits: Any) -> TopicWorld:
    """A world in which the owner of a key is known."""
    return TopicWorld(TopicLimits(key_shared_ring=False, **limits))


LOW = [key for key in KEYS if range_slot(key.encode()) <= 32768]
HIGH = [key for key in KEYS if range_slot(key.encode()) > 32768]


def test_a_key_goes_to_its_owner_in_order() -> None:
    world = TopicWorld()
    consumers = [join(world) for _ in range(3)]
    publish(world, *KEYS * 5)
    assert sum(len(owned(world, consumer)) for consumer in consumers) == len(KEYS)
    for consumer in consumers:
        mine = owned(world, consumer)
        expected = [n for n, key in enumerate(KEYS * 5) if key in mine]
        assert world.offsets(consumer) == expected


def test_a_joiner_waits_for_what_the_old_owner_holds_and_nothing_else_waits() -> None:
    world = halving()
    old = join(world)
    publish(world, LOW[0], LOW[0], HIGH[0])
    assert world.offsets(old) == [0, 1, 2]
    new = join(world)
    publish(world, LOW[0], HIGH[0], LOW[1])
    assert (world.offsets(old), world.offsets(new)) == ([4], [5])
    world.ack(old, 0)
    assert world.offsets(new) == []
    world.ack(old, 1)
    assert world.offsets(new) == [3]


def test_what_the_old_owner_returns_goes_to_the_new_one_first() -> None:
    world = halving()
    old = join(world)
    publish(world, LOW[0], LOW[0])
    new = join(world)
    publish(world, LOW[0])
    world.nack(old, 0)
    assert world.offsets(new) == []
    world.nack(old, 1)
    assert world.offsets(new) == [0, 1, 2]


def test_the_keys_of_a_closed_consumer_go_to_others_in_order() -> None:
    world = halving()
    stays, leaves = join(world), join(world)
    publish(world, LOW[0], HIGH[0], LOW[1], LOW[0])
    assert world.offsets(leaves) == [0, 2, 3]
    world.ack(leaves, 2)
    leaves.close()
    world.clock.pump()
    assert [(world.offset(m), m.redelivery_count) for m in world.got(stays)] == [
        (1, 0), (0, 0), (3, 0),
    ]  # fmt: skip


def test_a_slot_that_comes_back_to_its_holder_drains_no_longer() -> None:
    world = halving()
    old = join(world)
    publish(world, LOW[0])
    new = join(world)
    publish(world, LOW[0])
    assert world.offsets(new) == []
    new.close()
    world.clock.pump()
    assert world.offsets(old) == [0, 1]
    assert dispatcher(world).queues.draining == {}


def test_an_entry_that_comes_again_goes_before_newer_ones_of_its_key() -> None:
    world = halving()
    consumer = join(world, 2)
    publish(world, LOW[0], LOW[0], LOW[0], LOW[1])
    world.nack(consumer, 1)
    world.flow(consumer, 1)
    world.flow(consumer, 10)
    assert world.offsets(consumer) == [0, 1, 1, 2, 3]


def test_a_consumer_without_permits_blocks_no_other() -> None:
    world = halving()
    upper, lower = join(world, 100), join(world, 0)
    publish(world, *(LOW[0], HIGH[0]) * 30)
    assert world.offsets(upper) == list(range(1, 60, 2))
    world.flow(lower, 7)
    assert world.offsets(lower) == list(range(0, 14, 2))
    connection = lower.connection
    assert isinstance(connection, RecordingConnection)
    connection.room = False
    world.flow(lower, 100)
    assert world.offsets(lower) == []
    connection.room = True
    lower.subscription.wake()
    assert world.offsets(lower) == list(range(14, 60, 2))


def test_reading_ahead_has_bounds() -> None:
    world = halving(key_shared_look_ahead_per_consumer=5, max_read_entries=3)
    upper, lower = join(world, 100), join(world, 0)
    publish(world, *[LOW[0]] * 20, HIGH[0])
    assert (world.offsets(upper), dispatcher(world).in_replay) == ([], 10)
    assert dispatcher(world).blocker() is Blocker.LOOK_AHEAD
    world.flow(lower, 100)
    assert (world.offsets(lower), world.offsets(upper)) == (list(range(20)), [20])


def test_acknowledging_waiting_messages_makes_room_to_unsent() -> None:
    world = halving(key_shared_look_ahead_per_subscription=4)
    upper, lower = join(world), join(world, 4)
    publish(world, *[LOW[0]] * 4)
    world.nack(lower)
    publish(world, HIGH[0])
    assert (world.offsets(upper), dispatcher(world).blocker()) == ([], Blocker.LOOK_AHEAD)
    world.ack(lower, 0)
    assert world.offsets(upper) == [4]


def test_out_of_order_delivery_waits_for_no_draining() -> None:
    world = halving()
    meta = KeySharedMeta(out_of_order=True)
    old = join(world, key_shared=meta)
    publish(world, LOW[0])
    new = join(world, key_shared=meta)
    publish(world, LOW[0])
    assert (world.offsets(old), world.offsets(new)) == ([0], [1])


def test_redelivery_of_a_chunk_delivers_its_message() -> None:
    world = TopicWorld()
    consumer = join(world)

    def chunk(uuid: str, number: int) -> bytes:
        return keyed("k", uuid=uuid, chunk_id=number, num_chunks_from_msg=2)

    world.publish(chunk("a", 0), keyed("k"), chunk("a", 1), chunk("b", 0), chunk("b", 1))
    assert world.offsets(consumer) == [0, 1, 2, 3, 4]
    world.ack(consumer, 3)
    world.nack(consumer, 2)
    assert world.offsets(consumer) == [0, 2]
    world.nack(consumer, 4)
    assert world.offsets(consumer) == [4]
    world.ack(consumer, 0, 1, 2, 4)
    assert not dispatcher(world)._chunked.are_held


# Limits ---------------------------------------------------------------------------------------


def test_the_limits_of_unacknowledged_messages() -> None:
    world = halving(max_unacked_per_consumer=2)
    upper, lower = join(world), join(world)
    publish(world, *[LOW[0]] * 4, *[HIGH[0]] * 2)
    assert (world.offsets(lower), world.offsets(upper)) == ([0, 1], [4, 5])
    world.ack(lower, 0)
    assert world.offsets(lower) == [2]


def test_a_full_subscription_gives_only_what_comes_again() -> None:
    world = halving(max_unacked_per_subscription=4)
    upper, lower = join(world), join(world)
    publish(world, *(LOW[0], HIGH[0]) * 4)
    assert sorted(world.offsets(lower) + world.offsets(upper)) == [0, 1, 2, 3]
    world.nack(lower, 0)
    assert world.offsets(lower) == [0]
    assert dispatcher(world).blocker() is Blocker.UNACKED_SUBSCRIPTION
    world.ack(lower, 0, 2)
    assert world.offsets(lower) + world.offsets(upper) == []
    world.ack(upper, 1)
    assert len(world.offsets(lower) + world.offsets(upper)) == 3


def test_batches_count_by_message_and_come_with_what_is_left() -> None:
    world = halving()
    consumer = join(world, 5)
    world.publish(keyed("a"), keyed("b"), keyed("a"), counts=[4, 4, 4])
    assert (world.offsets(consumer), consumer.permits) == ([0, 1], -3)
    world.ack(consumer, 1, ack_set=(0b0011,))
    world.nack(consumer, 1)
    world.flow(consumer, 9)
    assert [(world.offset(m), m.ack_set, m.redelivery_count) for m in world.got(consumer)] == [
        (1, (0b0011,), 1),
        (2, (), 0),
    ]
    assert consumer.unacked == 4 + 2 + 4


# Ranges that consumers choose -----------------------------------------------------------------


def test_uncovered_keys_wait_for_an_owner_and_block_no_others() -> None:
    world = TopicWorld(TopicLimits(key_shared_look_ahead_per_subscription=3))
    lower = join(world, key_shared=sticky(*LOWER))
    publish(world, *[HIGH[0], LOW[0]] * 10, HIGH[0])
    assert world.offsets(lower) == list(range(1, 20, 2))
    assert dispatcher(world).blocker() is Blocker.NO_OWNER
    upper = join(world, key_shared=sticky(*UPPER))
    assert world.offsets(upper) == list(range(0, 21, 2))
    world.ack(lower, *range(1, 20, 2))
    world.ack(upper, *range(0, 21, 2))
    assert world.subscription().cursor.mark_delete == 20
    assert dispatcher(world).in_replay == 0


def test_what_a_consumer_held_waits_until_another_has_its_ranges() -> None:
    world = TopicWorld()
    lower, upper = (join(world, key_shared=sticky(*ranges)) for ranges in (LOWER, UPPER))
    publish(world, HIGH[0], LOW[0], HIGH[0])
    upper.close()
    world.clock.pump()
    publish(world, HIGH[0], LOW[0])
    assert world.offsets(lower) == [1, 4]
    again = join(world, key_shared=sticky(*UPPER))
    assert world.offsets(again) == [0, 2, 3]


def test_ranges_with_an_owner_are_refused_unless_the_owner_is_gone() -> None:
    world = TopicWorld()
    connection = RecordingConnection()
    join(world, connection=connection, key_shared=sticky(*LOWER))
    with pytest.raises(ConsumerUnassigned, match="has some of"):
        join(world, key_shared=sticky((0, 0)))
    with pytest.raises(ConsumerUnassigned, match="at least one"):
        join(world, key_shared=sticky())
    connection.alive = False
    assert not join(world, key_shared=sticky((0, 0))).closed
    assert len(world.subscription().consumers) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (KeySharedMeta(), sticky((0, 1))),
        (None, sticky((0, 1))),
        (sticky((0, 1)), KeySharedMeta()),
        (KeySharedMeta(), KeySharedMeta(out_of_order=True)),
        (KeySharedMeta(out_of_order=True), None),
    ],
)
def test_consumers_agree_on_the_policy(
    first: KeySharedMeta | None, second: KeySharedMeta | None
) -> None:
    world = TopicWorld()
    consumer = join(world, key_shared=first)
    with pytest.raises(ConsumerBusy, match="another Key_Shared policy"):
        join(world, key_shared=second)
    consumer.close()
    world.clock.pump()
    assert not join(world, key_shared=second).closed


def test_when_no_range_can_be_halved_the_next_one_is_refused() -> None:
    world = halving()
    consumer = join(world)
    slots = dispatcher(world).queues.slots
    assert isinstance(slots, RangeHalving)
    slots._ranges = dict.fromkeys(range(1, 65537), consumer)
    with pytest.raises(ConsumerUnassigned, match="no range can be halved"):
        join(world)


# Reading --------------------------------------------------------------------------------------


def test_what_waits_is_read_again_when_it_could_not_be_kept() -> None:
    world = TopicWorld(TopicLimits(key_shared_ring=False), roll=BY_THREE, cache_bytes=0)
    upper, lower = join(world, 100), join(world, 0)
    dispatcher(world)._unsent._max_bytes = 0
    publish(world, *(LOW[0], HIGH[0]) * 6)
    assert world.offsets(upper) == list(range(1, 12, 2))
    world.flow(lower, 100)
    assert world.offsets(lower) == list(range(0, 12, 2))


def test_what_was_acknowledged_while_it_waited_is_not_delivered() -> None:
    world = halving()
    _, lower = join(world, 100), join(world, 0)
    publish(world, *[LOW[0]] * 4)
    world.subscription().cursor.ack_up_to(1)  # as when messages expire
    world.flow(lower, 100)
    assert world.offsets(lower) == [2, 3]
    assert (len(dispatcher(world)._unsent), dispatcher(world).in_replay) == (0, 0)


def test_a_new_entry_waits_behind_one_that_is_being_read() -> None:
    world = TopicWorld(TopicLimits(key_shared_ring=False), cache_bytes=150)
    _, lower = join(world, 100), join(world, 0)
    dispatcher(world)._unsent._max_bytes = 0
    for _ in range(5):
        publish(world, LOW[0])
    gate = world.store.read_gate = world.clock.promise()
    world.flow(lower, 100)
    publish(world, LOW[0])
    assert world.offsets(lower) == []
    assert dispatcher(world).blocker() is Blocker.READING
    gate.set_result(None)
    world.clock.pump()
    assert world.offsets(lower) == list(range(6))


def test_reading_for_one_consumer_does_not_keep_the_store_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scattered_source, "GATHERED_BYTES", 1)
    world = TopicWorld(TopicLimits(key_shared_ring=False), cache_bytes=0)
    both = RecordingConnection()
    first, second, _ = join(world, 0, connection=both), join(world, 0, connection=both), join(world)
    dispatcher(world)._unsent._max_bytes = 0
    mine, others, taken = (owned(world, one)[0] for one in world.subscription().consumers)
    publish(world, others, *[mine] * 20, taken)
    gate = world.store.read_gate = world.clock.promise()
    world.flow(first, 100)
    world.flow(second, 100)
    world.store.read_gate = None
    gate.set_result(None)
    world.clock.pump()
    arrived = [world.offset(message) for message in both.take()]
    assert sorted(arrived) == list(range(21))
    assert arrived.index(0) <= 2


def test_damage_holds_up_nothing_that_can_be_read() -> None:
    world = TopicWorld(TopicLimits(key_shared_ring=False), roll=BY_THREE, cache_bytes=0)
    upper, lower = join(world, 100), join(world, 0)
    dispatcher(world)._unsent._max_bytes = 0
    for _ in range(3):
        publish(world, LOW[0], HIGH[0], LOW[1])
    assert world.offsets(upper) == [1, 4, 7]
    lost = world.store._segments.pop(world.topic.log.segments[0].id)
    world.topic.log.entries.close()
    world.flow(lower, 100)
    assert world.offsets(lower) == [3, 5, 6, 8]
    assert dispatcher(world).blocker() is Blocker.DAMAGE
    world.store._segments[world.topic.log.segments[0].id] = lost
    join(world, 0, key_shared=None)
    world.flow(upper, 1)
    assert dispatcher(world).blocker() is not Blocker.DAMAGE


def test_damage_met_for_one_consumer_is_none_of_what_another_gets() -> None:
    world = TopicWorld(TopicLimits(key_shared_ring=False), roll=BY_THREE, cache_bytes=0)
    first, second, _ = join(world, 0), join(world, 0), join(world)
    dispatcher(world)._unsent._max_bytes = 0
    mine, others, taken = (owned(world, one)[0] for one in world.subscription().consumers)
    for keys in ((mine, mine, taken), (others, others, taken)):
        publish(world, *keys)
    world.store.rotten.add(world.topic.log.segments[1].id)
    world.topic.log.entries.close()
    gate = world.store.read_gate = world.clock.promise()
    world.flow(second, 100)
    world.flow(first, 100)
    world.store.read_gate = None
    gate.set_result(None)
    world.clock.pump()
    assert [m.payload for m in world.got(first)] == [keyed(mine)] * 2
    assert world.offsets(second) == []


def test_new_entries_do_not_wait_behind_damaged_ones() -> None:
    world = TopicWorld(roll=BY_THREE, cache_bytes=0)
    reader = join(world, 0)
    for _ in range(3):
        publish(world, *KEYS[:3])
    world.ack(reader, 4)
    damaged = world.topic.log.segments[1].id
    lost = world.store._segments.pop(damaged)
    world.topic.log.entries.close()
    world.flow(reader, 100)
    assert world.offsets(reader) == [0, 1, 2, 6, 7, 8]
    assert (dispatcher(world).blocker(), dispatcher(world).in_replay) == (Blocker.DAMAGE, 2)
    world.store._segments[damaged] = lost
    second = join(world)
    world.flow(reader, 1)
    world.ack(reader, 0, 1, 2, 6, 7, 8)
    assert sorted(world.offsets(reader) + world.offsets(second)) == [3, 5]
    assert dispatcher(world).blocker() is Blocker.CAUGHT_UP


def test_unreadable_new_entries_are_damage() -> None:
    world = TopicWorld(cache_bytes=50)
    publish(world, *KEYS)
    world.store.read_failure = Corrupt("file", 1, "rot")
    join(world, earliest=True)
    assert dispatcher(world).blocker() is Blocker.DAMAGE


# Reasons --------------------------------------------------------------------------------------


def test_reasons() -> None:
    world = halving()
    old = join(world, 2)
    publish(world, LOW[0])
    assert dispatcher(world).blocker() is Blocker.CAUGHT_UP
    new = join(world, 1)
    publish(world, LOW[0])
    assert dispatcher(world).blocker() is Blocker.DRAINING_KEY
    queues = dispatcher(world).queues
    [draining] = queues.draining.values()
    assert (draining.holder, draining.entries, draining.blocked_attempts) == (old, 1, 1)
    publish(world, LOW[0])
    assert queues.draining == {range_slot(LOW[0].encode()): draining}
    assert (draining.blocked_attempts, queues.cleared) == (2, {old: 0, new: 0})
    world.ack(old, 0)
    assert (queues.draining, queues.cleared) == ({}, {old: 1, new: 0})
    assert world.offsets(new) == [1]
    assert dispatcher(world).blocker() is Blocker.NO_PERMITS


def test_a_seek_begins_anew() -> None:
    world = halving()
    old = join(world)
    publish(world, LOW[0], LOW[0])
    new = join(world)
    publish(world, LOW[0])
    world.nack(old, 0)
    world.do(world.subscription().seek(0))
    assert old.closed and new.closed
    again = join(world)
    assert [(world.offset(m), m.redelivery_count) for m in world.got(again)] == [
        (0, 0), (1, 0), (2, 0),
    ]  # fmt: skip


def test_what_is_acknowledged_of_a_batch_that_waited_leaves_room_for_the_next_entry() -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=KEY_SHARED, permits=6)
    world.publish(entry(1, 3), entry(2, 3), counts=[3, 3])
    assert world.offsets(consumer) == [0, 1]
    world.ack(consumer, 0, ack_set=(0b001,))
    world.nack(consumer, 0, 1)
    world.flow(consumer, 2)
    assert world.offsets(consumer) == [0, 1]
