"""Deleting slots: fences stay."""

import pytest

from fakes.faulty_objects import Fault
from fakes.world import InlineWorker, run
from magnetar_storage.errors import Unavailable
from magnetar_storage.wal.discarding import discard
from storage.wal.test_fence import SESSION, World


def discarded(world: World, first: int, stop: int) -> int:
    workers = [InlineWorker(world.clock)] * 3
    return run(discard(world.objects, workers, world.clock, SESSION, first, stop, 0), world.clock)


def test_slots_are_deleted_and_gaps_ignored() -> None:
    world = World(0, 1, 2, 5)
    assert discarded(world, 1, 5) == 2
    assert world.objects.names() == [SESSION.name(0), SESSION.name(5)]


def test_fences_stay() -> None:
    world = World(0, 1, 4, 5)
    assert world.end() == 2
    fences = world.fences()
    assert discarded(world, 2, 10) == 2
    assert world.fences() == fences
    assert discarded(world, 0, 10) == 2
    assert world.fences() == fences
    assert len(world.objects.names()) == len(fences)


def test_a_store_that_is_away_is_reported() -> None:
    world = World(0)
    world.objects.fault = lambda operation, name: Fault.BUSY if operation == "delete" else None
    with pytest.raises(Unavailable):
        discarded(world, 0, 1)
