"""The damage of a topic: found so far, about to affect subscriptions, or all of it."""

from fakes.logs import BY_THREE
from fakes.topics import SHARED, TopicWorld
from magnetar_broker.damage.looking import damage_of, look_at, next_damage
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_storage.log.damage import Damage

Place = tuple[int, int, int]


class Stage:
    """A topic of nine entries in segments of three."""

    def __init__(self) -> None:
        self.world = TopicWorld(TopicLimits(failover_delay_ms=0), BY_THREE, cache_bytes=0)
        for number in range(9):
            self.world.publish(b"%d" % number)
        self.segments = [one.id for one in self.world.topic.log.segments]

    def rot(self, *indexes: int) -> None:
        self.world.store.rotten.update(self.segments[index] for index in indexes)

    def found(self, whole: bool = False) -> list[Place]:
        return places(self.world.do(damage_of(self.world.topic, whole)))

    def all_of(self, index: int) -> list[Place]:
        return [(self.segments[index], entry, entry) for entry in range(3)]


def places(damage: list[Damage]) -> list[Place]:
    return [one[:3] for one in damage]


def test_without_subscriptions_only_what_was_found_is_known_and_a_scan_finds_all() -> None:
    stage = Stage()
    stage.rot(1)
    assert stage.found() == []
    assert stage.found(whole=True) == stage.all_of(1)
    assert stage.found() == stage.all_of(1)


def test_what_the_next_entries_of_a_subscription_have_is_found() -> None:
    stage = Stage()
    stage.rot(0, 1)
    stage.world.subscribe(earliest=True)
    assert stage.found() == stage.all_of(0) + stage.all_of(1)


def test_it_is_found_up_to_the_first_entry_that_can_be_read() -> None:
    stage = Stage()
    stage.rot(0, 2)
    log = stage.world.topic.log
    assert places(stage.world.do(next_damage(log, 0))) == stage.all_of(0)
    assert places(stage.world.do(next_damage(log, 1))) == stage.all_of(0)[1:]
    assert places(stage.world.do(next_damage(log, 3))) == []
    assert places(stage.world.do(next_damage(log, 9))) == []


def test_what_a_reader_has_met_is_known_after_it_left() -> None:
    stage = Stage()
    stage.rot(1)
    reader = stage.world.subscribe(permits=9, earliest=True, durable=False)
    assert stage.world.offsets(reader) == [0, 1, 2]
    reader.close()
    assert len(stage.world.engine.damage) == 1
    assert stage.found() == stage.all_of(1), "and what follows"


def test_what_can_be_read_again_is_not_named() -> None:
    stage = Stage()
    stage.rot(1)
    stage.found(whole=True)
    stage.world.store.rotten.clear()
    assert stage.found() == []
    assert not len(stage.world.engine.damage)


def test_what_another_process_has_found_is_read_here() -> None:
    stage = Stage()
    stage.rot(1)
    log = stage.world.topic.log
    places = [(stage.segments[1], 1, 1), (stage.segments[0], 0, 2), (99, 0, 0)]
    stage.world.do(look_at(log, places))
    assert stage.found() == stage.all_of(1)[1:]


def test_what_one_subscription_passes_over_is_named() -> None:
    stage = Stage()
    stage.rot(1)
    consumer = stage.world.subscribe(permits=9, earliest=True, sub_type=SHARED)
    assert stage.world.offsets(consumer) == [0, 1, 2, 6, 7, 8]
    assert stage.found() == stage.all_of(1)
