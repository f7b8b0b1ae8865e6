"""Reading offloaded ledgers takes few requests, whatever their size."""

import pytest

from fakes.faulty_objects import Fault
from fakes.tiered import TieredWorld
from magnetar_storage.errors import Unavailable
from magnetar_storage.log.log import Log
from magnetar_storage.tiered.read_ahead import END_BYTES, WHOLE_BYTES

LEDGERS, ENTRIES = 4, 3


def moved(world: TieredWorld, entry_bytes: int) -> Log:
    """Return a log of ledgers in a store of objects, none of which is open."""
    log = world.open()
    world.append(log, *(bytes([at]) * entry_bytes for at in range(LEDGERS * ENTRIES)))
    world.append(log, b"of the open ledger")
    world.move(log)
    world.objects.log.clear()
    return log


@pytest.mark.parametrize(
    ("entry_bytes", "requests"),
    [
        (10, 1),
        (WHOLE_BYTES // ENTRIES - 1000, 1),
        (WHOLE_BYTES // ENTRIES, 1 + 2),
        (2 * WHOLE_BYTES, 1 + ENTRIES),
    ],
)
def test_a_ledger_is_read_in_order_with_few_requests(entry_bytes: int, requests: int) -> None:
    world = TieredWorld()
    log = moved(world, entry_bytes)
    assert [payload[:1] for payload in world.read_all(log)[:-1]] == [
        bytes([at]) for at in range(LEDGERS * ENTRIES)
    ]
    assert len(world.objects.log) <= requests * LEDGERS
    assert all(one.startswith("read ") for one in world.objects.log), "the size is known"


def test_a_position_in_a_ledger_is_found_with_one_request() -> None:
    world = TieredWorld()
    log = moved(world, WHOLE_BYTES)
    assert world.do(log.entries.messages_before(4)) == 4
    (asked,) = world.objects.log
    assert asked.startswith("read ")
    assert world.engine.copies.counts.read_bytes == END_BYTES


def test_an_end_that_was_cut_off_is_read_again() -> None:
    world = TieredWorld()
    log = moved(world, 10)
    faults = [Fault.CUT]
    world.objects.fault = lambda operation, name: faults.pop() if faults else None
    assert len(world.read_all(log)) == LEDGERS * ENTRIES + 1
    assert not faults and len(world.objects.log) <= LEDGERS + 3


def test_a_ledger_that_cannot_be_opened_is_opened_later() -> None:
    world = TieredWorld()
    log = moved(world, 10)
    world.objects.fault = lambda operation, name: Fault.LOST
    with pytest.raises(Unavailable):
        world.read_all(log)
    assert world.engine.copies.counts.read_errors == len(world.objects.log) == 1
    world.mend()
    assert len(world.read_all(log)) == LEDGERS * ENTRIES + 1
