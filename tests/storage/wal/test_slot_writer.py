"""The writer of a log: when rounds are cut, in which order they are reported, how it ends."""

from functools import partial

import pytest

from fakes.faulty_objects import Fault, FaultyObjects
from fakes.world import InlineWorker, ManualClock, QueuedWorker, run, start
from magnetar_storage.errors import AccessDenied, Fenced, LogClosed, StorageError, Unavailable
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.interfaces import SegmentKind, SegmentOrigin
from magnetar_storage.local import segment_origin
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.wal import slot_writer
from magnetar_storage.wal.reading import read_slot
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import encode_fence
from magnetar_storage.wal.slot_writer import (
    RUN_BYTES,
    TROUBLE_SECONDS,
    SlotWriter,
    StoredSlot,
    WalLimits,
)

SESSION = WalSession("", 1)
LINGER = 0.1
ROUND_BYTES = 4 * RUN_BYTES
LIMITS = WalLimits(ROUND_BYTES, LINGER, unreported_slots=4, give_up_seconds=60)


class World:
    """A writer whose uploads run when the test wants, or at once if `uploads` is 0."""

    def __init__(self, uploads: int = 0, limits: WalLimits = LIMITS) -> None:
        self.clock = ManualClock()
        self.objects = FaultyObjects(self.clock.now_ms)
        self.uploads = [QueuedWorker(self.clock) for _ in range(uploads)]
        inline: list[Worker] = [InlineWorker(self.clock) for _ in range(2)]
        self.is_alive = True
        self.slots: list[StoredSlot] = []
        self.nonces = 0
        self.writer = SlotWriter(
            self.objects, self.uploads or inline, self.clock, SESSION, self._nonce, limits,
            lambda: self.is_alive, self.slots.append,
        )  # fmt: skip
        self.appended = 0
        self.reported: list[tuple[int, BaseException | None]] = []

    def append(self, size: int = 1, origin: bytes | None = None) -> None:
        number = self.appended
        self.appended += 1
        self.writer.append(9, number, [bytes(size)], [1], partial(self._done, number), origin)

    def durable(self) -> list[int]:
        return [number for number, error in self.reported if error is None]

    def failed(self) -> list[int]:
        return [number for number, error in self.reported if error is not None]

    def entries(self, slot: int) -> list[int]:
        """Return the entries that a slot has."""
        return [place.first for place in read_slot(self.objects, SESSION, slot).places]

    def next_time(self, fault: Fault) -> None:
        """Let the next request meet a fault."""
        faults = [fault]
        self.objects.fault = lambda operation, name: faults.pop() if faults else None

    def put_fence(self, slot: int) -> None:
        fence = encode_fence(bytes(NONCE_BYTES), SESSION, slot)
        self.objects.put(SESSION.name(slot), b"".join(fence))

    def _nonce(self) -> bytes:
        self.nonces += 1
        return self.nonces.to_bytes(NONCE_BYTES, "big")

    def _done(self, number: int, error: BaseException | None) -> None:
        self.reported.append((number, error))


def test_runs_wait_for_others_until_the_first_has_waited_for_long_enough() -> None:
    world = World()
    world.append()
    world.clock.advance(LINGER / 2)
    world.append()
    world.clock.advance(LINGER / 2 - 0.01)
    assert world.objects.log == []
    world.clock.advance(0.01)
    assert world.durable() == [0, 1]
    assert world.entries(0) == [0, 1]
    assert world.objects.log[0] == "create wal/00000001/000000000000"


def test_a_full_round_does_not_wait() -> None:
    world = World()
    world.append(ROUND_BYTES - RUN_BYTES - 1)
    world.clock.pump()
    assert world.objects.log == []
    world.append()
    world.clock.pump()
    assert world.durable() == [0]
    assert world.objects.names() == ["wal/00000001/000000000000"]


def test_the_rest_of_a_full_round_is_not_forgotten() -> None:
    world = World()
    world.append(ROUND_BYTES)
    world.append()
    world.clock.pump()
    assert world.durable() == [0]
    world.clock.advance(LINGER)
    assert world.durable() == [0, 1]
    assert (world.entries(0), world.entries(1)) == ([0], [1])


def test_a_round_is_no_larger_than_its_limit() -> None:
    world = World()
    for _ in range(9):
        world.append(RUN_BYTES)
    world.clock.advance(LINGER)
    assert world.durable() == list(range(9))
    assert [world.entries(slot) for slot in range(5)] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


