"""A captured checkpoint holds what was durable when it was decided, and needs no journal."""

from dataclasses import replace

import pytest

from fakes.local_store import TINY, Machine
from fakes.world import start
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.local.write_behind import IDS_LEFT_OUT
from magnetar_storage.runtime.execution import Promise
from magnetar_storage.runtime.whole_files import read_file

LIMITS = replace(TINY, write_behind_bytes=1 << 20, checkpoint_bytes=1 << 20)


def opened() -> Machine:
    machine = Machine(limits=LIMITS)
    machine.open()
    return machine


def test_it_counts_every_durable_entry_and_begins_a_new_journal_file() -> None:
    machine = opened()
    number = machine.create()
    machine.append(number, [b"one", b"two"], [1, 1])
    machine.pump()
    taken: list[Checkpoint] = []
    begun, done = machine.store.capture(taken.append)
    machine.pump()
    assert begun.done() and done.done()
    (found,) = taken
    assert found.rows[number].entries == 2
    assert found.rows[number].length == len(read_file(machine.disk, file_name(number)))
    assert found.position.offset == 0
    assert found.next_segment > number + IDS_LEFT_OUT
    machine.check()


SEGMENTS = 5
ONE_EACH_TURN = replace(LIMITS, slice_segments=1)


def in_memory_and_finished() -> tuple[Machine, list[int], int]:
    """A store whose segments are described one each turn, and a segment with a footer."""
    machine = Machine(limits=ONE_EACH_TURN)
    machine.open()
    finished = machine.create()
    machine.append(finished, [b"x"], [1])
    machine.seal(finished)
    machine.do(machine.store.checkpoint())
    numbers = [machine.create() for _ in range(SEGMENTS)]
    for number in numbers:
        machine.append(number, [b"x"], [1])
    machine.pump()
    return machine, numbers, finished


def files_of(machine: Machine) -> set[str]:
    return {f"segments/{name}" for name in machine.disk.list("segments")}


@pytest.mark.parametrize("turns", range(SEGMENTS + 3))
def test_what_is_deleted_once_it_is_decided_is_in_it_with_its_file(turns: int) -> None:
    machine, numbers, finished = in_memory_and_finished()
    taken: list[tuple[Checkpoint, set[str]]] = []
    begun, _ = machine.store.capture(lambda made: taken.append((made, files_of(machine))))
    while not begun.done():
        assert machine.clock.step()
    for _ in range(turns):
        machine.clock.step()
    for number in (*numbers, finished):
        machine.delete(number)
    machine.pump()
    ((found, files),) = taken
    assert set(found.rows) == set(numbers)
    assert {file_name(number) for number in (*numbers, finished)} <= files


@pytest.mark.parametrize("turns", range(1, SEGMENTS))
def test_a_segment_that_is_deleted_while_others_are_described_is_not_in_it(turns: int) -> None:
    machine, numbers, _ = in_memory_and_finished()
    taken: list[tuple[Checkpoint, set[str]]] = []
    begun, _ = machine.store.capture(lambda made: taken.append((made, files_of(machine))))
    for _ in range(turns):
        machine.clock.step()
    assert not begun.done()
    deleted, *kept = numbers
    machine.store._deleted(deleted)
    machine.pump()
    ((found, files),) = taken
    assert set(found.rows) == set(kept)
    assert file_name(deleted) not in files


async def _outcome(done: Promise) -> None:
    await done


def test_what_fails_for_the_one_who_takes_fails_nothing_else() -> None:
    machine = opened()
    number = machine.create()
    machine.append(number, [b"x"], [1])
    machine.pump()

    def fail(checkpoint: Checkpoint) -> None:
        raise OSError("no room")

    _, done = machine.store.capture(fail)
    also = start(machine.store.checkpoint())
    machine.pump()
    with pytest.raises(OSError, match="no room"):
        machine.do(_outcome(done))
    assert also.result() is None
    machine.check()
