"""Reading slots, whole and by range: damaged, missing and unavailable are three answers."""

from collections.abc import Sequence

import pytest

from fakes.faulty_objects import Fault, FaultyObjects
from fakes.world import InlineWorker, ManualClock, QueuedWorker, start
from magnetar_storage.errors import Corrupt, NoObject, Unavailable
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.wal import reading
from magnetar_storage.wal.reading import (
    read_directory,
    read_head,
    read_record,
    read_slot,
    read_slots,
)
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import HEAD_BYTES, QueuedRun, Slot, encode_fence, encode_slot

SESSION = WalSession("", 1)
NONCE = bytes(NONCE_BYTES)


def store(objects: FaultyObjects, slot: int, runs: int = 1, size: int = 5) -> None:
    queued = [QueuedRun(3, number, [bytes(size)], [1], None) for number in range(runs)]
    body = encode_slot(NONCE, SESSION, slot, queued).body()
    objects.put(SESSION.name(slot), b"".join([NONCE, *body]))


def damage(objects: FaultyObjects, slot: int, at: int) -> None:
    data = bytearray(objects.content(SESSION.name(slot)))
    data[at] ^= 1
    objects.put(SESSION.name(slot), bytes(data))


class World:
    """A session, and a reader of it."""

    def __init__(self, slots: int = 3) -> None:
        self.clock = ManualClock()
        self.objects = FaultyObjects()
        for slot in range(slots):
            store(self.objects, slot)
        self.found: list[tuple[int, Slot | Corrupt | NoObject]] = []

    async def _collect(self, workers: Sequence[Worker], trim: int, end: int, ahead: int) -> None:
        async for number, slot in read_slots(
            self.objects, workers, self.clock, SESSION, trim, end, ahead, 60
        ):
            self.found.append((number, slot))

    def read(self, trim: int, end: int) -> list[tuple[int, Slot | Corrupt | NoObject]]:
        """Read the slots; time passes as long as it must."""
        outcome = start(self._collect([InlineWorker(self.clock)] * 2, trim, end, 8))
        while not outcome.done():
            self.clock.pump()
            self.clock.advance(0.5)
        outcome.result()
        return self.found


def test_slots_are_read_in_order() -> None:
    found = World(5).read(1, 4)
    assert [number for number, _ in found] == [1, 2, 3]
    assert [slot.number for _, slot in found if isinstance(slot, Slot)] == [1, 2, 3]
    assert World().read(2, 2) == []


def test_damaged_and_missing_slots_do_not_hide_the_others() -> None:
    world = World(4)
    damage(world.objects, 1, 20)
    world.objects.delete(SESSION.name(2))
    found = dict(world.read(0, 4))
    assert isinstance(found[0], Slot)
    assert isinstance(found[1], Corrupt)
    assert found[1].file == SESSION.name(1)
    assert isinstance(found[2], NoObject)
    assert isinstance(found[3], Slot)


def test_a_fence_below_the_end_is_damage() -> None:
    world = World(1)
    world.objects.put(SESSION.name(1), b"".join(encode_fence(NONCE, SESSION, 1)))
    assert "found a fence" in str(world.read(1, 2)[0][1])


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.BUSY, Fault.CUT])
def test_an_answer_that_is_lost_or_short_is_repeated(fault: Fault) -> None:
    world = World()
    faults = [fault] * 5
    world.objects.fault = lambda operation, name: (
        faults.pop() if faults and operation == "read" else None
    )
    assert all(isinstance(slot, Slot) for _, slot in world.read(0, 3))
    assert not faults


def test_a_store_that_stays_away_is_not_taken_for_a_loss() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.BUSY if name.endswith("1") else None
    with pytest.raises(Unavailable):
        world.read(0, 3)
    assert [number for number, _ in world.found] == [0]


def test_a_bounded_number_of_slots_is_read_ahead() -> None:
    world = World(9)
    workers = [QueuedWorker(world.clock) for _ in range(5)]
    outcome = start(world._collect(workers, 0, 9, 2))
    most = 0
    while not outcome.done():
        most = max(most, sum(map(len, workers)))
        assert any(worker.step() for worker in workers)
    assert len(world.found) == 9
    assert most == 2


def test_a_large_slot_is_read_by_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FaultyObjects()
    store(objects, 0, runs=3)
    assert len(read_slot(objects, SESSION, 0).places) == 3
    assert objects.log == ["read wal/00000001/000000000000"]
    monkeypatch.setattr(reading, "USUAL_BYTES", 200)
    assert len(read_slot(objects, SESSION, 0).places) == 3
    assert len(objects.log) == 3


def test_the_rest_of_a_large_slot_may_be_short(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FaultyObjects()
    store(objects, 0, runs=3)
    monkeypatch.setattr(reading, "USUAL_BYTES", 200)
    faults = [Fault.CUT, None]
    objects.fault = lambda operation, name: faults.pop() if faults else None
    with pytest.raises(Unavailable, match=r"expected \d+ bytes of object .* at byte 200, got"):
        read_slot(objects, SESSION, 0)


def test_an_object_that_is_too_short_is_damage() -> None:
    objects = FaultyObjects()
    objects.put(SESSION.name(0), NONCE)
    with pytest.raises(Corrupt, match="the object has 16 bytes, a head"):
        read_head(objects, SESSION, 0)


def test_parts_of_a_slot_are_read_by_their_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FaultyObjects()
    store(objects, 0, runs=3, size=1000)
    whole = read_slot(objects, SESSION, 0)
    for front in (50, 1 << 14):
        monkeypatch.setattr(reading, "FRONT_BYTES", max(front, HEAD_BYTES))
        head, places = read_directory(objects, SESSION, 0)
        assert places == whole.places
        assert head == read_head(objects, SESSION, 0)
    for place in whole.places:
        assert read_record(objects, SESSION, 0, place) == whole.record(place)


def test_a_damaged_record_is_noticed_in_its_range() -> None:
    objects = FaultyObjects()
    store(objects, 0, runs=2)
    _, places = read_directory(objects, SESSION, 0)
    damage(objects, 0, places[1].end - 1)
    assert read_record(objects, SESSION, 0, places[0])
    with pytest.raises(Corrupt, match=r"\(segment 3, entries 1 to 1\)"):
        read_record(objects, SESSION, 0, places[1])


def test_a_fence_has_no_places() -> None:
    objects = FaultyObjects()
    objects.put(SESSION.name(0), b"".join(encode_fence(NONCE, SESSION, 0)))
    head, places = read_directory(objects, SESSION, 0)
    assert head.is_fence
    assert places == []


def test_a_missing_slot_is_missing() -> None:
    for read in (read_slot, read_head, read_directory):
        with pytest.raises(NoObject):
            read(FaultyObjects(), SESSION, 0)
