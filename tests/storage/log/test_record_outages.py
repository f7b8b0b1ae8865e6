"""Logs whose record cannot be written for a long time, and is written late."""

from fakes.logs import BY_THREE, numbered
from fakes.outages import OutageWorld
from fakes.runs import append
from fakes.unreliable_metadata import Fate
from magnetar_storage.errors import StorageError, Unavailable
from magnetar_storage.log.log import Log
from magnetar_storage.metadata.retrying import RETRY_SECONDS

LATE_SECONDS = 60.0


def failed_roll(world: OutageWorld, unanswered: int) -> tuple[Log, int]:
    """Fail to list a second segment: the first attempt takes place late, the others do not.

    Returns the log, and the number of attempts.  Writes after the first `unanswered` are answered.
    """
    log = world.open()
    attempts: list[int] = []

    def count(error: StorageError) -> None:
        attempts.append(world.unreliable.calls.count("put"))

    log.on_failure = count
    world.unreliable.late_seconds = LATE_SECONDS
    world.unreliable.fates += [Fate.LATE, *[Fate.NOT_MADE] * (unanswered - 1)]
    world.unreliable.calls.clear()
    outcome: list[BaseException | None] = []
    append(log, numbered(0, 3), [1] * 3, outcome.append)
    world.clock.pump()
    world.clock.advance(RETRY_SECONDS + 1)
    assert outcome == [None] and isinstance(log.failed, Unavailable)
    return log, attempts[0]


def test_a_segment_stays_while_its_listing_may_still_take_place() -> None:
    """Otherwise a record that is stored late would list a segment that is missing."""
    world = OutageWorld(BY_THREE)
    failed_roll(world, 1000)
    world.clock.advance(LATE_SECONDS)
    world.unreliable.fates.clear()
    log = world.open(writing=False)
    assert world.read_all(log) == numbered(0, 3)
    assert world.store.ids() == log.record.listed and world.engine.undeleted == {}


def test_a_listing_that_is_late_is_refused_once_its_segment_is_deleted() -> None:
    _, attempts = failed_roll(OutageWorld(BY_THREE), 1000)
    world = OutageWorld(BY_THREE)
    log, _ = failed_roll(world, attempts)
    assert not world.unreliable.fates, "the listing was repeated more often"
    assert world.store.ids() == log.record.listed, "it was not deleted"
    landed = len(world.unreliable.landed)
    world.clock.advance(LATE_SECONDS)
    assert len(world.unreliable.landed) == landed
    again = world.open(writing=False)
    assert world.read_all(again) == numbered(0, 3)
    assert world.store.ids() == again.record.listed


def test_what_is_left_over_goes_with_its_log() -> None:
    world = OutageWorld(BY_THREE)
    log, _ = failed_roll(world, 1000)
    world.unreliable.fates.clear()
    world.do(log.delete())
    assert world.store.ids() == set() and world.engine.undeleted == {}
