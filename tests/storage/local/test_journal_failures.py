"""A disk that is full or fails: the reports, and what works afterwards."""

from dataclasses import replace

import pytest

from fakes.faulty_disk import seeded
from fakes.local_store import TINY, Machine
from fakes.origins import MESSAGES
from fakes.world import QueuedWorkers, run
from magnetar_storage.errors import DataDirLocked, DiskFull, Unavailable, WriterFailed
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.local import segment_origin
from magnetar_storage.local.journal import ROUNDS_IN_FLIGHT
from magnetar_storage.local.store import LocalStore


def errors_of(machine: Machine, segment: int, payload: bytes) -> list[BaseException | None]:
    errors: list[BaseException | None] = []
    machine.writers[segment].append([payload], [1], errors.append)
    machine.pump()
    return errors


@pytest.mark.parametrize("room", range(0, 600, 7))
def test_a_full_disk_fails_writers_and_the_next_ones_work(room: int) -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"before"], [1])
    machine.pump()
    machine.disk.room = room
    for number in range(30):
        machine.append(segment, [b"%d" % number * 20], [1])
        machine.pump()
    assert 0 < machine.truths[segment].confirmed < 31
    (error,) = errors_of(machine, segment, b"late")
    assert isinstance(error, WriterFailed)
    machine.disk.room = 1 << 30
    machine.clock.advance(TINY.retry_seconds)
    machine.check()
    machine.check_still_works()
    machine.disk.crash(seeded(room))
    machine.open()
    assert machine.store.findings == [], "what was left of the failed write is gone"
    machine.check()


def test_creating_on_a_full_disk_is_refused() -> None:
    machine = Machine()
    machine.open()
    machine.disk.room = 0
    with pytest.raises(DiskFull, match="free some space"):
        machine.do(machine.store.create(MESSAGES))
    machine.disk.room = 1 << 30
    assert machine.store.is_failing and machine.store.trouble is None
    machine.check_still_works()
    assert not machine.store.is_failing


def test_after_a_failed_sync_everything_is_refused_until_a_restart() -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    machine.disk.failing_syncs = 1
    (error,) = errors_of(machine, segment, b"unknown")
    assert isinstance(error, Unavailable) and not isinstance(error, DiskFull)
    assert "restart" in str(error)
    assert machine.store.trouble is not None
    with pytest.raises(Unavailable, match="restart"):
        machine.do(machine.store.create(MESSAGES))
    machine.disk.crash(seeded(1))
    machine.truths[segment].appended.append((b"unknown", 1))
    machine.open()
    assert machine.store.trouble is None
    machine.check()


def test_a_journal_that_failed_keeps_no_stacks_of_those_it_refuses() -> None:
    machine = Machine()
    machine.open()
    segment, idle = machine.create(), machine.create()
    machine.disk.failing_syncs = 1
    errors = errors_of(machine, segment, b"unknown")
    trouble = machine.store.trouble
    assert trouble is not None
    for _ in range(3):
        errors += errors_of(machine, segment, b"refused by the writer")
        with pytest.raises(WriterFailed) as sealing:
            machine.do(machine.writers[segment].seal())
        with pytest.raises(Unavailable, match="restart") as creating:
            machine.do(machine.store.create(MESSAGES))
        with pytest.raises(Unavailable, match="restart") as recovering:
            machine.do(machine.store.recover(idle))
        errors += [sealing.value, creating.value, recovering.value]
    assert len({id(error) for error in errors}) == len(errors) == 13
    assert machine.store.trouble is trouble
    assert trouble.__traceback__ is None


def test_a_failed_write_behind_is_reported_once_and_retried() -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    machine.disk.failing_syncs = 3
    with pytest.raises(Unavailable):
        machine.do(machine.store.checkpoint())
    machine.clock.advance(TINY.retry_seconds * 5)
    assert len(machine.store.findings) == 1
    assert machine.disk.failing_syncs == 0
    machine.disk.crash(seeded(2))
    machine.open()
    machine.check()


def test_memory_stays_bounded_while_segment_files_cannot_be_written() -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.disk.operation = refuse_segments(machine)  # type: ignore[method-assign]
    for _ in range(200):
        machine.append(segment, [b"x" * 100], [1])
        machine.pump()
    confirmed = machine.truths[segment].confirmed
    assert confirmed * 100 < TINY.unwritten_bytes + TINY.round_bytes
    assert machine.store.trouble is not None
    del machine.disk.operation
    machine.clock.advance(TINY.retry_seconds)
    assert machine.store.trouble is None
    machine.check()
    machine.check_still_works()


@pytest.mark.parametrize("unwritten_bytes", range(4096, 4496, 40))
def test_appends_wait_while_segment_files_are_slow(unwritten_bytes: int) -> None:
    limits = replace(TINY, unwritten_bytes=unwritten_bytes)
    machine = Machine()
    clock = machine.clock
    workers = QueuedWorkers(clock)
    opening = LocalStore.open(machine.disk, workers, clock, limits)
    store = run(opening, clock, workers.step)
    writer = run(store.create(MESSAGES), clock, workers.step)
    errors: list[BaseException | None] = []
    for _ in range(200):
        writer.append([b"x" * 100], [1], errors.append)
    clock.pump()
    while workers.journal.step():
        clock.pump()
    waiting = sum(one.unwritten_bytes for one in store._segments.values())
    assert 0 <= waiting - unwritten_bytes <= ROUNDS_IN_FLIGHT * TINY.round_bytes
    assert len(errors) < 200 and store.trouble is None
    while workers.step():
        clock.pump()
    assert errors == [None] * 200


