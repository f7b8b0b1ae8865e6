"""A store that is opened while the disk is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.local_store import TINY, Machine
from magnetar_storage.errors import DiskFull
from magnetar_storage.world.disk import LocalDisk


def killed() -> Machine:
    """A store with entries that only the journal has, on a disk with spare journal files."""
    machine = Machine(limits=TINY)
    machine.open()
    segment = machine.create()
    for number in range(100):
        machine.append(segment, [b"entry %d" % number], [1])
        machine.pump()
    machine.disk = machine.disk.copy()
    assert spares(machine)
    return machine


def spares(machine: Machine) -> list[str]:
    return [name for name in machine.disk.names() if name.endswith(".spare")]


def test_spare_files_make_the_room_that_recovery_needs() -> None:
    machine = killed()
    before = set(spares(machine))

    def full(what: str, name: str) -> DiskFull | None:
        return DiskFull(name) if what == "write" and before & set(spares(machine)) else None

    machine.disk.fault = full
    machine.open()
    assert not before & set(spares(machine))
    machine.check()
    machine.check_still_works()


def test_without_spare_files_a_full_disk_is_reported() -> None:
    machine = killed()
    machine.disk.fault = lambda what, name: DiskFull(name) if what == "write" else None
    with pytest.raises(DiskFull):
        machine.open()
    assert machine.disk.locks == set()
    machine.disk.fault = None
    machine.open()
    machine.check()


@contextmanager
def no_file_may_grow() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_lock_that_finds_no_room_is_not_held(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    with no_file_may_grow(), pytest.raises(DiskFull):
        disk.lock("LOCK")
    disk.lock("LOCK").close()
