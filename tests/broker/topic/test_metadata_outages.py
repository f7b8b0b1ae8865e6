"""A topic whose metadata is away for a time, or loses answers, while it is used."""

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import BY_THREE
from fakes.outages import OutageWorld
from fakes.topics import SHARED, TopicWorld, entry
from fakes.unreliable_metadata import Fate
from magnetar_broker.policies.table import MESSAGE_TTL
from magnetar_storage.errors import Unavailable
from magnetar_storage.metadata.retrying import RETRY_SECONDS

UNANSWERED = (Fate.LOST, Fate.NOT_MADE, Fate.LATE)
AWAY_SECONDS = 2.0


class World(OutageWorld, TopicWorld):
    """A topic that begins a new segment after every third entry."""

    def __init__(self) -> None:
        super().__init__(roll=BY_THREE)

    def check_works(self) -> None:
        """Check that the topic was never dropped, and that it is usable."""
        assert self.dropped == [] and not self.topic.closed
        assert self.topic.log.failed is None


def test_a_topic_outlives_two_seconds_without_metadata() -> None:
    """It takes messages and acknowledgements, begins a segment, and has its policies changed."""
    world = World()
    client = RecordingConnection()
    producer = world.producer(client)
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    world.away(AWAY_SECONDS)
    # The third entry makes the segment big; those behind it still go to the same one.
    sends = [world.send(producer, entry(number)) for number in range(5)]
    setting = world.begin(world.policies.set(world.name, {MESSAGE_TTL: 10}))
    world.clock.pump()
    assert len(client.receipts) == len(sends), "a publish waits for metadata"
    answers = world.ack(consumer, 0, 1)
    world.clock.advance(AWAY_SECONDS - 0.1)
    assert len(world.topic.log.segments) == 1 and not setting.done()
    world.clock.advance(1)
    world.check_works()
    assert len(world.topic.log.segments) == 2
    assert answers == [None]
    setting.result()
    world.publish(entry(5))
    assert world.offsets(consumer) == [0, 1, 2, 3, 4, 5]
    world.crash()
    assert world.subscription().cursor.mark_delete == 1
    assert world.topic.log.end == 6
    assert world.do(world.policies.explicit(MESSAGE_TTL, world.name)) == 10


def test_a_topic_is_opened_while_metadata_is_away_for_two_seconds() -> None:
    world = World()
    world.publish(*map(entry, range(4)))
    world.away(AWAY_SECONDS)
    world.reload()
    world.check_works()
    assert world.topic.log.end == 4


@pytest.mark.parametrize("fate", UNANSWERED)
def test_a_topic_is_created_though_an_answer_is_lost(fate: Fate) -> None:
    world = World()
    world.do(world.topic.log.delete())
    world.unreliable.fates.append(fate)
    world.reload()
    world.publish(entry(0))
    assert world.topic.log.end == 1


def test_a_first_segment_waits_for_metadata() -> None:
    world = World()
    world.away(AWAY_SECONDS)
    world.publish(entry(0))
    world.check_works()
    assert world.topic.log.end == 1


def test_a_topic_whose_metadata_stays_away_is_dropped_and_loses_nothing() -> None:
    world = World()
    world.publish(entry(0))
    world.unreliable.is_away = True
    world.publish(entry(1), entry(2))
    world.clock.advance(RETRY_SECONDS - 0.1)
    world.check_works()
    world.clock.advance(0.2)
    assert world.dropped == [world.topic]
    assert isinstance(world.topic.log.failed, Unavailable)
    world.unreliable.is_away = False
    world.crash()
    assert world.topic.log.end == 3


def a_life(world: World) -> None:
    """Use a topic in all ways that change its record."""
    consumer = world.subscribe(permits=100)
    world.publish(*map(entry, range(3)))
    world.clock.advance(1)
    world.publish(entry(3))
    assert world.ack(consumer, *range(4)) in ([], [None])
    world.do(world.topic.cursors.durable())
    assert world.do(world.topic.log.trim(3)) == 1
    world.do(world.topic.log.stored_record.change_properties(lambda old: {**old, "key": "value"}))
    world.publish(entry(4), entry(5))
    world.clock.advance(1)
    world.check_works()
    consumer.close()
    world.do(world.topic.log.rollover.terminate())


def writes_of_a_life() -> int:
    world = World()
    world.unreliable.landed.clear()
    a_life(world)
    return len(world.unreliable.landed)


@pytest.mark.parametrize("fate", UNANSWERED)
@pytest.mark.parametrize("number", range(writes_of_a_life()))
def test_any_write_of_a_topic_may_remain_without_an_answer(number: int, fate: Fate) -> None:
    world, quiet = World(), World()
    world.unreliable.fates += [*[Fate.ANSWERED] * number, fate]
    for one in (world, quiet):
        a_life(one)
    world.check_works()
    assert not world.unreliable.fates, "no write had this fate"
    assert len(world.unreliable.landed) == len(quiet.unreliable.landed)
    assert stored(world) == stored(quiet)
    assert world.store.ids() == quiet.store.ids()
    world.crash()
    assert world.topic.log.end == 6 and world.topic.log.terminated


def stored(world: World) -> object:
    """Return the record, apart from times."""
    record = world.topic.log.record
    return (
        [(one.id, one.entries) for one in record.segments],
        record.cursor_segment, record.trash, record.properties, record.terminated,
    )  # fmt: skip
