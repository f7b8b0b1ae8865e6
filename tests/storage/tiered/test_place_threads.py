"""Few places have threads of their own, and all of them share the read-ahead."""

from collections.abc import Sequence
from typing import NamedTuple

from fakes.faulty_objects import FaultyObjects
from fakes.world import ManualClock, QueuedWorker
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.tiered.place_threads import AllThreads
from magnetar_storage.tiered.read_ahead import FIRST_BYTES

APART = 3


class Source(NamedTuple):
    """A place."""

    store: FaultyObjects
    text: str = "s3://bucket"

    def objects(self) -> Objects:
        return self.store


class World:
    def __init__(self, cache_bytes: int = 0) -> None:
        self.workers: list[QueuedWorker] = []
        self.threads = AllThreads(self._new_workers, cache_bytes, APART)

    def _new_workers(self) -> Sequence[QueuedWorker]:
        made = [QueuedWorker(ManualClock()) for _ in range(2)]
        self.workers += made
        return made


def test_threads_have_a_limit_however_many_places_there_are() -> None:
    world = World()
    assigned = [world.threads.assign() for _ in range(10 * APART)]
    assert len({id(one) for one in assigned}) == APART
    assert len(world.workers) == APART * 4
    assert len(world.threads.lanes) == APART * 2
    assert all(assigned.count(one) == 10 for one in assigned), "places are spread evenly"


def test_the_first_places_have_threads_of_their_own() -> None:
    world = World()
    first, second = world.threads.assign(), world.threads.assign()
    names = [str(number) for number in range(50)]
    uploads = [{id(one.upload(name)) for name in names} for one in (first, second)]
    lanes = [{id(one.lane(name)) for name in names} for one in (first, second)]
    assert not uploads[0] & uploads[1] and not lanes[0] & lanes[1]
    assert all(first.upload(name) is first.upload(name) for name in names)


def test_the_read_ahead_of_all_places_together_has_a_limit() -> None:
    world = World(cache_bytes=4 * FIRST_BYTES)
    objects = FaultyObjects()
    for name in "abcd":
        objects.put(name, bytes(FIRST_BYTES))
    lane = world.threads.assign().lanes[0]
    for name in "abcd":
        lane.ahead.of(Source(objects)).read(name, 0, 1)
    assert lane.ahead.kept_bytes == 2 * FIRST_BYTES
    other = world.threads.assign().lanes[0]
    assert [len(worker) for worker in world.workers[:4]] == [0, 0, 1, 0], "of the lane that reads"
    assert world.workers[2].step()
    assert lane.ahead.kept_bytes == FIRST_BYTES
    for name in "abcd":
        other.ahead.of(Source(objects)).read(name, 0, 1)
    assert other.ahead.kept_bytes == FIRST_BYTES
