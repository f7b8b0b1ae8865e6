"""Which subscriptions count as stalled, when that is logged, and the repair of a lost wake-up."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.connection import RecordingConnection
from fakes.topics import EXCLUSIVE, FAILOVER, SHARED, TopicWorld, entry
from fakes.world import ManualPromise
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.topic.topic import Topic
from magnetar_broker.watchdog import (
    DEFECT,
    MAX_LINES,
    PAUSE_EVERY,
    SCAN_CHECKS,
    STALLED_CHECKS,
    STALLS,
    Stalls,
    Watchdog,
)
from magnetar_storage.errors import Corrupt

LONG_ENOUGH = SCAN_CHECKS + STALLED_CHECKS


class WatchedWorld(TopicWorld):
    """A topic under a watchdog's eyes."""

    def __init__(self, limits: TopicLimits | None = None, cache_bytes: int = 1 << 20) -> None:
        super().__init__(limits, cache_bytes=cache_bytes)
        self.dog = Watchdog(self.engine, lambda: iter([self.topic]))
        self.dog.start()


Logged = Callable[[], list[str]]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    """What the watchdog has logged since the last call, each with its level."""
    caplog.set_level(logging.INFO, "magnetar_broker.watchdog")

    def since() -> list[str]:
        lines = [f"{r.levelname} {r.message}" for r in caplog.records if "watchdog" in r.name]
        caplog.clear()
        return lines

    return since


def test_a_full_consumer_is_logged_once_with_its_counts_and_again_when_it_continues(
    logged: Logged,
) -> None:
    world = WatchedWorld(TopicLimits(max_unacked_per_consumer=3))
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    world.publish(entry(1), entry(2), entry(3), entry(4), entry(5))
    world.clock.advance(STALLED_CHECKS - 1)
    assert logged() == []
    world.clock.advance(LONG_ENOUGH)
    (line,) = logged()
    assert line.startswith(f"WARNING subscription sub of {world.name} has sent nothing for 5 s")
    assert "(unacked_consumer: " in line and "maxUnackedMessagesPerConsumer" in line
    assert "5 entries are not acknowledged, 0 of them wait for redelivery" in line
    assert line.endswith("1 consumers have 97 permits and hold 3 unacknowledged messages")
    assert world.dog.stalled == world.dog.stalled_total == {"unacked_consumer": 1}
    assert Stalls("unacked_consumer", 1, 1) in world.dog.stalls()
    assert Stalls(DEFECT, 0, 0) in world.dog.stalls()
    world.clock.advance(3 * LONG_ENOUGH)
    assert logged() == []
    world.ack(consumer, 0, 1, 2)
    world.clock.advance(1)
    assert logged() == [f"INFO subscription sub of {world.name} delivers again"]
    assert (world.dog.stalled, world.dog.stalled_total) == ({}, {"unacked_consumer": 1})


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, FAILOVER])
def test_idleness_is_no_stall(logged: Logged, sub_type: int) -> None:
    world = WatchedWorld()
    world.publish(entry(1))
    consumer = world.subscribe(sub_type=sub_type, earliest=True)
    world.clock.advance(LONG_ENOUGH)
    assert world.subscription().dispatcher.blocker() is Blocker.NO_PERMITS
    world.flow(consumer, 9)
    world.clock.advance(LONG_ENOUGH)
    assert world.subscription().dispatcher.blocker() is Blocker.CAUGHT_UP
    consumer.close()
    world.publish(entry(2))
    world.clock.advance(LONG_ENOUGH)
    assert world.subscription().dispatcher.blocker() is Blocker.NO_CONSUMER
    assert (logged(), world.dog.stalled_total) == ([], {})


def test_a_client_that_does_not_read_is_a_stall_until_it_leaves(logged: Logged) -> None:
    world = WatchedWorld()
    connection = RecordingConnection()
    consumer = world.subscribe(connection, permits=10)
    connection.room = False
    world.publish(entry(1))
    world.clock.advance(LONG_ENOUGH)
    assert "slow_connection" in logged()[0]
    consumer.close()
    world.clock.advance(1)
    assert logged() == [f"INFO subscription sub of {world.name} delivers again"]


def test_a_subscription_that_delivers_now_and_then_is_not_stalled(logged: Logged) -> None:
    world = WatchedWorld(TopicLimits(max_unacked_per_consumer=1))
    consumer = world.subscribe(sub_type=SHARED, permits=100)
    world.publish(*(entry(n) for n in range(20)))
    for offset in range(15):
        world.clock.advance(STALLED_CHECKS - 1)
        world.ack(consumer, offset)
    assert (logged(), world.dog.stalled_total) == ([], {})


