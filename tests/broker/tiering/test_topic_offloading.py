"""Offloading of a topic's ledgers, as it is asked for and as policies say."""

from dataclasses import replace

import pytest

from fakes.faulty_objects import Fault
from fakes.logs import numbered
from fakes.tiered import OTHER, PLACE, TieredWorld
from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.policies.offload_values import OffloadRules
from magnetar_broker.tiering.topic_offloading import (
    OffloadRunning,
    OffloadState,
    OffloadStatus,
    TopicOffloading,
    offloaded_size,
)
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.local import footer
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.log.log import Log

KEPT = OffloadRules(PLACE, deletion_lag_ms=1000)


class World(TieredWorld):
    """A log with three closed ledgers of three entries, and its offloading."""

    def __init__(self, rules: OffloadRules = KEPT) -> None:
        super().__init__()
        self.rules = rules
        self.log: Log = self.open()
        self.append(self.log, *numbered(0, 10))
        self.offloading = TopicOffloading(self.log, lambda: self.rules, ClockWatch(self.clock))

    def request(self, before: int, entry: int = 0) -> OffloadStatus:
        self.offloading.start((before, entry))
        self.clock.pump()
        return self.offloading.status()

    @property
    def ids(self) -> list[int]:
        return [segment.id for segment in self.log.segments]

    @property
    def copied(self) -> list[bool]:
        return [segment.is_copied for segment in self.log.segments]

    @property
    def remote(self) -> list[bool]:
        return [segment.is_remote for segment in self.log.segments]


def test_the_closed_ledgers_before_one_are_offloaded() -> None:
    world = World()
    assert world.offloading.status() == OffloadStatus(OffloadState.NOT_RUN)
    status = world.request(world.ids[2])
    assert status == OffloadStatus(OffloadState.SUCCESS, "", (world.ids[2], 0))
    assert world.copied == [True, True, False, False]
    assert world.offloading.figures().last_ledger == world.ids[1]
    assert offloaded_size(world.log.segments) == 6
    status = world.request(world.ids[-1], 1)
    assert status.first_not_offloaded == (world.ids[-1], 0), "the open ledger stays"
    assert world.copied == [True, True, True, False]


def test_one_request_runs_at_a_time() -> None:
    world = World()
    world.offloading.start((world.ids[2], 0))
    assert world.offloading.status().state is OffloadState.RUNNING
    with pytest.raises(OffloadRunning):
        world.offloading.start((world.ids[2], 0))
    world.clock.pump()
    assert world.offloading.status().state is OffloadState.SUCCESS


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (OffloadRules(), "managedLedgerOffloadDriver"),
        (OffloadRules(trouble="no bucket"), "no bucket"),
    ],
)
def test_without_a_place_a_request_fails_and_says_why(rules: OffloadRules, why: str) -> None:
    world = World(rules)
    status = world.request(world.ids[2])
    assert status.state is OffloadState.ERROR and why in status.last_error
    assert not world.stored()


@pytest.mark.parametrize(
    ("ledger", "entry", "is_valid"),
    [
        (0, 0, True),
        (0, 2, True),
        (0, 3, False),
        (0, -1, False),
        (-1, 0, True),
        (-1, 1, True),
        (-1, 2, False),
    ],
)
def test_a_position_is_that_of_a_message_or_of_the_next_one(
    ledger: int, entry: int, is_valid: bool
) -> None:
    """The last ledger has one entry, and all others have three."""
    world = World()
    status = world.request(world.ids[ledger], entry)
    assert status.state is (OffloadState.SUCCESS if is_valid else OffloadState.ERROR)
    assert is_valid or "invalid position" in status.last_error


def test_a_ledger_whose_end_is_not_known_yet_has_positions() -> None:
    """While a log rolls over, the next ledger is listed before the one that was open is closed."""
    world = World()
    record = world.log.record
    closing = replace(record.segments[2], entries=None)
    world.log.record = record.with_segment(closing)
    world.offloading.start((closing.id, 0))
    assert world.offloading.status().state is OffloadState.RUNNING
    world.log.record = record


def test_a_ledger_that_the_topic_does_not_have_is_no_position() -> None:
    world = World()
    for ledger in (-1, world.ids[-1] + 1):
        assert world.request(ledger).state is OffloadState.ERROR
    assert not world.stored()


def test_a_request_that_fails_says_why_and_can_be_repeated() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.BUSY
    status = world.request(world.ids[2])
    assert status.state is OffloadState.ERROR and "503" in status.last_error
    assert world.offloading.figures().failed_ms == world.clock.now_ms()
    assert world.engine.copies.counts.copy_errors == 1
    world.mend()
    assert world.request(world.ids[2]).state is OffloadState.SUCCESS


def test_ledgers_are_offloaded_and_deleted_here_as_policies_say() -> None:
    world = World(OffloadRules(PLACE, size_threshold=0, deletion_lag_ms=1000))
    world.do(world.offloading.run_due())
    assert world.copied == [True, True, True, False] and not any(world.remote)
    world.clock.advance(0.999)
    world.do(world.offloading.run_due())
    assert not any(world.remote), "the lag has not passed"
    world.clock.advance(0.001)
    world.do(world.offloading.run_due())
    assert world.remote == [True, True, True, False]
    assert world.read_all(world.log) == numbered(0, 10)


def test_a_damaged_ledger_keeps_no_other_one_here() -> None:
    world = World(OffloadRules(PLACE, size_threshold=0, deletion_lag_ms=0))
    first = world.ids[0]
    world.do(world.store.finish(first))
    index, _ = footer.load(world.disk, first)
    world.disk.flip_bit(file_name(first), index.offsets[1] - 1)
    with pytest.raises(Corrupt):
        world.do(world.offloading.run_due())
    assert world.copied == [False, True, True, False]
    world.do(world.offloading.run_due())
    assert world.remote == [False, True, True, False], "it is not read again with each round"
    status = world.request(world.ids[-1])
    assert status.state is OffloadState.ERROR and "not what was written" in status.last_error


def test_without_thresholds_nothing_is_offloaded_by_itself() -> None:
    world = World()
    world.do(world.offloading.run_due())
    assert not any(world.copied)


def test_objects_of_trimmed_ledgers_are_deleted_though_the_policy_has_gone() -> None:
    world = World(OffloadRules(PLACE, size_threshold=0))
    world.do(world.offloading.run_due())
    world.do(world.log.trim(6))
    world.rules = OffloadRules()
    world.do(world.offloading.run_due())
    assert len(world.stored()) == 1
    assert world.engine.copies.counts.deleted == 2


def test_what_is_old_enough_is_deleted_here_while_another_place_is_away() -> None:
    world = World(OffloadRules(PLACE, size_threshold=0, deletion_lag_ms=0))
    world.request(world.ids[1])
    world.places[OTHER].fault = lambda operation, name: Fault.LOST
    world.rules = world.rules._replace(place=OTHER)
    with pytest.raises(Unavailable):
        world.do(world.offloading.run_due())
    assert world.remote == [True, False, False, False]


def test_what_is_read_first_is_the_policy() -> None:
    world = World(OffloadRules(PLACE, size_threshold=0, files_first=False))
    world.do(world.offloading.run_due())
    assert world.read_all(world.log) == numbered(0, 10)
    assert world.engine.copies.counts.read_bytes > 0
