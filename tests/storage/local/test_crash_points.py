"""A short history, crashed at every single operation of the disk."""

import contextlib

import pytest

from effort import parts, seeds, some
from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.local_store import Machine
from magnetar_storage.errors import StorageError


def history(machine: Machine) -> None:
    """Creates, appends of all sizes, seals, deletes, rotates, checkpoints and closes."""
    machine.open()
    first, second = machine.create(), machine.create()
    for turn in range(6):
        machine.append(first, [b"%d" % turn], [1])
        machine.append(second, [b"x" * turn, b"", b"y" * 50], [1, 3, 2])
        machine.pump()
    machine.seal(first)
    third = machine.create()
    machine.append(third, [b"z" * 90] * 12, [1] * 12)
    machine.append(second, [b"more"], [7])
    machine.pump()
    machine.do(machine.store.checkpoint())
    machine.delete(first)
    machine.append(third, [b"tail"], [1])
    machine.append(third, [b"tail 2"], [1])
    machine.pump()
    machine.append(second, [b"unread"], [1])
    machine.close()
    machine.open()
    machine.do(machine.store.recover(second))
    machine.truths[second].sealed = True
    machine.delete(third)
    last = machine.create()
    machine.append(last, [b"last"], [1])
    machine.pump()
    machine.close()


def operations_of_history() -> int:
    machine = Machine()
    history(machine)
    return machine.disk.operations


def crashed_at(operation: int) -> Machine:
    machine = Machine()
    machine.disk.crash_at = operation
    with pytest.raises(Crash):
        history(machine)
    return machine


def reopen(machine: Machine) -> None:
    machine.open()
    assert not [found for found in machine.store.findings if found.data_lost]


SURVIVALS = [nothing, lambda ways: ways - 1, *(seeded(seed) for seed in seeds(6))]


def test_the_history_itself_loses_nothing() -> None:
    machine = Machine()
    history(machine)
    machine.open()
    machine.check()
    assert machine.disk.operations > 100


@pytest.mark.parametrize("part", parts(8))
def test_no_crash_loses_or_invents_entries(part: int) -> None:
    for operation in some(range(part, operations_of_history(), 8)):
        for number in range(len(SURVIVALS)):
            machine = crashed_at(operation)
            machine.disk.crash(SURVIVALS[number])
            reopen(machine)
            machine.check()
            machine.check_still_works()
            machine.close()
            reopen(machine)
            machine.check()


@pytest.mark.parametrize("part", parts(4))
def test_a_crash_during_recovery_is_recovered_from(part: int) -> None:
    for operation in some(range(part, operations_of_history(), 12)):
        again = 0
        while crash_while_reopening(operation, again):
            again += 1


def crash_while_reopening(operation: int, again: int) -> bool:
    """False once the reopening has fewer operations than that."""
    machine = crashed_at(operation)
    machine.disk.crash(seeded(operation))
    machine.disk.crash_at = machine.disk.operations + again
    try:
        machine.open()
    except Crash:
        machine.disk.crash(seeded(again))
        reopen(machine)
        machine.check()
        return True
    machine.disk.crash_at = None
    machine.check()
    return False


@pytest.mark.parametrize("part", parts(4))
def test_a_failed_sync_never_acknowledges(part: int) -> None:
    for operation in range(part, operations_of_history(), 4):
        disk = FaultyDisk()
        machine = Machine(disk)
        fail_sync_from(disk, operation)
        with contextlib.suppress(StorageError):
            history(machine)
        disk.failing_syncs = 0
        disk.crash(seeded(operation))
        reopen(machine)
        machine.check()
        machine.check_still_works()


def fail_sync_from(disk: FaultyDisk, operation: int) -> None:
    """Every sync fails once so many operations were done."""
    count = disk.operation

    def counted(what: str, name: str) -> None:
        if disk.operations == operation:
            disk.failing_syncs = 1 << 30
        count(what, name)

    disk.operation = counted  # type: ignore[method-assign]
