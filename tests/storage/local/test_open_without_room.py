"""A store that is opened while the disk is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.faulty_disk import Crash, nothing
from fakes.local_store import TINY, Machine
from magnetar_storage.errors import DiskFull
from magnetar_storage.local.segment_file import file_name as segment_file
from magnetar_storage.runtime.disk import LocalDisk
from magnetar_storage.space.reserve import STORE_FILE, Reserve


def killed() -> Machine:
    """Create a store with entries in the journal only, on a disk with spare journal files."""
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

    def refused(what: str, name: str) -> DiskFull | None:
        return DiskFull(name) if what == "write" and before & set(spares(machine)) else None

    machine.disk.fault = refused
    machine.open()
    assert not before & set(spares(machine))
    machine.check()
    machine.check_still_works()


IN_JOURNAL = replace(
    TINY, write_behind_bytes=1 << 20, unwritten_bytes=1 << 20, checkpoint_bytes=1 << 20
)
"""Limits with which nothing is written to segments before a start."""


def full(machine: Machine, left: int) -> None:
    """Cut the power, and leave only `left` bytes free for the next start."""
    machine.disk = machine.disk.copy()
    machine.disk.capacity = 1 << 30
    used = machine.disk.capacity - machine.disk.space().free
    machine.disk.capacity = used + left


def long_journal() -> Machine:
    """Create a store with entries in many journal files, and in no other files."""
    machine = Machine(limits=IN_JOURNAL)
    machine.open()
    segments = [machine.create() for _ in range(3)]
    for number in range(60):
        machine.append(segments[number % 3], [b"entry %d" % number * 10], [1])
        machine.pump()
    assert len(machine.disk.list("journal")) > 10
    return machine


def test_the_journal_is_applied_file_by_file_if_there_is_no_room_for_all_of_it() -> None:
    machine = long_journal()
    full(machine, left=TINY.journal_file_bytes + 200)
    machine.open()
    machine.check()
    assert not machine.store.findings
    assert machine.store.replayed_bytes > 10 * TINY.journal_file_bytes
    machine.disk.capacity = None
    machine.check_still_works()


def test_a_start_that_is_killed_while_it_has_little_room_goes_on_where_it_was() -> None:
    machine = long_journal()
    full(machine, left=TINY.journal_file_bytes + 200)
    for operations in range(1, 1000, 7):
        machine.disk.crash_at = machine.disk.operations + operations
        try:
            machine.open()
        except Crash:
            machine.disk.crash(nothing)
        else:
            break
    assert operations > 50
    machine.disk.crash_at = None
    machine.check()
    assert not machine.store.findings


def test_a_deletion_at_the_end_of_a_journal_that_is_applied_by_files_counts_from_the_start() -> (
    None
):
    machine = long_journal()
    doomed, *others = machine.truths
    machine.seal(doomed)
    machine.do(machine.store.checkpoint())
    for number in range(30):
        machine.append(others[number % 2], [b"later %d" % number * 10], [1])
        machine.pump()
    machine.delete(doomed)
    machine.pump()
    assert segment_file(doomed) not in machine.disk.names()
    full(machine, left=TINY.journal_file_bytes + 200)
    machine.open()
    machine.check()


def test_the_unused_end_of_the_journal_makes_room() -> None:
    limits = replace(IN_JOURNAL, journal_file_bytes=4096)
    machine = Machine(limits=limits)
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    full(machine, left=0)
    machine.open()
    machine.check()
    assert not machine.store.findings


def test_the_reserve_makes_the_room_that_recovery_needs() -> None:
    machine = long_journal()
    machine.disk.capacity = None
    assert Reserve(machine.disk, STORE_FILE).take(TINY.journal_file_bytes + 200)
    full(machine, left=0)
    machine.open()
    machine.check()
    assert STORE_FILE not in machine.disk.names()


def test_a_torn_round_is_dropped_without_a_copy_if_there_is_no_room_for_that() -> None:
    machine = long_journal()
    last = max(name for name in machine.disk.names() if name.endswith(".wal"))
    data = machine.disk.content(last)
    used = len(data.rstrip(b"\0"))
    machine.disk.replace_content(last, data[: used - 20] + bytes(len(data) - used + 20))
    full(machine, left=TINY.journal_file_bytes + 200)
    machine.disk.fault = lambda what, name: (
        DiskFull(name) if what == "write" and ".torn" in name else None
    )
    machine.open()
    (finding,) = {finding.text for finding in machine.store.findings}
    assert "no room for a copy" in finding
    assert not [name for name in machine.disk.names() if ".torn" in name]


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
