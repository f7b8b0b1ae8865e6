"""When records are written from memory to segment files."""

from dataclasses import replace

from fakes.local_store import TINY, Machine
from magnetar_storage.local.limits import Limits

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
    """Append to the segments in turn; how much waited when the first of it was written."""
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