def test_a_slot_has_a_bounded_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_writer, "MOST_RUNS", 2)
    world = World(limits=WalLimits(1 << 40, LINGER))
    for _ in range(5):
        world.append()
    world.clock.advance(LINGER)
    assert world.durable() == [0, 1, 2, 3, 4]
    assert [world.entries(slot) for slot in range(3)] == [[0, 1], [2, 3], [4]]


def test_an_idle_writer_makes_no_request_and_has_no_timer() -> None:
    world = World()
    world.append()
    world.clock.advance(LINGER)
    requests = len(world.objects.log)
    assert not [timer for _, _, timer in world.clock._timers if timer.call is not None]
    world.clock.advance(3600)
    assert len(world.objects.log) == requests
    assert world.writer.pending_bytes == 0


def test_runs_are_reported_when_all_slots_before_are_stored() -> None:
    world = World(uploads=3)
    for _ in range(3):
        world.append(ROUND_BYTES)
        world.clock.pump()
    third, second, first = world.uploads
    assert second.step()
    assert third.step()
    assert world.objects.names() == [SESSION.name(1), SESSION.name(2)]
    assert world.durable() == []
    assert world.writer.confirmed == 0
    assert first.step()
    assert world.durable() == [0, 1, 2]
    assert [slot.number for slot in world.slots] == [0, 1, 2]
    assert world.writer.confirmed == world.writer.next_slot == 3


def test_one_upload_runs_in_each_worker() -> None:
    world = World(uploads=2)
    for _ in range(3):
        world.append(ROUND_BYTES)
    world.clock.pump()
    assert [len(upload) for upload in world.uploads] == [1, 1]
    assert world.writer.next_slot == 2
    # A round that waits for a worker grows no further than to its limit.
    world.append()
    assert world.uploads[0].step()
    world.clock.pump()
    assert world.writer.next_slot == 3


def test_a_slot_that_hangs_lets_a_bounded_number_of_others_pass() -> None:
    world = World(uploads=2)
    for _ in range(8):
        world.append(ROUND_BYTES)
    world.clock.pump()
    hangs, other = world.uploads[1], world.uploads[0]
    while other.step():
        world.clock.pump()
    assert world.writer.next_slot == LIMITS.unreported_slots
    assert world.durable() == []
    assert hangs.step()
    world.clock.pump()
    assert world.durable() == [0, 1, 2, 3]
    assert world.writer.next_slot == 6


def test_bytes_are_pending_until_they_are_reported() -> None:
    world = World(uploads=2)
    world.append(ROUND_BYTES)
    world.append(10)
    assert world.writer.pending_bytes == ROUND_BYTES + 10 + 2 * RUN_BYTES
    world.clock.advance(LINGER)
    assert world.uploads[0].step()
    assert world.writer.pending_bytes == ROUND_BYTES + 10 + 2 * RUN_BYTES
    assert world.uploads[1].step()
    assert world.writer.pending_bytes == 0


def test_a_held_writer_begins_no_upload() -> None:
    world = World()
    world.writer.hold(True)
    world.append(ROUND_BYTES)
    world.clock.advance(1)
    assert world.objects.log == []
    world.writer.hold(False)
    world.clock.pump()
    assert world.durable() == [0]


def test_a_slot_that_is_reported_has_its_records() -> None:
    world = World()
    world.append(5)
    world.clock.advance(2 * LINGER)
    (stored,) = world.slots
    slot = read_slot(world.objects, SESSION, 0)
    assert stored.encoded.places == slot.places
    assert stored.encoded.records == [slot.record(place) for place in slot.places]
    assert stored.seconds == pytest.approx(LINGER)


@pytest.mark.parametrize(
    "fault", [Fault.LOST, Fault.BUSY, Fault.LANDED, Fault.CONFLICT, Fault.DOUBLED, Fault.EXPIRED]
)
def test_an_upload_without_an_answer_is_repeated_with_the_same_bytes(fault: Fault) -> None:
    world = World()
    world.next_time(fault)
    world.append()
    world.clock.advance(LINGER)
    certain = fault in (Fault.LANDED, Fault.DOUBLED)
    assert world.durable() == ([0] if certain else [])
    assert world.writer.trouble is None  # it is nothing that lasts
    world.clock.advance(1)
    assert world.durable() == [0]
    assert world.nonces == 1


