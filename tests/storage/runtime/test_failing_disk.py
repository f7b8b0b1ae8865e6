"""A disk that refuses one operation for a while: no ack, a clear error, and recovery.

Whatever is refused, and in whichever way: confirmed data exists after a restart, and the store
either works again by itself or reports that a restart is needed.
"""

from collections.abc import Callable

import pytest

from fakes.faulty_disk import nothing
from fakes.local_store import TINY, Machine
from fakes.origins import MESSAGES
from magnetar_storage.errors import Corrupt, DiskFull, StorageError, Unavailable

Fault = Callable[[str, str], BaseException | None]


def too_many_files(what: str, name: str) -> Unavailable:
    return Unavailable(f"cannot {what} {name}: Too many open files (raise the limit)")


def no_room(what: str, name: str) -> DiskFull:
    return DiskFull(f"no room to {what} {name}: free some space")


def broken(what: str, name: str) -> Unavailable:
    return Unavailable(f"cannot {what} {name}: Input/output error")


def refusing(error: Callable[[str, str], StorageError], *whats: str, prefix: str = "") -> Fault:
    """Return a fault that refuses these operations on files with this prefix."""

    def fault(what: str, name: str) -> BaseException | None:
        file = name.partition(" ")[0]
        hit = what in whats and file.startswith(prefix)
        return error(what, name) if hit else None

    return fault


FAULTS = {
    f"{what} {prefix} {error.__name__}": refusing(error, what, prefix=prefix)
    for prefix in ("journal", "segments", "checkpoint")
    for what, error in [
        ("open", too_many_files),
        ("create", too_many_files),
        ("create", no_room),
        ("write", no_room),
        ("write", broken),
        ("sync", broken),
        ("sync_dir", broken),
        ("truncate", broken),
        ("allocate", no_room),
        ("rename", no_room),
        ("rename", broken),
        ("remove", broken),
        ("list", broken),
    ]
}


def trouble_while(machine: Machine, fault: Fault) -> list[BaseException]:
    """Load all parts of the store under the fault; return every error."""
    segment = next(iter(machine.writers))
    errors: list[BaseException] = []
    machine.disk.fault = fault
    for turn in range(20):
        machine.append(segment, [b"%d" % turn * 20], [1])
        machine.pump()
        try:
            if turn % 5 == 0:
                machine.do(machine.store.checkpoint())
            if turn % 7 == 0:
                machine.create()
        except StorageError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_is_refused_nothing_confirmed_is_lost(name: str) -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"before"], [1])
    machine.pump()
    errors = trouble_while(machine, FAULTS[name])
    refused_by_name = [
        error for error in errors if "cannot" in str(error) or "no room" in str(error)
    ]
    assert len(refused_by_name) == len(errors), errors
    machine.disk.fault = None
    machine.clock.advance(TINY.retry_seconds)
    if machine.store.trouble is None:
        machine.check_still_works()
        machine.do(machine.store.checkpoint())
    else:
        assert "restart the broker" in str(machine.store.trouble)
    machine.disk.crash(nothing)
    machine.open()
    assert not [finding for finding in machine.store.findings if finding.data_lost]
    machine.check()
    machine.check_still_works()


@pytest.mark.parametrize("error", [too_many_files, no_room, broken])
def test_a_failed_checkpoint_is_reported_once_and_retried(
    error: Callable[[str, str], StorageError],
) -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    machine.disk.fault = refusing(error, "open", "create", prefix="checkpoint-")
    with pytest.raises(type(error("", ""))):
        machine.do(machine.store.checkpoint())
    machine.clock.advance(TINY.retry_seconds * 3)
    (finding,) = machine.store.findings
    assert "cannot be written at present" in finding.text
    assert machine.store.trouble is None, "publishing continues"
    machine.append(segment, [b"more"], [1])
    machine.pump()
    assert machine.truths[segment].confirmed == 2
    machine.disk.fault = None
    machine.clock.advance(TINY.retry_seconds)
    machine.do(machine.store.checkpoint())
    machine.disk.crash(nothing)
    machine.open()
    machine.check()