class Queueing:
    """A store with one segment, whose journal worker waits for the test."""

    def __init__(self) -> None:
        self.machine = Machine(limits=replace(TINY, unwritten_bytes=1 << 20))
        self.clock = self.machine.clock
        self.workers = QueuedWorkers(self.clock)
        opening = LocalStore.open(self.machine.disk, self.workers, self.clock, self.machine.limits)
        self.store = run(opening, self.clock, self.workers.step)
        self.writer = run(self.store.create(MESSAGES), self.clock, self.workers.step)
        # The first append includes the origin of the segment.
        self.writer.append([b"0"], [1], lambda _: None)
        self.end()
        self.outcomes: list[tuple[bytes, BaseException | None]] = []

    def append(self, payload: bytes) -> None:
        self.writer.append([payload], [1], lambda error: self.outcomes.append((payload, error)))
        self.clock.pump()

    def is_in_the_journal(self, payload: bytes) -> bool:
        disk = self.machine.disk
        return any(payload in disk.content(name) for name in disk.names() if "journal/" in name)

    def end(self) -> None:
        while self.workers.step() or self.clock.step():
            pass


ROUNDS = [b"a" * 2 * TINY.journal_file_bytes, b"b" * TINY.ahead_bytes, b"c" * TINY.ahead_bytes]


def test_a_large_round_waits_at_the_worker_for_the_one_before_it() -> None:
    queueing = Queueing()
    queueing.append(b"first")
    queueing.append(b"small")
    assert len(queueing.workers.journal) == 1, "little waits for more"
    for payload in ROUNDS:
        queueing.append(payload)
    assert len(queueing.workers.journal) == 2
    queueing.workers.journal.step()
    assert queueing.outcomes == [(b"first", None)], "each is reported when it is durable"
    queueing.end()
    assert queueing.outcomes == [(payload, None) for payload in (b"first", b"small", *ROUNDS)]


@pytest.mark.parametrize("room", [0, 30, 100, TINY.journal_file_bytes])
def test_a_round_is_not_written_behind_one_that_found_no_room(room: int) -> None:
    queueing = Queueing()
    for payload in ROUNDS:
        queueing.append(payload)
    assert len(queueing.workers.journal) == 2
    queueing.machine.disk.room = room
    queueing.workers.journal.step()
    queueing.machine.disk.room = 1 << 30
    assert [payload for payload, _ in queueing.outcomes] == ROUNDS[:1]
    queueing.end()
    assert [payload for payload, _ in queueing.outcomes] == ROUNDS, "in order"
    assert [type(error) for _, error in queueing.outcomes] == [DiskFull] * 3
    assert not any(map(queueing.is_in_the_journal, ROUNDS[1:]))
    other = run(queueing.store.create(MESSAGES), queueing.clock, queueing.workers.step)
    assert other.segment > queueing.writer.segment, "the journal works again"


def test_a_round_is_not_written_behind_one_whose_sync_failed() -> None:
    queueing = Queueing()
    for payload in ROUNDS:
        queueing.append(payload)
    queueing.machine.disk.failing_syncs = 1
    queueing.end()
    assert [payload for payload, _ in queueing.outcomes] == ROUNDS, "in order"
    assert all("restart" in str(error) for _, error in queueing.outcomes)
    assert not any(map(queueing.is_in_the_journal, ROUNDS[1:]))
    with pytest.raises(Unavailable, match="restart"):
        run(queueing.store.create(MESSAGES), queueing.clock, queueing.workers.step)


def refuse_segments(machine: Machine):  # type: ignore[no-untyped-def]
    """Return an `operation` that fails for every segment file."""
    count = machine.disk.operation

    def refusing(what: str, name: str) -> None:
        if name.startswith("segments/"):
            raise Unavailable(f"cannot {what} {name}")
        count(what, name)

    return refusing


def test_a_closed_store_refuses_and_frees_the_directory() -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    with pytest.raises(DataDirLocked):
        machine.do(LocalStore.open(machine.disk, machine.workers, machine.clock, TINY))
    machine.close()
    (error,) = errors_of(machine, segment, b"late")
    assert isinstance(error, Unavailable)
    machine.open()
    machine.check()


def test_rounds_are_observed() -> None:
    machine = Machine()
    seen: list[tuple[int, int, float | None]] = []
    ticks = iter(range(100))
    store = machine.do(
        LocalStore.open(
            machine.disk, machine.workers, machine.clock, TINY,
            lambda *round_: seen.append(round_), lambda: float(next(ticks)),
        )
    )  # fmt: skip
    writer = machine.do(store.create(MESSAGES))
    writer.append([b"a"], [1], lambda _: None)
    writer.append([b"bc"], [1], lambda _: None)
    machine.pump()
    origin = len(segment_origin.encoded(1, MESSAGES, UNKNOWN))
    assert seen == [(1, 32, 1.0), (3, origin + 41 + 42, 1.0)]


def test_nothing_remains_of_a_large_write_that_found_no_room() -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.disk.room = 2000
    (error,) = errors_of(machine, segment, b"x" * 5000)
    assert isinstance(error, DiskFull)
    machine.disk.room = 1 << 30
    machine.do(machine.store.recover(segment))
    machine.disk = machine.disk.copy()
    machine.open()
    assert machine.store.findings == []
    machine.check()
