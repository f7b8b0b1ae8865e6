"""The end of a session: a barrier ahead of its writer, then a walk to the first hole."""

import pytest

from fakes.faulty_objects import Fault, FaultyObjects
from fakes.world import InlineWorker, ManualClock, ManualPromise, QueuedWorker, run, start
from magnetar_storage.errors import AccessDenied, Corrupt, Unavailable
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.objects.interfaces import Creation
from magnetar_storage.wal.fence import IN_FLIGHT, fence
from magnetar_storage.wal.reading import read_head
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import QueuedRun, encode_slot

SESSION = WalSession("", 1)


class World:
    """A session of which the test stores the slots."""

    def __init__(self, *slots: int) -> None:
        self.clock = ManualClock()
        self.objects = FaultyObjects(self.clock.now_ms)
        self.nonces = 0
        for slot in slots:
            self.store(slot)
        self.objects.log.clear()

    def store(self, slot: int) -> bool:
        """Store a slot as its writer does; return whether the name was free."""
        nonce = self.nonce()
        body = encode_slot(nonce, SESSION, slot, [QueuedRun(3, slot, [b"entry"], [1], None)])
        # Not seen by the faults and the log, which are for recoveries.
        if SESSION.name(slot) in self.objects.names():
            return False
        self.objects.put(SESSION.name(slot), b"".join([nonce, *body.body()]))
        return True

    def nonce(self) -> bytes:
        self.nonces += 1
        return self.nonces.to_bytes(NONCE_BYTES, "big")

    def recover(self, trim: int = 0, workers: int = 4) -> ManualPromise:
        inline = [InlineWorker(self.clock) for _ in range(workers)]
        return start(fence(self.objects, inline, self.clock, SESSION, trim, self.nonce, 60))

    def end(self, trim: int = 0) -> int:
        """Recover the session; time passes as long as it must."""
        outcome = self.recover(trim)
        while not outcome.done():
            self.clock.pump()
            self.clock.advance(0.5)
            assert self.clock.uptime() < 1_700_001_000
        end: int = outcome.result()
        return end

    def fences(self) -> list[int]:
        plain = FaultyObjects()
        for name in self.objects.names():
            plain.put(name, self.objects.content(name))
        slots = [int(name[-12:], 16) for name in plain.names()]
        return [slot for slot in slots if read_head(plain, SESSION, slot).is_fence]


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4, 5, 100])
def test_the_end_is_the_first_free_slot(stored: int) -> None:
    world = World(*range(stored))
    assert world.end() == stored
    assert stored in world.fences()
    # It is a matter of some requests, however many slots there are.
    assert len([line for line in world.objects.log if line.startswith("create")]) < 10
    before = world.objects.names()
    assert world.end() == stored
    assert world.objects.names() == before


def test_slots_behind_a_hole_are_not_part_of_the_session() -> None:
    world = World(0, 1, 3, 4)
    assert world.end() == 2
    assert not world.store(2)


def test_the_walk_begins_at_the_trim_point() -> None:
    world = World(5, 6)
    assert world.end(trim=5) == 7
    assert not any(slot < 7 for slot in world.fences())
    assert not [line for line in world.objects.log if line.endswith("4")]


@pytest.mark.parametrize("pace", [1, 3])
def test_a_writer_that_goes_on_is_stopped_by_the_barrier(pace: int) -> None:
    world = World(*range(100))
    written = 100

    def meanwhile(operation: str, name: str) -> None:
        # The writer stores more slots while the recovery makes one request.
        nonlocal written
        for _ in range(pace):
            if written < 3000 and world.store(written):
                written += 1

    world.objects.fault = meanwhile
    end = world.end()
    assert end == written
    assert end in world.fences()
    # The first distance that is a power of two and ahead of the writer, which runs meanwhile.
    assert end <= 256


def test_a_late_upload_behind_the_fence_changes_nothing() -> None:
    world = World(0, 1)
    world.objects.fault = lambda operation, name: Fault.LATE
    nonce = world.nonce()
    late = [nonce, *encode_slot(nonce, SESSION, 2, []).body()]
    assert world.objects.create(SESSION.name(2), late) is Creation.UNKNOWN
    world.objects.fault = None
    assert world.end() == 2
    world.clock.advance(60)
    assert world.objects.land()
    assert 2 in world.fences()
    assert world.end() == 2


