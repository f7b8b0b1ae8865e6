"""A seek or an unload in the middle of a chunked message, and the chunks sent afterwards."""

import pytest

from broker.dispatch.test_chunked import chunk, message, usual
from fakes.connection import RecordingConnection
from fakes.topics import SHARED, TYPES, TopicWorld
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions import half_sent
from magnetar_proto.hashes import range_slot
from magnetar_proto.ids import EARLIEST
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.errors import Corrupt

AT_ONCE = TopicLimits(failover_delay_ms=0)
Log = pytest.LogCaptureFixture


def half_of(world: TopicWorld, entries: list[bytes], sub_type: int, sent: int) -> Consumer:
    """Create a consumer that was sent the first entries."""
    consumer = world.subscribe(RecordingConnection(), sub_type=sub_type, permits=sent)
    world.publish(*entries)
    assert world.offsets(consumer) == list(range(sent))
    return consumer


def seek(world: TopicWorld, consumer: Consumer) -> list[int]:
    """Seek, and return the entries sent to the consumer before it is disconnected."""
    world.do(consumer.subscription.seek_to_id(EARLIEST, ()))
    assert consumer.closed
    return world.offsets(consumer)


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_message_is_completed_before_its_consumer_is_disconnected(sub_type: int) -> None:
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [*message("one"), *message("two")], sub_type, 2)
    assert seek(world, consumer) == [2, 3]
    again = world.subscribe(sub_type=sub_type, permits=100)
    assert world.offsets(again) == list(range(8))


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_message_is_completed_before_its_topic_is_closed(sub_type: int) -> None:
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [*message("one"), *message("two")], sub_type, 1)
    world.do(world.topic.finish())
    world.flow(consumer, 10)
    assert world.offsets(consumer) == [1, 2, 3]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
@pytest.mark.parametrize("sub_type", TYPES)
def test_messages_that_are_mixed_with_others_are_completed(sub_type: int, cache_bytes: int) -> None:
    world = TopicWorld(AT_ONCE, cache_bytes=cache_bytes)
    one, two, three = message("one"), message("two"), message("three")
    entries = [*three, one[0], two[0], *usual(1), one[1], *two[1:], *one[2:], *usual(1)]
    consumer = world.subscribe(RecordingConnection(), sub_type=sub_type, permits=7)
    world.publish(*entries)
    assert world.offsets(consumer) == list(range(7))
    assert seek(world, consumer) == [7, 8, 9, 10, 11, 12]


def test_who_shares_gets_the_rest_of_its_own_messages_only() -> None:
    world = TopicWorld(TopicLimits(max_round_robin_entries=1))
    first, second = (world.subscribe(sub_type=SHARED, permits=2) for _ in range(2))
    one, two = message("one"), message("two")
    world.publish(one[0], two[0], *usual(2), one[1], two[1], *one[2:], *two[2:])
    assert [world.offsets(each) for each in (first, second)] == [[0, 2], [1, 3]]
    world.do(first.subscription.seek_to_id(EARLIEST, ()))
    assert [world.offsets(each) for each in (first, second)] == [[4, 6, 7], [5, 8, 9]]


def test_what_was_acknowledged_was_whole() -> None:
    world = TopicWorld(AT_ONCE, cache_bytes=0)
    consumer = half_of(world, message("one"), TYPES[0], 2)
    world.ack(consumer, 1)
    assert seek(world, consumer) == []


def test_chunks_behind_a_redelivered_entry_are_not_sent_twice() -> None:
    world = TopicWorld(AT_ONCE)
    one = message("one")
    consumer = half_of(world, [one[0], *usual(1), *one[1:]], SHARED, 3)
    world.nack(consumer, 1)
    world.flow(consumer, 1)
    assert world.offsets(consumer) == [1]
    assert seek(world, consumer) == [3, 4]


def test_a_consumer_of_some_hash_ranges_is_sent_no_chunk_of_other_keys() -> None:
    world = TopicWorld(AT_ONCE)
    mine = range_slot(sticky_key(usual(1)[0]))
    other = chunk("one", 0, key="other")
    assert range_slot(sticky_key(other)) != mine
    ranges = KeySharedMeta(sticky=True, ranges=((mine, mine),))
    consumer = world.subscribe(RecordingConnection(), permits=1, key_shared=ranges)
    world.publish(other, *usual(1), *(chunk("one", number, key="other") for number in (1, 2, 3)))
    assert world.offsets(consumer) == [1]
    assert seek(world, consumer) == []


def test_only_the_chunks_of_the_message_are_sent() -> None:
    world = TopicWorld(AT_ONCE)
    one, two = message("one"), message("two")
    entries = [*one[:2], *usual(2), two[0], one[2], *usual(1), *two[1:], one[3], *usual(1)]
    assert seek(world, half_of(world, entries, TYPES[0], 2)) == [5, 10]


@pytest.mark.parametrize("sent", [4, 5])
def test_who_has_whole_messages_is_sent_nothing(sent: int) -> None:
    world = TopicWorld(AT_ONCE)
    assert seek(world, half_of(world, [*message("one"), *usual(3)], TYPES[0], sent)) == []


def test_a_message_without_its_end_does_not_prevent_the_seek() -> None:
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [chunk("one", 0), chunk("one", 1), *usual(3)], TYPES[0], 1)
    assert seek(world, consumer) == [1]


def test_a_message_whose_end_is_far_away_does_not_prevent_the_seek(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half_sent, "MOST_BYTES", 1)
    monkeypatch.setattr(half_sent, "READ_ENTRIES", 2)
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [*message("one")[:2], *usual(4), *message("one")[2:]], TYPES[0], 1)
    assert seek(world, consumer) == [1]


def test_chunks_that_are_damaged_do_not_prevent_the_seek(caplog: Log) -> None:
    world = TopicWorld(AT_ONCE, cache_bytes=0)
    consumer = half_of(world, message("one"), TYPES[0], 2)
    world.store.read_failure = Corrupt("file", 3, "damaged")
    world.do(consumer.subscription.seek_to_id(EARLIEST, ()))
    assert consumer.closed
    assert "half of a chunked message" in caplog.text


def refused_seek(world: TopicWorld, consumer: Consumer, passes: int) -> None:
    """Ask for a seek of a client that leaves when that was checked `passes` times."""
    left = [False] * passes + [True]

    def check() -> None:
        if left.pop(0):
            raise ConnectionError("the client has left")

    with pytest.raises(ConnectionError):
        world.do(consumer.subscription.seek_to_id(EARLIEST, (), check))
    world.flow(consumer, 10)


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_seek_that_is_refused_at_once_sends_nothing_out_of_turn(sub_type: int) -> None:
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [*message("one"), *usual(2)], sub_type, 2)
    refused_seek(world, consumer, 0)
    assert world.offsets(consumer) == [2, 3, 4, 5]


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_seek_that_is_refused_late_sends_no_chunk_twice_over_a_connection(sub_type: int) -> None:
    """The consumer whose message was completed reconnects, and gets the message as a whole."""
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [*message("one"), *usual(2)], sub_type, 2)
    refused_seek(world, consumer, 1)
    assert world.offsets(consumer) == [2, 3] and consumer.closed
    again = world.subscribe(sub_type=sub_type, permits=10)
    assert world.offsets(again) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_seek_that_is_refused_lets_those_go_on_who_have_whole_messages(sub_type: int) -> None:
    world = TopicWorld(AT_ONCE)
    consumer = half_of(world, [*usual(2), *message("one")], sub_type, 2)
    refused_seek(world, consumer, 1)
    assert world.offsets(consumer) == [2, 3, 4, 5] and not consumer.closed