def test_a_lost_wake_up_is_repaired_and_reported_as_a_defect(logged: Logged) -> None:
    world = WatchedWorld()
    consumer = world.subscribe()
    world.publish(entry(1))
    consumer.permits += 5  # and the dispatcher is not notified
    world.clock.advance(LONG_ENOUGH)
    assert world.offsets(consumer) == [0]
    (line,) = logged()
    assert line.startswith("ERROR") and "defect" in line
    assert (world.dog.stalled, world.dog.stalled_total) == ({}, {DEFECT: 1})


def test_a_read_that_does_not_come_back_is_a_stall_and_no_defect(logged: Logged) -> None:
    world = WatchedWorld(cache_bytes=0)
    consumer = world.subscribe()
    world.publish(entry(1))
    gate = world.store.read_gate = ManualPromise()
    world.flow(consumer, 5)
    world.clock.advance(LONG_ENOUGH)
    assert "(reading: " in logged()[0]
    world.store.read_gate = None
    gate.set_result(None)
    world.clock.advance(1)
    assert world.offsets(consumer) == [0]
    assert world.dog.stalled == {}


def test_damage_is_a_stall_and_a_change_of_the_reason_is_logged(logged: Logged) -> None:
    world = WatchedWorld(cache_bytes=0)
    connection = RecordingConnection()
    consumer = world.subscribe(connection)
    world.publish(entry(1))
    world.store.read_failure = Corrupt("file", 0, "damaged", 1, 0, 0)
    world.flow(consumer, 5)
    world.clock.advance(LONG_ENOUGH)
    assert "(damage: " in logged()[0]
    connection.room = False
    world.clock.advance(1)
    assert "(slow_connection: " in logged()[0]
    assert world.dog.stalled == {"slow_connection": 1}
    assert world.dog.stalled_total == {"damage": 1, "slow_connection": 1}


def test_a_stalled_subscription_that_is_removed_is_forgotten(logged: Logged) -> None:
    world = WatchedWorld()
    connection = RecordingConnection()
    world.subscribe(connection, permits=10)
    connection.room = False
    world.publish(entry(1))
    world.clock.advance(LONG_ENOUGH)
    logged()
    subscription = world.subscription()
    world.do(subscription.delete())
    world.clock.advance(1)
    assert logged() == [f"INFO subscription sub of {world.name} was deleted"]
    assert world.dog.stalled == {}


def test_many_stalls_at_once_do_not_flood_the_log(logged: Logged) -> None:
    world = WatchedWorld()
    connection = RecordingConnection()
    for number in range(MAX_LINES + 7):
        world.subscribe(connection, permits=10, sub=f"sub-{number}")
    connection.room = False
    world.publish(entry(1))
    world.clock.advance(LONG_ENOUGH)
    lines = logged()
    assert len(lines) == MAX_LINES + 1
    assert "7 further subscriptions" in lines[-1]
    assert world.dog.stalled == {"slow_connection": MAX_LINES + 7}


def test_a_stopped_watchdog_looks_no_more(logged: Logged) -> None:
    world = WatchedWorld()
    world.dog.stop()
    consumer = world.subscribe()
    world.publish(entry(1))
    consumer.permits += 5
    world.clock.advance(3 * LONG_ENOUGH)
    assert world.offsets(consumer) == []
    assert logged() == []


def test_checking_many_topics_without_subscriptions_yields() -> None:
    world = TopicWorld()
    looked = 0
    turns: list[int] = []

    def topics() -> Iterator[Topic]:
        nonlocal looked
        world.clock.soon(lambda: turns.append(looked))
        for _ in range(3 * PAUSE_EVERY):
            looked += 1
            yield world.topic

    Watchdog(world.engine, topics).start()
    world.clock.advance(SCAN_CHECKS)
    assert looked == 3 * PAUSE_EVERY
    assert turns == [PAUSE_EVERY]


def test_every_reason_is_either_logged_or_idleness() -> None:
    idle = {
        Blocker.NO_CONSUMER,
        Blocker.CAUGHT_UP,
        Blocker.NO_PERMITS,
        Blocker.DELAY,
        Blocker.TRANSACTION,
        Blocker.RATE,
        Blocker.SWITCHING,
    }
    assert set(STALLS) == set(Blocker) - idle


def test_the_docs_list_every_reason_and_whether_it_is_a_stall() -> None:
    text = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    for blocker in Blocker:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{blocker}` |")]
        assert row.split("|")[3].strip() == ("yes" if blocker in STALLS else "no"), blocker
