"""The scrubber: it reads every closed segment in time, and reports damage before readers do."""

from collections import Counter
from typing import Any

import pytest

from fakes.logs import BY_THREE, LogWorld
from fakes.rewritten import RewrittenLog
from fakes.topics import TOPIC, TopicWorld
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.config import Settings
from magnetar_broker.damage.scrubbing import Scrubber, is_due
from magnetar_broker.damage.skip_damaged import skip_damaged
from magnetar_proto.names import TopicName
from magnetar_storage.errors import NoSegment

WEEK_MS = 604_800_000
HOUR_MS = 3_600_000
KEY = topic_key(TopicName.parse(TOPIC))


def drive(world: LogWorld, scrubber: Scrubber) -> None:
    """Run the scrubber, and let time pass until it has ended."""
    looking = world.begin(scrubber.look())
    for _ in range(1000):
        world.clock.pump()
        if looking.done():
            looking.result()
            return
        world.clock.advance(0.1)
    raise AssertionError("it does not end")


class Stage:
    """A topic of nine entries, in three closed segments and an open one, and its scrubber."""

    def __init__(self, **settings: Any) -> None:
        self.world = TopicWorld(roll=BY_THREE, cache_bytes=0)
        for number in range(9):
            self.world.publish(b"%d" % number)
        self.segments = [one.id for one in self.world.topic.log.segments]
        self.scrubber = Scrubber(Settings(**settings), self.world.engine)

    def scrub(self) -> None:
        """Let time pass until every segment has been due once or twice, and run the scrubber."""
        self.world.clock.set_forward(2 * self.scrubber.seconds * 1000)
        drive(self.world, self.scrubber)

    def found(self) -> list[tuple[Any, ...]]:
        return [(one.segment, one.first, one.last, one.log) for one in self.world.engine.damage]


def test_damage_of_topics_is_found_before_it_is_read() -> None:
    stage = Stage()
    stage.world.store.rotten.add(stage.segments[1])
    stage.scrub()
    assert stage.found() == [(stage.segments[1], entry, entry, KEY) for entry in range(3)]
    assert stage.scrubber.scrubbed_bytes == 6


def test_of_a_topic_that_is_not_loaded_too() -> None:
    stage = Stage()
    stage.world.store.rotten.add(stage.segments[0])
    stage.world.do(stage.world.topic.close())
    stage.scrub()
    assert {one.log for one in stage.world.engine.damage} == {KEY}


def test_what_was_set_aside_is_not_reported_again() -> None:
    stage = Stage()
    stage.world.store.rotten.add(stage.segments[1])
    stage.world.do(skip_damaged(stage.world.topic, True, "a test"))
    stage.scrub()
    assert stage.found() == []


def test_what_it_finds_is_set_aside_on_request() -> None:
    stage = Stage()
    stage.world.store.rotten.add(stage.segments[1])
    stage.scrub()
    found = stage.world.do(skip_damaged(stage.world.topic, False, "a test"))
    assert [one.segment for one in found] == [stage.segments[1]] * 3
    assert stage.found() == []


def test_a_file_that_is_missing_is_found() -> None:
    stage = Stage()
    segment = stage.segments[0]
    reader = stage.world.store.reader

    async def missing(number: int) -> Any:
        if number == segment:
            raise NoSegment("there is no file")
        return await reader(number)

    stage.world.store.reader = missing  # type: ignore[method-assign, assignment]
    stage.scrub()
    assert [one.segment for one in stage.world.engine.damage] == [segment]


def test_damage_of_cursors_is_named_as_such() -> None:
    stage = Stage()
    stage.world.subscribe()
    cursors = stage.world.topic.log.record.cursor_segment
    assert cursors is not None
    stage.world.do(stage.world.topic.close())
    stage.world.do(stage.world.store.recover(cursors))
    stage.world.store.rotten.add(cursors)
    stage.scrub()
    (why,) = {one.why for one in stage.world.engine.damage}
    assert why == "rot; the segment has cursors, delays or compacted data"


def test_damage_of_a_rewritten_segment_is_named_as_clients_know_it() -> None:
    world = RewrittenLog(35)
    world.ack_all_but(3, 34)
    world.reclaim()
    (first, *_) = world.log.segments
    assert first.kept_in is not None
    scrubber = Scrubber(Settings(), world.engine)
    reader = world.do(world.store.reader(first.kept_in))
    kept = world.do(reader.read(1, 1, 1)).payloads
    assert kept == [b"3"]
    read = type(reader).read

    async def rotting(self: Any, entry: int, *limits: int) -> Any:
        world.store.rotten = {first.kept_in} if entry else set()  # type: ignore[arg-type]
        return await read(self, entry, 1, limits[1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(reader), "read", rotting)
        world.clock.set_forward(2 * WEEK_MS)
        drive(world, scrubber)
    assert [(one.segment, one.first, one.last) for one in world.engine.damage] == [(first.id, 3, 3)]


def test_no_more_bytes_a_second_than_the_setting() -> None:
    stage = Stage(magnetar_scrub_bytes_per_second=3)
    stage.world.clock.set_forward(2 * WEEK_MS)
    began_ms = stage.world.clock.now_ms()
    drive(stage.world, stage.scrubber)
    assert stage.scrubber.scrubbed_bytes == 9
    assert stage.world.clock.now_ms() - began_ms >= 3000


def test_it_ends_when_the_broker_stops() -> None:
    stage = Stage(magnetar_scrub_bytes_per_second=1)
    stage.world.clock.set_forward(2 * WEEK_MS)
    looking = stage.world.begin(stage.scrubber.look())
    stage.world.clock.pump()
    stage.scrubber.stop()
    stage.world.clock.advance(10)
    assert looking.done()
    assert stage.scrubber.scrubbed_bytes == 3


@pytest.mark.parametrize(
    ("seconds", "look_seconds"), [(0, 0), (1, 1), (167, 1), (604_800, 3600), (10_000_000, 3600)]
)
def test_how_often_it_looks(seconds: int, look_seconds: int) -> None:
    stage = Stage(magnetar_scrub_interval_in_seconds=seconds)
    assert stage.scrubber.look_seconds == look_seconds


def test_every_segment_is_due_once_in_every_interval_and_not_always_at_the_same_hour() -> None:
    hours: dict[int, list[int]] = {segment: [] for segment in range(1, 301)}
    for hour in range(4 * 168):
        for segment, due in hours.items():
            if is_due(segment, hour * HOUR_MS, (hour + 1) * HOUR_MS, WEEK_MS):
                due.append(hour)
    for due in hours.values():
        assert [hour // 168 for hour in due] == [0, 1, 2, 3]
        assert len({hour % 168 for hour in due}) > 1
    days = Counter(hour // 24 for due in hours.values() for hour in due)
    assert len(days) == 28 and max(days.values()) < 2 * 300 / 7, "they are spread over the week"


def test_within_two_intervals_every_segment_is_due() -> None:
    for segment in range(1, 100):
        assert all(is_due(segment, at - 200, at, 100) for at in range(1025, 3025, 7))


def test_a_look_that_comes_late_reads_each_segment_once() -> None:
    stage = Stage()
    stage.world.clock.set_forward(100 * WEEK_MS)
    drive(stage.world, stage.scrubber)
    assert stage.scrubber.scrubbed_bytes == 9
