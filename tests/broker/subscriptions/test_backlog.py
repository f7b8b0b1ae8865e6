"""Backlogs against counting one by one, and what counting costs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.faulty_objects import Fault
from fakes.logs import LogWorld
from fakes.tiered import TieredWorld
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld, entry
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.subscriptions.backlog import YIELD_EVERY, BacklogCounter
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.roll_limits import RollLimits

ENTRIES = 2600  # two chunks of an OffsetSet and a part of a third
COUNTS = [1] * 1100 + [offset % 7 + 1 for offset in range(ENTRIES - 1100)]
SIZES = [offset % 5 + 60 for offset in range(ENTRIES)]


@pytest.fixture(scope="module")
def world() -> LogWorld:
    return LogWorld(roll=RollLimits(max_entries=700, min_age_ms=0), cache_bytes=0)


@pytest.fixture(scope="module")
def log(world: LogWorld) -> Log:
    log = world.open()
    for start in range(0, ENTRIES, 100):
        payloads = [entry(offset).ljust(SIZES[offset]) for offset in range(start, start + 100)]
        world.append(log, *payloads, counts=COUNTS[start : start + 100])
    return log


offsets = st.integers(0, ENTRIES - 1)
ranges = st.lists(
    st.one_of(
        st.tuples(offsets, offsets).map(sorted),
        offsets.map(lambda offset: [offset, offset]),
        st.sampled_from([[0, 1023], [1024, 2047], [0, 2047], [2048, ENTRIES - 1]]),
    ),
    max_size=4,
)


def by_hand(cursor: Cursor, delayed: set[int]) -> tuple[int, int, int, int | None]:
    left = [o for o in range(ENTRIES) if not cursor.is_acked(o)]
    masks = cursor.partial
    messages = sum(masks[o].bit_count() if o in masks else COUNTS[o] for o in left)
    late = sum(COUNTS[o] for o in left if o in delayed)
    return messages, len(left), min(late, messages), left[0] if left else None


@settings(max_examples=examples(150))
@given(
    mark_delete=st.integers(-1, ENTRIES - 1),
    acked=ranges,
    every=st.integers(2, 9),
    partial=st.lists(offsets, max_size=5),
    delayed=ranges,
    later=st.lists(st.lists(offsets, max_size=30), max_size=2),
)
def test_any_cursor_is_counted_exactly_and_again_after_it_moved(
    world: LogWorld,
    log: Log,
    mark_delete: int,
    acked: list[list[int]],
    every: int,
    partial: list[int],
    delayed: list[list[int]],
    later: list[list[int]],
) -> None:
    cursor, waiting = Cursor(mark_delete), OffsetSet()
    counter = BacklogCounter(log, cursor)
    for first, last in acked:
        cursor.ack(range(first, last + 1, every if last - first < 1500 else 1))
    for offset in partial:
        if COUNTS[offset] > 1:
            cursor.ack_batch(offset, 1)
    for first, last in delayed:
        waiting.add(first, last + 1)
    late = {offset for first, last in waiting for offset in range(first, last)}
    for more in [[], *later]:
        cursor.ack(more)
        backlog = world.do(counter.count(waiting))
        oldest_ms = world.do(counter.oldest_ms())
        found = (backlog.messages, backlog.entries, backlog.delayed, oldest_ms)
        assert found == by_hand(cursor, late)
        assert backlog.without_delayed == backlog.messages - backlog.delayed


def test_bytes_are_exact_segment_by_segment_and_a_mean_within(world: LogWorld, log: Log) -> None:
    counter = BacklogCounter(log, Cursor(-1))
    assert world.do(counter.count()).size == log.size == sum(SIZES)
    counter = BacklogCounter(log, Cursor(699))
    assert world.do(counter.count()).size == sum(SIZES[700:])
    counter = BacklogCounter(log, Cursor(349))
    assert world.do(counter.count()).size == sum(SIZES[700:]) + sum(SIZES[:700]) // 2


def test_nothing_left_is_nothing(world: LogWorld, log: Log) -> None:
    counter = BacklogCounter(log, Cursor(ENTRIES - 1))
    assert world.do(counter.count()) == Backlog(0, 0)
    assert world.do(counter.oldest_ms()) is None


def test_many_holes_are_counted_in_turns_and_unchanged_ones_not_again(
    world: LogWorld, log: Log
) -> None:
    cursor = Cursor(-1)
    cursor.ack(range(1, ENTRIES, 2))
    counter = BacklogCounter(log, cursor)
    runs = (ENTRIES - 1100) // 2  # of which each entry holds another number of messages
    assert turns(world, counter) >= runs // YIELD_EVERY > 0
    again = BacklogCounter(log, cursor)
    asked = questions(world, log, again)
    assert questions(world, log, again) < asked / 20
    cursor.ack((2500,))
    assert questions(world, log, again) < asked / 2


def turns(world: LogWorld, counter: BacklogCounter) -> int:
    """How often counting yielded to other work."""
    outcome, turns = world.begin(counter.count()), 0
    while not outcome.done():
        assert world.clock.step()
        turns += 1
    return turns


def questions(world: LogWorld, log: Log, counter: BacklogCounter) -> int:
    """How often counting asks the log."""
    asked = 0
    ask = log.entries.messages_before

    async def counted(offset: int, estimates: bool = False) -> int:
        nonlocal asked
        asked += 1
        return await ask(offset, estimates)

    log.entries.messages_before = counted  # type: ignore[method-assign]
    try:
        world.do(counter.count())
    finally:
        log.entries.messages_before = ask  # type: ignore[method-assign]
    return asked


# In a topic ---------------------------------------------------------------------------


def test_the_numbers_are_right_at_once_after_a_crash() -> None:
    world = TopicWorld(cache_bytes=0)
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    world.publish(*(entry(1000 + n, 3) for n in range(10)), counts=[3] * 10)
    world.ack(consumer, 0, 2, 3)
    world.ack(consumer, 5, ack_set=(0b101,))
    before = world.do(world.subscription().backlog())
    assert (before.messages, before.entries) == (20, 7)
    world.crash()
    assert world.do(world.subscription().backlog()) == before
    assert world.do(world.subscription().counter.oldest_ms()) == 1001


def test_the_age_is_read_once_until_another_message_is_the_oldest() -> None:
    world = TopicWorld(cache_bytes=0)
    consumer = world.subscribe(permits=100, sub_type=EXCLUSIVE)
    world.publish(entry(5), entry(6), entry(7))
    reads = world.store.reads
    ages = [world.do(world.subscription().counter.oldest_ms()) for _ in range(3)]
    assert (ages, world.store.reads) == ([5, 5, 5], reads + 1)
    world.ack(consumer, 0)
    assert world.do(world.subscription().counter.oldest_ms()) == 6


def test_an_age_is_estimated_without_the_store_of_objects() -> None:
    world = TieredWorld()
    log = world.open()
    created_ms = world.clock.now_ms()
    world.clock.advance(5)
    world.append(log, *(entry(offset) for offset in range(7)))
    world.move(log)
    counter = BacklogCounter(log, Cursor(-1))
    world.objects.fault = lambda operation, name: Fault.LOST
    assert world.do(counter.oldest_ms(estimates=True)) == created_ms
    assert world.do(counter.oldest_ms()) is None
    world.objects.fault = None
    assert world.do(counter.oldest_ms()) == 0
    world.objects.fault = lambda operation, name: Fault.LOST
    assert world.do(counter.oldest_ms(estimates=True)) == 0, "it is known by now"


def test_an_age_that_cannot_be_read_is_none_and_is_asked_for_again() -> None:
    world = TopicWorld(cache_bytes=0)
    world.subscribe()
    world.publish(b"no metadata")
    assert world.do(world.subscription().counter.oldest_ms()) is None
    world = TopicWorld(cache_bytes=0)
    world.subscribe()
    world.publish(entry(5))
    world.store.read_failure = Unavailable("not now")
    assert world.do(world.subscription().counter.oldest_ms()) is None
    world.store.read_failure = None
    assert world.do(world.subscription().counter.oldest_ms()) == 5