def test_a_late_upload_is_recognized() -> None:
    world = World()
    world.next_time(Fault.LATE)
    world.append()
    world.clock.advance(LINGER)
    assert world.objects.land()
    world.clock.advance(1)
    assert world.durable() == [0]


def test_a_store_that_stays_away_ends_the_writer_after_the_limit() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.BUSY
    for _ in range(3):
        world.append(ROUND_BYTES)
    world.append()
    ended: list[StorageError] = []
    world.writer.when_ended(ended.append)
    world.clock.advance(LIMITS.give_up_seconds - 1)
    assert world.reported == []
    assert isinstance(world.writer.trouble, Unavailable)
    assert world.writer.failure is None
    world.clock.advance(3)
    assert world.failed() == [0, 1, 2, 3]
    error = world.writer.failure
    assert str(error) == (
        "the log of session 1 has failed, and what it stored last is unknown; restart the broker:"
        " read wal/00000001/000000000000: 503: nothing takes place"
    )
    assert isinstance(error, Unavailable)
    assert ended == [error]
    requests = len(world.objects.log)
    world.append()
    world.clock.pump()
    world.clock.advance(100)
    assert world.failed() == [0, 1, 2, 3, 4]
    assert len(world.objects.log) == requests
    run(world.writer.close(), world.clock)


def test_an_outage_is_a_trouble_when_it_lasts() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.BUSY if name.endswith("0") else None
    world.append(ROUND_BYTES)
    world.append(ROUND_BYTES)
    world.clock.pump()
    world.clock.advance(TROUBLE_SECONDS - 1)
    assert world.objects.names() == [SESSION.name(1)]
    assert world.writer.trouble is None
    world.clock.advance(1)
    assert str(world.writer.trouble) == "read wal/00000001/000000000000: 503: nothing takes place"
    world.objects.fault = None
    world.clock.advance(3)
    assert world.durable() == [0, 1]
    assert world.writer.trouble is None


def test_credentials_that_are_repaired_in_time_are_used() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.EXPIRED
    world.append()
    world.clock.advance(LIMITS.give_up_seconds / 2)
    assert isinstance(world.writer.trouble, AccessDenied)
    world.objects.fault = None
    world.clock.advance(3)
    assert world.durable() == [0]


def test_a_defect_of_the_store_ends_the_writer() -> None:
    world = World()

    def create(name: str, data: object) -> None:
        raise ValueError("a defect")

    world.objects.create = create  # type: ignore[method-assign, assignment]
    world.append()
    world.clock.advance(LINGER)
    assert world.failed() == [0]
    assert "a defect" in str(world.writer.failure)


def test_a_fence_fails_everything_from_there_on() -> None:
    world = World(uploads=2)
    world.put_fence(1)
    fenced: list[int] = []
    world.writer.when_ended(lambda error: fenced.append(len(world.reported)))
    for _ in range(4):
        world.append(ROUND_BYTES)
    world.clock.pump()
    assert world.uploads[0].step()  # slot 1
    world.clock.pump()
    # Slot 0 is not known to be stored, so even that is not durable for the writer.
    assert world.durable() == []
    assert world.failed() == [0, 1, 2, 3]
    assert all(isinstance(error, Fenced) for _, error in world.reported)
    assert len({id(error) for _, error in world.reported}) == 4
    assert fenced == [4]
    assert str(world.writer.failure) == (
        "the session is over: object wal/00000001/000000000001 is not of its writer"
    )
    # The upload that was on its way ends, and is not reported again.
    assert world.uploads[1].step()
    world.append()
    assert len(world.reported) == 4
    world.clock.advance(10)
    assert world.failed() == [0, 1, 2, 3, 4]
    assert world.writer.pending_bytes == 0
    again: list[None] = []
    world.writer.when_ended(lambda error: again.append(None))
    assert again == [None]
    assert fenced == [4]


def test_slots_before_a_fence_are_durable() -> None:
    world = World()
    world.put_fence(2)
    for _ in range(4):
        world.append(ROUND_BYTES)
    world.clock.pump()
    assert (world.durable(), world.failed()) == ([0, 1], [2, 3])


