"""A disk that fills up, or fails at any operation: nothing confirmed is lost."""

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import pytest

from effort import seeds, some
from fakes.faulty_disk import nothing
from fakes.local_store import Machine
from fakes.small_disk import CAPACITY, SmallMachine
from magnetar_storage.errors import DiskFull, DiskLow, StorageError, Unavailable
from magnetar_storage.runtime.local_file import explained

ROUNDS = 12
ACTIONS = 60
FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


class Filling:
    """Random load on a small disk by the store and another program, and kills of the process."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.machine = SmallMachine()
        self.machine.open()
        self.full_times = self.kills = 0

    def act(self) -> None:
        """Do one random action; like the broker, refuse those that need room while it lacks."""
        machine, dice = self.machine, self.dice
        live = [n for n in machine.writers if not machine.truths[n].delete_asked]
        what = dice.randrange(20)
        try:
            if what < 12 and live:
                machine.space.check()
                entries = [dice.randbytes(dice.randrange(300)) for _ in range(3)]
                machine.append(dice.choice(live), entries, [1, 2, 3])
            elif what < 14:
                machine.space.check()
                machine.create()
            elif what < 15 and live:
                machine.seal(dice.choice(live))
            elif what < 16:
                machine.fill(dice.randrange(CAPACITY // 12))
            elif what < 17:
                machine.empty()
            elif what < 18:
                machine.do(machine.store.checkpoint())
            else:
                machine.look()
        except StorageError as error:
            assert isinstance(error, Unavailable) or "sealed" in str(error), error
        if dice.randrange(2):
            machine.pump()

    def fill_up(self) -> None:
        """Publish until that is refused, while another program takes the rest."""
        machine = self.machine
        for _ in count():
            if machine.space.refusal is not None:
                break
            self.act()
            if self.dice.randrange(10) == 0:
                machine.fill(self.dice.randrange(CAPACITY // 80))
                machine.look()
        self.full_times += 1

    def kill(self) -> None:
        """Kill the process, and start the next one while there is no free room."""
        machine = self.machine
        has_reserve = machine.holds_reserve
        if has_reserve:
            machine.fill()
        machine.crash(self.dice.randrange if self.dice.randrange(2) else nothing)
        self.kills += 1
        try:
            machine.open()
        except DiskFull:
            # The reserve is used up, and the other program has taken the room we gave back.
            assert not has_reserve
            machine.empty()
            machine.open()
        assert not [finding for finding in machine.store.findings if finding.data_lost]
        machine.look()

    def make_room(self) -> None:
        """Delete what is possible with the disk as it is; then the other program's file."""
        machine = self.machine
        for number, truth in machine.truths.items():
            if not truth.deleted and self.dice.randrange(3):
                try:
                    machine.delete(number)
                except DiskFull:
                    assert not machine.holds_reserve
                    machine.empty()
        machine.empty()
        for _ in range(3):
            machine.clock.advance(machine.limits.retry_seconds)
            machine.look()

    def check(self) -> None:
        """Check that no confirmed entry is missing, and that publishing resumes by itself."""
        machine = self.machine
        machine.check()
        assert machine.store.trouble is None
        if machine.free > CAPACITY // 3:
            assert machine.space.refusal is None
            machine.check_still_works()


@pytest.mark.parametrize("seed", seeds(200, least=10))
def test_a_disk_that_fills_again_and_again_loses_nothing(seed: int) -> None:
    filling = Filling(seed)
    for _ in range(ROUNDS):
        filling.fill_up()
        for _ in range(filling.dice.randrange(ACTIONS)):
            filling.act()
        if filling.dice.randrange(2):
            filling.kill()
        filling.make_room()
        filling.check()
        filling.machine.close()
        filling.machine.open()
        filling.check()
    assert filling.full_times == ROUNDS


def history(machine: Machine) -> Iterator[None]:
    """Perform every operation of a store on its disk, one step at a time."""
    first, second = machine.create(), machine.create()
    yield
    for turn in range(12):
        machine.append(first, [b"%d" % turn * 30], [1])
        machine.append(second, [b"a", b"b"], [1, 2])
        machine.pump()
        yield
    machine.seal(second)
    yield
    machine.do(machine.store.checkpoint())
    yield
    machine.delete(second)
    machine.append(machine.create(), [bytes(200)], [4])
    machine.pump()
    yield
    machine.do(machine.store.checkpoint())
    yield


def failing(code: int, first: int, last: int) -> Callable[[str, str], StorageError | None]:
    """Return a fault of the disk from one operation to another."""
    operations = count()

    def fault(what: str, name: str) -> StorageError | None:
        if not first <= next(operations) <= last:
            return None
        try:
            with explained(what, name):
                raise OSError(code, os.strerror(code))
        except StorageError as error:
            # If a sync fails, the outcome is unknown, whatever the reason.
            return Unavailable(str(error)) if what.startswith("sync") else error

    return fault


def operations_of_a_life() -> int:
    machine, asked = SmallMachine(), list[str]()

    def note(what: str, name: str) -> None:
        asked.append(what)

    machine.disk.fault = note
    machine.open()
    for _ in history(machine):
        pass
    machine.close()
    return len(asked)


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "from_then_on"])
@pytest.mark.parametrize("code", FAULTS, ids=errno.errorcode.__getitem__)
def test_a_disk_that_fails_at_any_operation_loses_nothing(code: int, is_lasting: bool) -> None:
    total = operations_of_a_life()
    assert total > 200
    for at in some(range(total), 23):
        machine = SmallMachine()
        machine.disk.fault = failing(code, at, total if is_lasting else at)
        errors = life_with_trouble(machine)
        for error in errors:
            text = str(error)
            assert isinstance(error, Unavailable), (at, error)
            assert isinstance(error, DiskLow) or os.strerror(code) in text or "free" in text, text
        machine.disk.fault = None
        machine.disk.crash(nothing)
        machine.open()
        assert not [finding for finding in machine.store.findings if finding.data_lost], at
        machine.check()
        machine.look()
        assert machine.space.refusal is None, at
        machine.check_still_works()


def life_with_trouble(machine: SmallMachine) -> list[StorageError]:
    """Return the errors of a start, a history and a stop."""
    errors: list[StorageError] = []
    try:
        machine.open()
    except StorageError as error:
        return [error]
    steps = history(machine)
    while True:
        try:
            next(steps)
        except StopIteration:
            break
        except StorageError as error:  # a history ends with its first error
            errors.append(error)
            break
    try:
        machine.close()
    except StorageError as error:
        errors.append(error)
    return errors
