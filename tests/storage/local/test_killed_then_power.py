"""A process is killed, and the power is lost while the next one recovers what it read."""

import pytest

from effort import seeds
from fakes.faulty_disk import Crash, FaultyDisk, Survives, nothing, seeded
from fakes.local_store import Machine, Truth
from magnetar_storage.errors import Unavailable
from magnetar_storage.verify.verify import verify

ENTRIES = [b"one", b"two", b"three"]


def fail_to_sync(disk: FaultyDisk, name: str) -> None:
    """No later sync makes durable what the file has."""
    disk.failing_syncs = 1
    with pytest.raises(Unavailable):
        disk.open(name).sync()


def killed_while_deleting(sync_fails: bool) -> Machine:
    """The deletion of a segment is in the journal, and not yet durable."""
    machine = Machine()
    machine.open()
    number = machine.create()
    machine.append(number, ENTRIES, [1] * len(ENTRIES))
    machine.pump()
    machine.do(machine.store.checkpoint())
    killed: list[FaultyDisk] = []

    def before(what: str, name: str) -> None:
        if what == "sync" and name.startswith("journal/"):
            killed.append(machine.disk.fork())
            if sync_fails:
                fail_to_sync(killed[-1], name)

    machine.disk.before = before
    machine.delete(number)
    twin = Machine(killed[0])
    written = [(entry, 1) for entry in ENTRIES]
    twin.truths[number] = Truth(written, len(written), delete_asked=True)
    return twin


@pytest.mark.parametrize("sync_fails", [False, True])
@pytest.mark.parametrize("survives", [nothing, *(seeded(seed) for seed in seeds(4))])
def test_no_segment_goes_before_its_deletion_is_durable(
    survives: Survives, sync_fails: bool
) -> None:
    point = 0
    while True:
        machine = killed_while_deleting(sync_fails)
        machine.disk.crash_at = machine.disk.operations + point
        try:
            machine.open()
        except Crash:
            machine.disk.crash(survives)
        else:
            break
        assert not verify(machine.disk, None).damaged, f"at {point}"
        machine.open()
        machine.check()
        point += 1
    assert point > 5
