"""Segment ids of workers that take topics over from each other."""

import pytest

from fakes.links import Joined
from fakes.world import ManualClock, start
from magnetar_broker.server.data_directory.last_ids import LastIds
from magnetar_storage.errors import DiskFull, StorageError


class Worker:
    """A worker's process, reduced to its segment ids."""

    def __init__(self, ids: LastIds, number: int, last: int, clock: ManualClock) -> None:
        self.last = last
        self.failure: StorageError | None = None
        self.joined = Joined(clock)
        self.joined.right.serve(
            {"segments.last_id": lambda: self.last, "segments.advance": self._advance}
        )
        self.joined.connect()
        ids.follow(number, self.joined.left)

    def _advance(self, beyond: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.last = max(self.last, beyond) + 1


class World:
    """Workers that have joined."""

    def __init__(self, *lasts: int) -> None:
        self.clock = ManualClock()
        self.ids = LastIds(len(lasts), self.clock)
        self.workers = [Worker(self.ids, n, last, self.clock) for n, last in enumerate(lasts)]
        joining = [start(self.ids.join(n, last)) for n, last in enumerate(lasts)]
        self.clock.pump()
        assert [one.result() for one in joining] == [max(lasts)] * len(lasts)

    def advance(self, worker: int) -> int:
        """Advance the ids of a worker, as for a topic taken over, and return its last id."""
        advancing = start(self.ids.advance(worker))
        self.clock.pump()
        advancing.result()
        return self.workers[worker].last


def test_a_worker_that_takes_over_goes_on_beyond_all_ids() -> None:
    world = World(3, 20, 10)
    assert world.advance(0) == 21
    world.workers[2].last = 90
    assert world.advance(0) == 91


def test_what_a_worker_that_has_ended_gave_counts() -> None:
    world = World(3, 20, 10)
    world.workers[1].joined.cut()
    assert world.advance(2) == 21


def test_a_worker_whose_store_fails_takes_nothing_over() -> None:
    world = World(3, 20)
    world.workers[0].failure = DiskFull("no space left")
    with pytest.raises(DiskFull):
        world.advance(0)


def test_a_worker_that_has_ended_is_not_waited_for() -> None:
    world = World(3, 20)
    world.workers[0].joined.cut()
    assert world.advance(0) == 3
