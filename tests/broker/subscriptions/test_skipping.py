"""Skipping messages that are not acknowledged."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from sys import getsizeof

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import BY_THREE
from fakes.topics import KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions.batch_masks import MAX_MESSAGES, without_lowest
from magnetar_broker.subscriptions.skipping import place_in, skip_all, skip_messages, skip_runs
from magnetar_proto.ids import MessageId

counts = st.lists(st.integers(1, 5), min_size=1, max_size=10)


def world_of(counts: list[int], limits: TopicLimits | None = None) -> TopicWorld:
    world = TopicWorld(limits, BY_THREE)
    world.do(world.topic.subscriptions.create("sub", 0, {}))
    batches = [entry(0, batch=count) for count in counts]
    world.publish(*batches, counts=counts)
    return world


def left_of(world: TopicWorld, counts: list[int]) -> list[int]:
    """How many messages of each entry are not acknowledged."""
    cursor = world.subscription().cursor
    return [
        0 if cursor.is_acked(at) else cursor.partial.get(at, (1 << count) - 1).bit_count()
        for at, count in enumerate(counts)
    ]


@settings(max_examples=examples(100))
@given(counts=counts, messages=st.integers(0, 60), acked=st.sets(st.integers(0, 9)))
def test_as_many_messages_are_skipped_as_were_asked_for(
    counts: list[int], messages: int, acked: set[int]
) -> None:
    world = world_of(counts)
    consumer = world.subscribe(sub_type=SHARED)
    acked &= set(range(len(counts)))
    if acked:
        world.ack(consumer, *sorted(acked))
    before = [0 if at in acked else count for at, count in enumerate(counts)]
    world.do(skip_messages(world.subscription(), messages))
    expected, missing = [], messages
    for left in before:
        expected.append(max(left - missing, 0))
        missing -= left - expected[-1]
    assert left_of(world, counts) == expected
    world.crash()
    assert left_of(world, counts) == expected, "it is durable"


def test_the_first_messages_of_a_batch_go_first() -> None:
    world = world_of([4])
    world.do(skip_messages(world.subscription(), 1))
    assert world.subscription().cursor.partial == {0: 0b1110}
    world.do(skip_messages(world.subscription(), 2))
    assert world.subscription().cursor.partial == {0: 0b1000}


def test_where_batches_cannot_be_cut_the_last_one_goes_whole() -> None:
    world = world_of([4, 4], replace(TopicLimits(), batch_index_acks=False))
    world.do(skip_messages(world.subscription(), 5))
    assert left_of(world, [4, 4]) == [0, 0]


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_a_consumer_that_holds_a_batch_that_is_cut_holds_less(sub_type: int) -> None:
    world = world_of([4, 1])
    consumer = world.subscribe(sub_type=sub_type, permits=4)
    assert consumer.unacked == 4
    world.do(skip_messages(world.subscription(), 3))
    assert consumer.unacked == 1
    world.nack(consumer, 0)
    world.flow(consumer, 4)
    assert [(got.ack_set, got.redelivery_count) for got in world.got(consumer)][1:] == [
        ((0b1000,), 1),
        ((), 0),
    ]


def test_everything_can_be_skipped() -> None:
    world = world_of([1] * 10)
    consumer = world.subscribe(sub_type=SHARED, permits=3)
    world.do(skip_all(world.subscription()))
    assert world.subscription().cursor.mark_delete == 9
    assert consumer.unacked == 0
    world.crash()
    assert world.subscription().cursor.mark_delete == 9
    world.do(skip_all(world.subscription()))
    assert world.subscription().cursor.mark_delete == 9


def test_skipping_returns_the_number_of_messages() -> None:
    world = world_of([3, 2, 1])
    assert world.do(skip_runs(world.subscription(), [range(1), range(2, 3)])) == 4
    assert world.do(skip_runs(world.subscription(), [range(3)])) == 2
    assert world.do(skip_runs(world.subscription(), [range(3)])) == 0


def test_a_key_is_not_held_up_by_what_was_skipped() -> None:
    world = world_of([1] * 6)
    former = world.subscribe(sub_type=KEY_SHARED, permits=6)
    later = world.subscribe(sub_type=KEY_SHARED, permits=6)
    dispatcher = world.subscription().dispatcher
    held = len(world.got(former))
    assert held == 6
    world.do(skip_all(world.subscription()))
    world.publish(entry(0))
    assert len(world.got(former)) + len(world.got(later)) == 1
    assert dispatcher.in_replay == 0


def test_what_waited_to_come_again_waits_no_more() -> None:
    world = world_of([1] * 6)
    consumer = world.subscribe(sub_type=SHARED, permits=3)
    world.nack(consumer)
    assert world.subscription().dispatcher.in_replay == 3
    world.do(skip_messages(world.subscription(), 2))
    assert world.subscription().dispatcher.in_replay == 1


# What a producer claims ---------------------------------------------------------------------

CLAIMED = (1 << 31) - 1
LITTLE = 1 << 20
"""Bytes; a mask of what is claimed takes 256 times as many."""


@contextmanager
def kept_small(world: TopicWorld) -> Iterator[None]:
    """Meanwhile little memory is taken, and little is known of parts of batches then."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()
    assert sum(map(getsizeof, world.subscription().cursor.partial.values())) < LITTLE


@pytest.mark.parametrize("ack_set", [(0b10,), (-1,) * (MAX_MESSAGES // 64 + 1)])
@pytest.mark.parametrize("cumulative", [False, True])
def test_no_part_of_what_cannot_be_is_acknowledged(
    cumulative: bool, ack_set: tuple[int, ...]
) -> None:
    world = world_of([2, CLAIMED])
    consumer = world.subscribe(permits=10)
    with kept_small(world):
        world.ack(consumer, 1, ack_set=ack_set, cumulative=cumulative)
    cursor = world.subscription().cursor
    assert (cursor.mark_delete, cursor.partial) == (0 if cumulative else -1, {})
    world.ack(consumer, 1, cumulative=True)
    assert cursor.mark_delete == 1


def test_what_cannot_be_is_skipped_and_sought_as_a_whole() -> None:
    world = world_of([2, CLAIMED, 1])
    consumer = world.subscribe()
    message = MessageId(*world.topic.log.position(1))._replace(batch_index=1_000_000)
    with kept_small(world):
        assert world.do(place_in(world.topic.log, message, behind=True)) == (1, None)
        world.do(consumer.subscription.seek_to_id(message, (0b10,)))
        assert world.subscription().cursor.mark_delete == 0
        world.do(skip_messages(world.subscription(), 1_000_000_000))
    assert (world.subscription().cursor.mark_delete, left_of(world, [2, 0, 1])) == (1, [0, 0, 1])


def test_the_largest_batch_has_parts() -> None:
    world = world_of([MAX_MESSAGES])
    world.do(skip_messages(world.subscription(), MAX_MESSAGES - 1))
    assert world.subscription().cursor.partial == {0: 1 << MAX_MESSAGES - 1}


@given(st.integers(0, 1 << 200), st.integers(0, 210))
def test_the_lowest_of_a_mask_go_first(mask: int, count: int) -> None:
    expected = mask
    for _ in range(count):
        expected &= expected - 1
    assert without_lowest(mask, count) == expected
