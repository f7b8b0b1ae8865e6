"""The time at which records are written from memory to segment files."""

from dataclasses import replace

import pytest

from fakes.faulty_disk import FaultyDisk, nothing
from fakes.local_store import TINY, Machine
from fakes.origins import MESSAGES
from fakes.world import ManualClock, QueuedWorkers, run, start
from magnetar_storage.errors import Unavailable
from magnetar_storage.local.footer import TRAILER_MAGIC
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.local.store import LocalStore

SMALL = b"x" * 50
LIMITS = replace(TINY, write_behind_bytes=1000, small_flush_bytes=400, checkpoint_bytes=1 << 20)
SEGMENTS = 10


def waiting(machine: Machine) -> int:
    return sum(one.unwritten_bytes for one in machine.store._segments.values())


def opened(segments: int, limits: Limits = LIMITS) -> tuple[Machine, list[int]]:
    machine = Machine(limits=limits)
    machine.open()
    return machine, [machine.create() for _ in range(segments)]


def most_waiting(machine: Machine, numbers: list[int], payload: bytes) -> int:
    """Append to the segments in turn; return how much was waiting when the first was written."""
    most = 0
    while waiting(machine) >= most:
        most = waiting(machine)
        machine.append(numbers[0], [payload], [1])
        machine.pump()
        numbers.append(numbers.pop(0))
    return most


def test_a_segment_with_much_to_write_is_written_at_the_limit() -> None:
    machine, numbers = opened(1)
    assert 900 < most_waiting(machine, numbers, SMALL) <= 1000


def test_many_segments_with_little_to_write_wait_for_twice_as_much() -> None:
    machine, numbers = opened(SEGMENTS)
    assert 1900 < most_waiting(machine, numbers, SMALL) <= 2000
    assert waiting(machine) <= 600  # half of the limit, and the last record


def test_what_waits_for_more_is_counted_once_a_flush() -> None:
    machine, numbers = opened(SEGMENTS)
    for _ in range(3):
        assert 1900 < most_waiting(machine, numbers, SMALL) <= 2000
    machine.do(machine.store.checkpoint())
    machine.check()


def test_they_do_not_wait_until_the_journal_has_to_pause() -> None:
    machine, numbers = opened(SEGMENTS, replace(LIMITS, unwritten_bytes=2500))
    assert 1150 < most_waiting(machine, numbers, SMALL) <= 1250


def test_one_round_that_exceeds_every_limit_is_written() -> None:
    limits = replace(LIMITS, unwritten_bytes=1100, round_bytes=1 << 16)
    machine, numbers = opened(SEGMENTS, limits)
    for number in numbers * 3:
        machine.append(number, [SMALL], [1])
    machine.pump()
    assert waiting(machine) < 1100
    machine.check()


# Finishing segments for another process to read ----------------------------------------


def names(machine: Machine) -> list[str]:
    return [name for name in machine.disk.names() if name.startswith("checkpoint")]


def test_a_segment_is_finished_without_a_checkpoint() -> None:
    machine, numbers = opened(3)
    for number in numbers:
        machine.append(number, [SMALL], [1])
    machine.pump()
    before = names(machine)
    machine.do(machine.store.finish(numbers[1]))
    assert machine.disk.content(file_name(numbers[1]))[-60:-52] == TRAILER_MAGIC
    assert names(machine) == before
    assert not {file_name(numbers[0]), file_name(numbers[2])} & set(machine.disk.names())
    operations = machine.disk.operations
    machine.do(machine.store.finish(numbers[1]))
    assert machine.disk.operations == operations, "it was finished already"
    machine.truths[numbers[1]].sealed = True
    machine.disk.crash(nothing)
    machine.open()
    machine.check()


def test_segments_that_are_finished_side_by_side_are_written_once() -> None:
    machine, numbers = opened(3)
    for number in numbers:
        machine.append(number, [SMALL], [1])
    machine.pump()
    pending = [start(machine.store.finish(number)) for number in (*numbers, *numbers)]
    machine.pump()
    assert all(one.result() is None for one in pending)
    assert [machine.disk.log.count(f"sync {file_name(number)}") for number in numbers] == [1, 1, 1]


def test_much_to_write_does_not_wait_until_all_are_finished() -> None:
    machine, (busy, *numbers) = opened(6)
    for number in numbers:
        machine.append(number, [SMALL], [1])
    machine.append(busy, [SMALL * 20], [1])
    finishing = [start(machine.store.finish(number)) for number in numbers]
    machine.pump()
    assert all(one.result() is None for one in finishing)
    order = [
        what.removeprefix("sync ") for what in machine.disk.log if what.startswith("sync segments/")
    ]
    assert order.index(file_name(busy)) < order.index(file_name(numbers[-1]))


def test_what_is_to_be_finished_does_not_wait_until_less_arrives() -> None:
    clock = ManualClock()
    workers = QueuedWorkers(clock)
    disk = FaultyDisk()
    store = run(LocalStore.open(disk, workers, clock, LIMITS), clock, workers.step)
    busy, wanted = (run(store.create(MESSAGES), clock, workers.step) for _ in range(2))

    def journal() -> None:
        busy.append([SMALL * 40], [1], lambda error: None)
        clock.pump()
        while workers.journal.step():
            clock.pump()

    journal()
    finishing = start(store.finish(wanted.segment))
    for _ in range(10):  # whenever a flush ends, another one is due
        journal()
        workers.background.step()
        clock.pump()
    assert finishing.done()
    assert disk.log.count(f"sync {file_name(busy.segment)}") > 5


def test_a_segment_that_cannot_be_finished_is_tried_again() -> None:
    machine, (number,) = opened(1)
    machine.append(number, [SMALL], [1])
    machine.pump()
    machine.disk.fault = lambda what, name: Unavailable(what) if name == file_name(number) else None
    with pytest.raises(Unavailable):
        machine.do(machine.store.finish(number))
    machine.disk.fault = None
    machine.do(machine.store.finish(number))
    assert machine.disk.content(file_name(number))[-60:-52] == TRAILER_MAGIC


def test_a_segment_that_is_deleted_while_it_is_finished_leaves_no_file() -> None:
    machine, (number,) = opened(1)
    machine.append(number, [SMALL], [1])
    machine.pump()
    finishing, deleting = start(machine.store.finish(number)), start(machine.store.delete(number))
    machine.pump()
    assert deleting.done() and finishing.done()
    machine.close()
    assert file_name(number) not in machine.disk.names()
