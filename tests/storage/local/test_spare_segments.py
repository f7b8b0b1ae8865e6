"""Segments that are created in advance while many are created."""

import pytest

from effort import parts, some
from fakes.faulty_disk import Crash, seeded
from fakes.local_store import Machine
from fakes.origins import MESSAGES
from fakes.world import ManualClock, QueuedWorkers, run, start
from magnetar_storage.errors import DiskFull
from magnetar_storage.local import spare_segments
from magnetar_storage.local.limits import DEFAULT
from magnetar_storage.local.store import LocalStore


def opened() -> Machine:
    machine = Machine()
    machine.open()
    return machine


def begin_many(machine: Machine, count: int = 40) -> list[int]:
    return [machine.create() for _ in range(count)]


def present(machine: Machine) -> list[int]:
    async def listed() -> list[int]:
        return [segment async for segment in machine.store.segments()]

    return machine.do(listed())


def let_a_minute_pass(machine: Machine) -> None:
    machine.clock.advance(60)


def writes_of_next(machine: Machine) -> int:
    before = machine.disk.operations
    machine.create()
    return machine.disk.operations - before


def test_of_few_none_is_created_ahead() -> None:
    machine = opened()
    for _ in range(3):
        ids = begin_many(machine, spare_segments.TAKEN_FOR_EACH - 1)
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        assert writes_of_next(machine) > 0
        let_a_minute_pass(machine)


def test_of_many_most_are_there_before_they_are_asked_for() -> None:
    machine = opened()
    begin_many(machine)
    assert [writes_of_next(machine) for _ in range(20)].count(0) > 10
    ids = list(machine.truths)
    assert ids == sorted(ids)
    assert present(machine) == ids
    machine.clock.advance(spare_segments.SECONDS)
    assert writes_of_next(machine) == 0, "they stay while more are asked for"


def test_they_are_deleted_when_none_is_asked_for() -> None:
    machine = opened()
    ids = begin_many(machine)
    let_a_minute_pass(machine)
    assert writes_of_next(machine) > 0
    # As after a kill: segments created and not deleted exist after a start.
    machine.disk.locks.clear()
    machine.open()
    assert present(machine) == list(machine.truths)
    assert set(ids) < set(machine.truths)


def test_a_stop_leaves_none() -> None:
    machine = opened()
    begin_many(machine)
    machine.close()
    machine.open()
    assert present(machine) == list(machine.truths)
    machine.check_still_works()


def opened_with_waiting_workers() -> tuple[LocalStore, ManualClock, QueuedWorkers]:
    machine = Machine()
    workers = QueuedWorkers(machine.clock)
    opening = LocalStore.open(machine.disk, workers, machine.clock, machine.limits)
    return run(opening, machine.clock, workers.step), machine.clock, workers


def kept(store: LocalStore) -> int:
    return len(store._spares.ids)


@pytest.mark.parametrize("at_once", [1, 2, 3, 17])
def test_no_more_are_kept_than_the_limit(at_once: int) -> None:
    store, clock, workers = opened_with_waiting_workers()
    most = 0
    for _ in range(100):
        asked = [start(store.create(MESSAGES)) for _ in range(at_once)]
        while workers.step() or clock.step():
            most = max(most, kept(store))
        assert all(one.done() for one in asked)
    assert 0 < most <= DEFAULT.spare_segments


def test_those_that_are_made_late_are_deleted_too() -> None:
    store, clock, workers = opened_with_waiting_workers()
    asked = [start(store.create(MESSAGES)) for _ in range(40)]
    clock.advance(60)
    while workers.step() or clock.step():
        pass
    assert all(one.done() for one in asked)
    assert kept(store) > 0
    clock.advance(60)
    assert kept(store) == 0


def test_those_who_ask_at_once_get_theirs_in_order() -> None:
    store, clock, workers = opened_with_waiting_workers()
    asked = [start(store.create(MESSAGES)) for _ in range(100)]
    while not all(one.done() for one in asked):
        clock.pump()
        workers.step()
    ids = [one.result().segment for one in asked]
    assert ids == list(range(ids[0], ids[0] + 100))


def test_a_full_disk_shows_though_some_are_there() -> None:
    machine = opened()
    segment = begin_many(machine)[-1]
    machine.disk.room = 0
    machine.append(segment, [b"x" * 600], [1])
    machine.pump()
    with pytest.raises(DiskFull):
        machine.do(machine.store.create(MESSAGES))
    machine.disk.room = 1 << 30
    begin_many(machine)
    ids = list(machine.truths)
    assert ids == sorted(ids), "ids ascend"
    machine.check_still_works()


def history(machine: Machine) -> None:
    machine.open()
    for number, segment in enumerate(begin_many(machine, 30)):
        machine.append(segment, [b"%d" % number], [1])
    machine.pump()
    let_a_minute_pass(machine)
    machine.append(machine.create(), [b"alone"], [1])
    machine.pump()
    begin_many(machine, 20)
    machine.close()


def operations_of_history() -> int:
    machine = Machine()
    history(machine)
    return machine.disk.operations


@pytest.mark.parametrize("part", parts(4))
def test_no_crash_takes_one_that_was_given_out(part: int) -> None:
    for operation in some(range(part, operations_of_history(), 4)):
        machine = Machine()
        machine.disk.crash_at = operation
        with pytest.raises(Crash):
            history(machine)
        machine.disk.crash(seeded(operation))
        machine.open()
        assert not [found for found in machine.store.findings if found.data_lost]
        machine.check()
        machine.check_still_works()
        machine.close()
        machine.open()
        machine.check()