def test_a_fence_ends_a_pause() -> None:
    world = World(uploads=2)
    world.put_fence(1)
    world.next_time(Fault.BUSY)
    world.append(ROUND_BYTES)
    world.append(ROUND_BYTES)
    world.clock.pump()
    world.objects.fault = lambda operation, name: Fault.BUSY if name.endswith("0") else None
    assert world.uploads[1].step()
    assert world.uploads[0].step()
    assert world.failed() == [0, 1]
    requests = len(world.objects.log)
    world.clock.advance(10)
    assert len(world.objects.log) == requests
    run(world.writer.close(), world.clock)


def test_nothing_is_reported_behind_the_end_of_the_lease() -> None:
    world = World(uploads=2)
    fenced: list[None] = []
    world.writer.when_ended(lambda error: fenced.append(None))
    world.append(ROUND_BYTES)
    world.append(ROUND_BYTES)
    world.clock.pump()
    assert world.uploads[1].step()
    assert world.durable() == [0]
    world.is_alive = False
    assert world.uploads[0].step()
    assert (world.durable(), world.failed()) == ([0], [1])
    assert isinstance(world.writer.failure, Fenced)
    assert "lease" in str(world.writer.failure)
    assert fenced == [None]
    world.is_alive = True
    world.append()
    world.clock.pump()
    assert world.failed() == [1, 2]


def test_a_refused_run_is_reported_behind_the_call() -> None:
    world = World()
    world.put_fence(0)
    world.append()
    world.clock.advance(LINGER)

    seen: list[bool] = []
    is_within = True
    world.writer.append(9, 1, [b""], [1], lambda error: seen.append(is_within))
    is_within = False
    world.clock.pump()
    assert seen == [False]


def test_a_callback_may_append() -> None:
    world = World()
    done: list[BaseException | None] = []

    def more(error: BaseException | None) -> None:
        world.writer.append(9, 1, [b"second"], [1], done.append)

    world.writer.append(9, 0, [b"first"], [1], more)
    world.clock.advance(LINGER)
    assert done == []
    world.clock.advance(LINGER)
    assert done == [None]


def test_flush_waits_for_what_was_appended_before() -> None:
    world = World(uploads=2)
    world.append()
    flushed = start(world.writer.flush())
    world.clock.pump()
    world.append(ROUND_BYTES)
    world.clock.pump()
    assert not flushed.done()
    assert world.uploads[1].step()
    assert flushed.done()
    assert world.durable() == [0]
    run(World().writer.flush(), world.clock)


def test_a_run_behind_a_flush_waits_as_usual() -> None:
    world = World(uploads=1)
    world.append(ROUND_BYTES)
    world.clock.pump()
    flushed = start(world.writer.flush())  # of what is in flight already
    world.clock.pump()
    assert world.uploads[0].step()
    assert flushed.done()
    world.append()
    world.clock.pump()
    assert not world.uploads[0]
    world.clock.advance(LINGER)
    assert world.uploads[0].step()
    assert world.durable() == [0, 1]


def test_flush_raises_why_runs_failed() -> None:
    world = World()
    world.put_fence(0)
    world.append()
    with pytest.raises(Fenced):
        run(world.writer.flush(), world.clock)
    with pytest.raises(Fenced):
        run(world.writer.flush(), world.clock)


def test_a_closed_writer_refuses_runs_and_has_stored_those_before() -> None:
    world = World(uploads=1)
    world.writer.hold(True)
    world.append(ROUND_BYTES)
    world.append()
    closed = start(world.writer.close())
    world.append()
    while world.clock.step() or world.uploads[0].step():
        pass
    assert closed.done()
    assert closed.result() is None
    assert world.durable() == [0, 1]
    assert [type(error) for _, error in world.reported if error] == [LogClosed]
    assert world.writer.failure is None


def test_close_waits_for_uploads_behind_a_fence() -> None:
    world = World(uploads=2)
    world.put_fence(0)
    world.append(ROUND_BYTES)
    world.append(ROUND_BYTES)
    world.clock.pump()
    assert world.uploads[1].step()
    assert world.failed() == [0, 1]
    closed = start(world.writer.close())
    world.clock.pump()
    assert not closed.done()
    assert world.uploads[0].step()
    assert closed.done()


def test_an_origin_comes_before_the_first_run() -> None:
    world = World()
    origin = segment_origin.encoded(9, SegmentOrigin("a", SegmentKind.DELAYS), UNKNOWN)
    world.append(origin=origin)
    world.append()
    world.clock.advance(LINGER)
    places = read_slot(world.objects, SESSION, 0).places
    assert [place.is_origin for place in places] == [True, False, False]