@pytest.mark.parametrize("what", ["open", "create", "rename", "list"])
def test_a_journal_file_that_cannot_be_begun_confirms_nothing(what: str) -> None:
    machine = Machine()
    machine.open()
    machine.disk.fault = refusing(too_many_files, what, prefix="journal")
    with pytest.raises(Unavailable, match=r"restart the broker.*Too many open files"):
        machine.do(machine.store.create(MESSAGES))
    machine.disk.fault = None
    with pytest.raises(Unavailable, match="restart"):
        machine.do(machine.store.create(MESSAGES))
    machine.disk.locks.clear()
    machine.open()
    machine.check_still_works()


@pytest.mark.parametrize("what", ["create", "allocate", "write", "rename"])
def test_a_journal_file_without_room_is_begun_when_there_is_some(what: str) -> None:
    machine = Machine()
    machine.open()
    machine.disk.fault = refusing(no_room, what, prefix="journal")
    if what != "allocate":  # room ahead is only asked for
        with pytest.raises(DiskFull, match="free some space"):
            machine.do(machine.store.create(MESSAGES))
    machine.disk.fault = None
    machine.check_still_works()
    machine.disk.crash(nothing)
    machine.open()
    machine.check()


@pytest.mark.parametrize("error", [too_many_files, broken])
@pytest.mark.parametrize("what", ["open", "read"])
def test_a_read_that_fails_is_no_damage_and_works_later(
    what: str, error: Callable[[str, str], Unavailable]
) -> None:
    machine = Machine()
    machine.open()
    first, second = machine.create(), machine.create()
    for segment in (first, second):
        machine.append(segment, [b"one", b"two"], [1, 1])
    machine.pump()
    machine.do(machine.store.checkpoint())
    reader = machine.do(machine.store.reader(first))
    name = f"segments/{first:016x}"
    machine.disk.fault = refusing(error, what, prefix=name)
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot"):
            machine.do(reader.read(0, 10, 100))
    assert machine.read_all(second) == [(b"one", 1), (b"two", 1)]
    assert machine.store.trouble is None
    assert not machine.disk.open_files - {machine.store._files._file}
    machine.disk.fault = None
    assert machine.read_all(first) == [(b"one", 1), (b"two", 1)]


@pytest.mark.parametrize("error", [too_many_files, broken])
@pytest.mark.parametrize("what", ["open", "read", "look at", "list", "write", "sync"])
def test_a_failed_start_gives_the_reason_and_succeeds_later(
    what: str, error: Callable[[str, str], Unavailable]
) -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    machine.disk.crash(nothing)
    machine.disk.fault = refusing(error, what)
    with pytest.raises(Unavailable, match="cannot") as refused:
        machine.open()
    assert not isinstance(refused.value, Corrupt)
    assert machine.disk.locks == set()
    assert machine.disk.open_files == set()
    machine.disk.fault = None
    machine.open()
    assert machine.store.findings == []
    machine.check()


@pytest.mark.parametrize("error", [too_many_files, broken])
def test_a_sealed_segment_whose_index_cannot_be_read_is_read_later(
    error: Callable[[str, str], Unavailable],
) -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [3])
    machine.seal(segment)
    machine.close()
    machine.open()
    machine.disk.fault = refusing(error, "open", "read", prefix="segments/")
    with pytest.raises(Unavailable, match="cannot"):
        machine.do(machine.store.reader(segment))
    with pytest.raises(Unavailable, match="cannot"):
        machine.do(machine.store.recover(segment))
    machine.disk.fault = None
    machine.check()


def test_a_deletion_that_finds_no_room_leaves_the_segment() -> None:
    """The file stays as well: no record in the journal allows its deletion."""
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    machine.seal(segment)
    machine.do(machine.store.checkpoint())
    files = machine.disk.list("segments")
    machine.disk.fault = refusing(no_room, "write", "allocate", "create", prefix="journal")
    with pytest.raises(DiskFull):
        machine.do(machine.store.delete(segment))
    machine.disk.fault = None
    assert machine.disk.list("segments") == files
    assert not machine.truths[segment].delete_asked
    machine.check()
