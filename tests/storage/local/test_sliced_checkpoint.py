"""A checkpoint is gathered in several turns of the loop; what happens meanwhile is behind it."""

from dataclasses import replace

import pytest

from effort import parts, some
from fakes.faulty_disk import Crash, nothing, seeded
from fakes.local_store import TINY, Machine
from fakes.world import start

SLICED = replace(TINY, slice_segments=1, write_behind_bytes=1 << 20, checkpoint_bytes=1 << 20)
SEGMENTS = 6
TURNS = range(SEGMENTS + 6)
"""From before the first slice to after the checkpoint has been accounted for."""


def history(machine: Machine, turns: int) -> None:
    """Begin a checkpoint; after some turns append, seal, delete and create; let all of it end."""
    machine.open()
    early = [machine.create() for _ in range(2)]
    machine.append(early[0], [b"of the process before"], [1])
    machine.pump()
    machine.close()
    machine.open()
    numbers = [machine.create() for _ in range(SEGMENTS)]
    for number in numbers:
        machine.append(number, [b"before %d" % number], [2])
    machine.pump()
    writing = start(machine.store.checkpoint())
    for _ in range(turns):
        machine.clock.step()
    for number in numbers:
        machine.append(number, [b"meanwhile"], [3])
    deletions = [start(machine.store.delete(number)) for number in numbers[::3]]
    for number in numbers[::3]:
        machine.truths[number].delete_asked = True
    seals = [start(machine.writers[number].seal()) for number in numbers[1::3]]
    recovered = [start(machine.store.recover(number)) for number in early]
    loaded = start(machine.store.reader(early[0]))
    made = machine.create()
    machine.append(made, [b"new"], [1])
    machine.pump()
    for outcome in (writing, loaded, *deletions, *seals, *recovered):
        outcome.result()
    for number in numbers[::3]:
        machine.truths[number].deleted = True
    for number in (*early, *numbers[1::3]):
        machine.truths[number].sealed = True


def accounted(machine: Machine) -> bool:
    """Whether the store knows how many bytes wait to be written to segment files."""
    store = machine.store
    return store._write_behind._waiting_bytes == sum(
        one.unwritten_bytes for one in store._segments.values()
    )


@pytest.mark.parametrize("turns", TURNS)
def test_what_happens_while_a_checkpoint_is_gathered_is_kept(turns: int) -> None:
    machine = Machine(limits=SLICED)
    history(machine, turns)
    assert accounted(machine)
    machine.disk.crash(nothing)
    machine.open()
    machine.check()


@pytest.mark.parametrize("turns", TURNS)
def test_the_next_checkpoint_has_the_rest(turns: int) -> None:
    machine = Machine(limits=SLICED)
    history(machine, turns)
    machine.do(machine.store.checkpoint())
    assert accounted(machine)
    assert not any(one.unwritten_bytes for one in machine.store._segments.values())
    machine.disk.crash(nothing)
    machine.open()
    machine.check()
    machine.check_still_works()


@pytest.mark.parametrize("part", parts(len(TURNS)))
def test_a_crash_at_any_operation_loses_nothing(part: int) -> None:
    whole = Machine(limits=SLICED)
    history(whole, part)
    for operation in some(range(whole.disk.operations)):
        for survival in (nothing, seeded(operation)):
            machine = Machine(limits=SLICED)
            machine.disk.crash_at = operation
            with pytest.raises(Crash):
                history(machine, part)
            machine.disk.crash(survival)
            machine.open()
            assert not [found for found in machine.store.findings if found.data_lost]
            machine.check()


def test_others_have_their_turns_while_a_checkpoint_is_gathered() -> None:
    machine = Machine(limits=SLICED)
    machine.open()
    for _ in range(SEGMENTS):
        machine.append(machine.create(), [b"entry"], [1])
    machine.pump()
    writing = start(machine.store.checkpoint())
    turns: list[bool] = []

    def turn() -> None:
        turns.append(writing.done())
        if not writing.done():
            machine.clock.soon(turn)

    machine.clock.soon(turn)
    machine.pump()
    assert turns.count(False) >= SEGMENTS