def test_a_hole_that_the_writer_fills_meanwhile_is_part_of_the_session() -> None:
    world = World(0)

    def fill(operation: str, name: str) -> None:
        if operation == "create" and name == SESSION.name(1):
            world.store(1)

    world.objects.fault = fill
    # The barrier is at 2: the walk finds slot 1 missing, and cannot fence it.
    assert world.end() == 2


def test_recoveries_at_the_same_time_agree() -> None:
    world = World(0, 1, 2)
    queued = [[QueuedWorker(world.clock) for _ in range(2)] for _ in range(3)]
    outcomes = [
        start(fence(world.objects, workers, world.clock, SESSION, 0, world.nonce))
        for workers in queued
    ]
    while not all(outcome.done() for outcome in outcomes):
        assert any(worker.step() for workers in queued for worker in workers)
    assert [outcome.result() for outcome in outcomes] == [3, 3, 3]


@pytest.mark.parametrize(
    "fault", [Fault.LOST, Fault.LANDED, Fault.CONFLICT, Fault.BUSY, Fault.ERROR, Fault.LATE]
)
def test_a_request_without_an_answer_is_repeated(fault: Fault) -> None:
    world = World(0, 1)
    met: set[str] = set()

    def first_time(operation: str, name: str) -> Fault | None:
        if operation + name in met:
            return None
        met.add(operation + name)
        return fault

    world.objects.fault = first_time
    assert world.end() == 2
    while world.objects.land():
        pass
    assert world.end() == 2


def test_a_short_answer_is_repeated() -> None:
    world = World(0, 1)
    cut = [Fault.CUT] * 3
    world.objects.fault = lambda operation, name: cut.pop() if operation == "read" and cut else None
    assert world.end() == 2
    assert not cut


def test_a_store_that_stays_away_is_reported() -> None:
    world = World(0)
    world.objects.fault = lambda operation, name: Fault.BUSY
    began = world.clock.uptime()
    with pytest.raises(Unavailable, match="503"):
        world.end()
    assert 60 <= world.clock.uptime() - began < 70


def test_refused_credentials_are_reported_at_once() -> None:
    world = World(0)
    world.objects.fault = lambda operation, name: Fault.EXPIRED
    outcome = world.recover()
    world.clock.pump()
    with pytest.raises(AccessDenied):
        outcome.result()


def test_an_object_that_is_neither_a_slot_nor_a_fence_is_damage() -> None:
    world = World(0, 1, 3)
    world.objects.put(SESSION.name(2), bytes(200))
    outcome = world.recover()
    world.clock.pump()
    with pytest.raises(Corrupt, match=r"wal/00000001/000000000002 .*not part of a write-ahead log"):
        outcome.result()


def test_a_fence_that_is_gone_is_reported() -> None:
    world = World(0)

    def remove(operation: str, name: str) -> None:
        # Somebody deletes the barrier, and the upload that it refused takes its place.
        if operation == "read" and name == SESSION.name(0):
            world.objects._objects.pop(SESSION.name(1), None)
            world.store(1)

    world.objects.fault = remove
    outcome = world.recover()
    world.clock.pump()
    with pytest.raises(Corrupt, match="this recovery stored a fence here, and it is gone"):
        outcome.result()


def test_a_walk_has_a_bounded_number_of_requests_in_flight() -> None:
    world = World(*range(300))
    workers = [QueuedWorker(world.clock) for _ in range(100)]
    outcome = start(fence(world.objects, workers, world.clock, SESSION, 0, world.nonce))
    most = 0
    while not outcome.done():
        most = max(most, sum(map(len, workers)))
        assert any(worker.step() for worker in workers)
    assert outcome.result() == 300
    assert most == IN_FLIGHT


def test_a_recovery_that_meets_no_fault_needs_no_timer() -> None:
    world = World(*range(10))
    recovery = fence(
        world.objects, [InlineWorker(world.clock)], world.clock, SESSION, 0, world.nonce
    )
    assert run(recovery, world.clock) == 10
