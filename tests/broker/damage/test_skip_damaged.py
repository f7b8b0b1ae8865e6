"""Setting damaged entries aside, on request or automatically."""

from typing import Any

import pytest

from fakes.logs import BY_THREE
from fakes.topics import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TopicWorld
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import DamagedEntries
from magnetar_broker.damage import skip_damaged as skipping
from magnetar_broker.damage.skip_damaged import Skipping, skip_damaged
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions.read_history import read_offsets
from magnetar_storage.errors import StorageError, Unavailable
from magnetar_storage.log.damage import Damage


class Stage:
    """A topic of nine entries in segments of three, of which the second is damaged."""

    def __init__(self, **settings: Any) -> None:
        self.world = TopicWorld(TopicLimits(failover_delay_ms=0), BY_THREE, cache_bytes=0)
        self.skipping = Skipping(
            Settings(**settings), self.world.engine, lambda: iter([self.world.topic])
        )
        for number in range(9):
            self.world.publish(b"%d" % number)
        self.damaged = self.world.topic.log.segments[1].id
        self.world.store.rotten.add(self.damaged)

    def consumer(self, sub_type: int = EXCLUSIVE, **more: Any) -> Consumer:
        return self.world.subscribe(permits=100, earliest=True, sub_type=sub_type, **more)

    def skip(self, whole: bool = False) -> int:
        found = self.world.do(skip_damaged(self.world.topic, whole, "a test"))
        self.world.clock.pump()
        return len(found)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_a_consumer_that_is_there_goes_on(sub_type: int, durable: bool) -> None:
    stage = Stage()
    consumer = stage.consumer(sub_type, durable=durable)
    before = stage.world.offsets(consumer)
    assert stage.skip() == 3
    assert before + stage.world.offsets(consumer) == [0, 1, 2, 6, 7, 8]
    stage.world.ack(consumer, 0, 1, 2, 6, 7, 8)
    assert stage.world.subscription().cursor.mark_delete == 8


def test_all_subscriptions_and_later_readers_go_past_it() -> None:
    stage = Stage()
    one = stage.consumer(sub="one")
    other = stage.consumer(SHARED, sub="other")
    stage.skip(whole=True)
    later = stage.consumer(sub="later", durable=False)
    for consumer in (one, other, later):
        assert stage.world.offsets(consumer) == [0, 1, 2, 6, 7, 8]


def test_the_backlog_has_them_no_more_and_a_restart_changes_nothing() -> None:
    stage = Stage()
    stage.consumer().close()
    assert stage.world.do(stage.world.subscription().backlog()).messages == 9
    stage.skip(whole=True)
    assert stage.world.do(stage.world.subscription().backlog()).messages == 6
    stage.world.crash()
    assert stage.world.do(stage.world.subscription().backlog()).messages == 6
    assert stage.world.offsets(stage.consumer()) == [0, 1, 2, 6, 7, 8]


def test_what_is_set_aside_does_not_count_as_unread() -> None:
    stage = Stage()
    assert list(read_offsets(stage.world.topic).unread(0, 6)) == [(0, 6)]
    stage.skip(whole=True)
    assert list(read_offsets(stage.world.topic).unread(0, 6)) == [(0, 3)]


def test_what_is_set_aside_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.skip(whole=True)
    lines = [one.getMessage() for one in caplog.records if one.name == skipping.__name__]
    assert len(lines) == 3
    assert lines[0].startswith(
        f"set aside, with a copy in quarantine (a test): segment {stage.damaged}, entries 0 to 0"
    )


def test_by_itself_nothing_is_set_aside_unless_the_setting_says_so() -> None:
    stage = Stage()
    consumer = stage.consumer()
    stage.world.clock.pump()
    stage.world.do(stage.skipping.look())
    assert stage.world.offsets(consumer) == [0, 1, 2]
    assert stage.world.engine.damage.entries == 1


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_with_skip_consumers_go_past_it_at_once(sub_type: int) -> None:
    stage = Stage(magnetar_damaged_entries=DamagedEntries.SKIP)
    consumer = stage.consumer(sub_type)
    stage.world.clock.pump()
    assert stage.world.offsets(consumer) == [0, 1, 2, 6, 7, 8]
    assert stage.world.engine.damage.entries == 0
    assert stage.world.engine.damage.set_aside == 3


def test_what_cannot_be_set_aside_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(magnetar_damaged_entries=DamagedEntries.SKIP)
    keep = stage.world.store.keep_damaged

    async def refuse(*_: object) -> None:
        raise Unavailable("no room")

    monkeypatch.setattr(stage.world.store, "keep_damaged", refuse)
    consumer = stage.consumer()
    stage.world.clock.pump()
    assert stage.world.offsets(consumer) == [0, 1, 2]
    monkeypatch.setattr(stage.world.store, "keep_damaged", keep)
    stage.world.do(stage.skipping.look())
    stage.world.clock.pump()
    assert stage.world.offsets(consumer) == [6, 7, 8]


def test_what_another_process_has_set_aside_or_deleted_is_known_no_more() -> None:
    stage = Stage()
    damage = stage.world.engine.damage
    segment = stage.world.topic.log.segments[0].id
    cursors = Damage(99, 0, 0, "rot", log=stage.world.topic.log.key)
    present = Damage(segment, 1, 1, "rot", log=stage.world.topic.log.key)
    stage.skip(whole=True)
    for one in (cursors, present, present._replace(segment=stage.damaged)):
        damage.add(one)
    damage.add(Damage(7, 0, 0, "rot", log="/topics/public/default/persistent/gone"))
    damage.add(Damage(7, 0, 0, "rot"))
    stage.world.do(stage.skipping.look())
    assert list(damage) == [present]


def test_damage_of_cursors_stays_known() -> None:
    stage = Stage()
    stage.consumer()
    cursors = stage.world.topic.log.record.cursor_segment
    assert cursors is not None
    found = Damage(cursors, 0, 0, "rot", log=stage.world.topic.log.key)
    stage.world.engine.damage.add(found)
    stage.world.do(stage.skipping.look())
    assert found in list(stage.world.engine.damage)


def test_a_request_that_fails_says_so() -> None:
    stage = Stage()
    with stage.world.failing_metadata(), pytest.raises(StorageError):
        stage.world.do(skip_damaged(stage.world.topic, True, "a test"))
    assert stage.world.engine.damage.set_aside == 0
