"""One session's log in a store of objects with faults: its writer, recoveries, any schedule.

Each process has workers of its own.  A seed decides what happens next: a job in a worker, the
arrival of its result, a call that was deferred, an append, the passing of time, a late write, the
end of a process.  The rules of the log are checked at every step.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from fakes.faulty_objects import Fault, FaultyObjects
from fakes.world import ManualClock, ManualPromise, ManualTimer, start
from magnetar_storage.errors import AccessDenied, Fenced, StorageError, Unavailable
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Cause
from magnetar_storage.wal.discarding import discard
from magnetar_storage.wal.fence import fence
from magnetar_storage.wal.reading import read_head, read_slots
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import RecordPlace, Slot, encode_fence
from magnetar_storage.wal.slot_writer import SlotWriter, StoredSlot, WalLimits

T = TypeVar("T")

SESSION = WalSession("cluster/", 7)
SEGMENTS = (3, 5, 8)
LEASE_SECONDS = 10.0
MOST_STEPS = 4000
"""The steps within which a recovery must end although its session's writer goes on."""
WRITE_FAULTS = (
    Fault.LATE, Fault.LATE, Fault.LOST, Fault.DOUBLED, Fault.LANDED, Fault.CONFLICT, Fault.ERROR,
    Fault.BUSY, Fault.SLOW, Fault.SLOW,
)  # fmt: skip
READ_FAULTS = (Fault.LOST, Fault.BUSY, Fault.SLOW, Fault.SLOW)
RARE_FAULTS = (Fault.PRECONDITION, Fault.EXPIRED)
"""Faults that end a writer or a recovery."""

Run = tuple[int, int, bytes]
"""A segment, an entry, and its payload."""


class SessionObjects(FaultyObjects):
    """A store whose `PRECONDITION` is a fence of another recovery; fences must stay."""

    def __init__(self, clock: ManualClock, seed: int) -> None:
        super().__init__(clock.now_ms, seed)
        self.fences: set[str] = set()

    def put(self, name: str, data: bytes) -> None:
        if data.startswith(b"of another writer"):
            data = another_fence(name)
        assert name not in self.fences, f"a write has replaced the fence {name}"
        super().put(name, data)
        if self._is_fence(name):
            self.fences.add(name)

    def delete(self, name: str) -> None:
        assert name not in self.fences, f"the fence {name} is deleted"
        super().delete(name)

    def _is_fence(self, name: str) -> bool:
        plain = FaultyObjects()
        FaultyObjects.put(plain, name, self.content(name))
        return read_head(plain, SESSION, slot_of(name)).is_fence


def slot_of(name: str) -> int:
    return int(name.rpartition("/")[2], 16)


def another_fence(name: str) -> bytes:
    return b"".join(encode_fence(bytes(NONCE_BYTES), SESSION, slot_of(name)))


class Process:
    """A process that may end between any two steps; nothing of it happens then."""

    def __init__(self, clock: ManualClock, workers: int) -> None:
        self.clock = ProcessClock(self, clock)
        self.workers = [ProcessWorker(self) for _ in range(workers)]
        self.inbox: deque[Callable[[], None]] = deque()
        """The results of jobs that have not arrived in the process's loop."""
        self.is_alive = True

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        return lambda: call() if self.is_alive else None

    def end(self) -> None:
        self.is_alive = False
        self.inbox.clear()


class ProcessClock:
    """The clock of the world, as seen in one process."""

    def __init__(self, process: Process, clock: ManualClock) -> None:
        self._process = process
        self._clock = clock
        self.timers: set[ManualTimer] = set()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def uptime(self) -> float:
        return self._clock.uptime()

    def soon(self, call: Callable[[], None], cause: Cause = "other") -> None:
        self._clock.soon(self._process.guarded(call), cause)

    def later(self, seconds: float, call: Callable[[], None]) -> ManualTimer:
        return self._clock.later(seconds, self._process.guarded(call))

    def promise(self) -> ManualPromise:
        return ManualPromise()


class ProcessWorker:
    """A thread: its jobs run one after the other, when the world wants."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = deque()
        self.is_running = False

    def submit(
        self, job: Callable[[], T], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        self.jobs.append((job, done))

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        promise = ManualPromise()

        def done(result: Any, error: BaseException | None) -> None:
            if error is None:
                promise.set_result(result)
            else:
                promise.set_exception(error)

        self.submit(job, done)
        return promise

    def step(self) -> None:
        """Run the oldest job; its result is on its way then."""
        job, done = self.jobs.popleft()
        self.is_running = True
        try:
            outcome = partial(done, job(), None)
        except Unavailable as error:
            outcome = partial(done, None, error)
        finally:
            self.is_running = False
        if self._process.is_alive:
            self._process.inbox.append(outcome)


class Recovery(Process):
    """A recovery that runs until it has the end, or its process ends."""

    def __init__(self, world: "SessionWorld") -> None:
        super().__init__(world.clock, world.dice.choice((1, 2, 5)))
        self.outcome = start(
            fence(
                world.objects, self.workers, self.clock, SESSION, world.trim, world.nonce,
                limit_seconds=20,
            )
        )  # fmt: skip


class Writer(Process):
    """A writer, and the checks of what it reports."""

    def __init__(self, world: "SessionWorld") -> None:
        super().__init__(world.clock, world.dice.choice((1, 2, 4)))
        self._world = world
        limits = WalLimits(
            round_bytes=world.dice.choice((1, 600, 1500)), linger_seconds=0.1,
            unreported_slots=world.dice.choice((2, 8)), give_up_seconds=world.dice.choice((8, 90)),
        )  # fmt: skip
        self.slots = SlotWriter(
            world.objects, self.workers, self.clock, SESSION, world.nonce, limits,
            may_confirm=lambda: world.clock.uptime() < world.lease_ends,
            after_slot=self._stored,
        )  # fmt: skip
        self.slots.when_ended(self._ended)
        self.ended = 0
        self.appended: list[Run] = []
        self.reported: list[bool] = []
        """For each append, whether it was reported as durable."""
        self.runs_below = [0]
        """The number of runs in the slots below each confirmed one."""
        self._next = dict.fromkeys(SEGMENTS, 0)

    def append(self) -> None:
        segment = self._world.dice.choice(SEGMENTS)
        first = self._next[segment]
        self._next[segment] += 1
        payload = b"%d/%d/" % (segment, first) * self._world.dice.randrange(1, 30)
        number = len(self.appended)
        self.appended.append((segment, first, payload))
        self.slots.append(segment, first, [payload], [1], partial(self._done, number))

    def flush(self) -> None:
        appended = len(self.appended)
        flushed = start(self.slots.flush())

        def check() -> None:
            try:
                flushed.result()
            except (Fenced, Unavailable):
                assert self.slots.failure is not None
            else:
                assert len(self.reported) >= appended, "flush ends too early"
                assert all(self.reported[:appended])

        flushed.when_done(check)

    def _done(self, number: int, error: BaseException | None) -> None:
        assert number == len(self.reported), "runs are reported once, and in order"
        if error is None:
            assert all(self.reported), "a run is durable behind one that is not"
            assert self._world.clock.uptime() < self._world.lease_ends, "the lease has ended"
            assert number < self.runs_below[-1], "a run is reported before its slot"
        else:
            assert isinstance(error, Fenced | Unavailable)
        self.reported.append(error is None)

    def _stored(self, stored: StoredSlot) -> None:
        assert stored.number == len(self.runs_below) - 1
        # Rule 2: nothing is reported as durable that a recovery does not find.
        for end in self._world.ends:
            assert stored.number < end, f"slot {stored.number} is reported behind the end {end}"
        self.runs_below.append(self.runs_below[-1] + len(stored.encoded.places))
        assert SESSION.name(stored.number) in self._world.objects.names()

    def _ended(self, error: StorageError) -> None:
        self.ended += 1
        assert self.ended == 1
        assert len(self.reported) == len(self.appended), "runs are failed before the session ends"
        if not isinstance(error, Fenced):
            return
        lease_has_ended = self._world.clock.uptime() >= self._world.lease_ends
        assert self._world.objects.fences or lease_has_ended, "the writer has fenced itself"


class SessionWorld:
    """A session and its recoveries, with the schedule of a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = ManualClock()
        self.objects = SessionObjects(self.clock, seed)
        self.objects.wait = self._meanwhile
        self._share = self.dice.choice((0.0, 0.1, 0.3, 0.5))
        self._rare = self.dice.choice((0.0, 0.0, 0.01))
        self.objects.fault = self._fault
        self._depth = 0
        self._nonces = 0
        self.trim = 0
        self.lease_ends = self.clock.uptime() + LEASE_SECONDS
        self._renews = True
        self.ends: list[int] = []
        """The results of all recoveries."""
        self.recoveries: list[Recovery] = []
        self.collectors: list[Process] = []
        self.writer = Writer(self)

    def nonce(self) -> bytes:
        self._nonces += 1
        return self._nonces.to_bytes(NONCE_BYTES, "big")

    def play(self) -> None:
        """Play the schedule, and check the end."""
        for _ in range(self.dice.choice((0, 100, 400))):
            self._step()
        if self.dice.random() < 0.3:
            self._let_the_writer_catch_up()
        recoveries = self.dice.randrange(1, 4)
        for _ in range(self.dice.randrange(20, 200)):
            self._step()
            if recoveries and self.dice.random() < 0.03:
                recoveries -= 1
                self.recoveries.append(Recovery(self))
        self._recover_behind_a_living_writer()
        self._check_the_end()

    # The schedule.

    def _step(self) -> None:
        """Let one thing happen."""
        dice = self.dice.random()
        if dice < 0.3:
            self._run_a_job()
        elif dice < 0.65:
            self._arrive()
        elif dice < 0.75:
            if self.writer.is_alive:
                self._append()
        elif dice < 0.9:
            self.clock.advance(self.dice.choice((0.01, 0.1, 0.1, 0.5, 2)))
            if self._renews:
                self.lease_ends = self.clock.uptime() + LEASE_SECONDS
        elif dice < 0.95:
            self.objects.land()
        elif dice < 0.957:
            self._renews = self._renews and self.dice.random() < 0.8
            self.clock.advance(self.dice.choice((5, 15, 60)))
        elif dice < 0.962:
            self._end_a_process()
        elif dice < 0.98:
            self._move_trim()
        self._collect_ends()

    def _append(self) -> None:
        """Append a run; now and then flush, or let the writer begin no upload for a while."""
        self.writer.append()
        dice = self.dice.random()
        if dice < 0.05:
            self.writer.flush()
        if dice > 0.9:
            self.writer.slots.hold(dice > 0.97)

    def _let_the_writer_catch_up(self) -> None:
        """While the store answers, every run is reported within seconds."""
        share, self._share = self._share, 0.0
        rare, self._rare = self._rare, 0.0
        self.writer.slots.hold(False)
        for _ in range(5):
            self._drain()
        if self.writer.is_alive:
            assert len(self.writer.reported) == len(self.writer.appended), "a run is forgotten"
        self._share, self._rare = share, rare

    def _processes(self) -> Sequence[Process]:
        return [self.writer, *self.recoveries, *self.collectors]

    def _run_a_job(self) -> None:
        # Jobs that a process had started go on behind its end.
        ready = [
            worker
            for process in self._processes()
            for worker in process.workers
            if worker.jobs and not worker.is_running
        ]
        if ready:
            self.dice.choice(ready).step()

    def _arrive(self) -> None:
        """Let a result arrive in a loop, or a deferred call be made."""
        waiting = [process for process in self._processes() if process.inbox]
        if waiting and self.dice.random() < 0.6:
            self.dice.choice(waiting).inbox.popleft()()
        else:
            self.clock.step()

    def _end_a_process(self) -> None:
        process = self.dice.choice(self._processes())
        if process is not self.writer or self.dice.random() < 0.3:
            process.end()
            for worker in process.workers:
                while len(worker.jobs) > self.dice.randrange(2):
                    worker.jobs.pop()  # those that its threads had not begun

    def _move_trim(self) -> None:
        """Record a trim point, which no recovery may have read, then delete the slots before it."""
        if self.recoveries or not self.writer.is_alive:
            return
        self.trim = self.dice.randrange(self.trim, self.writer.slots.confirmed + 1)
        self._collect_garbage(range(self.trim))

    def _collect_garbage(self, slots: range) -> None:
        process = Process(self.clock, 2)
        self.collectors.append(process)
        outcome = start(
            discard(self.objects, process.workers, process.clock, SESSION, slots.start, slots.stop)
        )

        def check() -> None:
            ignoring_outages(outcome)

        outcome.when_done(check)

    def _collect_ends(self) -> None:
        for recovery in [one for one in self.recoveries if one.outcome.done()]:
            self.recoveries.remove(recovery)
            end = ignoring_outages(recovery.outcome)
            if end is None:
                continue
            assert isinstance(end, int)
            confirmed = self.writer.slots.confirmed
            assert confirmed <= end, f"slots below {confirmed} are reported, the end is {end}"
            assert end in self.ends or not self.ends, f"recoveries differ: {end}, {self.ends}"
            self.ends.append(end)
            if self.dice.random() < 0.5:
                self._collect_garbage(range(end, end + 16))

    def _fault(self, operation: str, name: str) -> Fault | None:
        dice = self.dice.random()
        writes = operation in ("create", "delete")
        if dice < self._rare:
            fault = self.dice.choice(RARE_FAULTS)
            return fault if writes or fault is Fault.EXPIRED else None
        if dice < self._share:
            return self.dice.choice(WRITE_FAULTS if writes else READ_FAULTS)
        return None

    def _meanwhile(self) -> None:
        """Let others do something between two requests of one job, or before a slow one."""
        if self._depth < 2:
            self._depth += 1
            for _ in range(self.dice.randrange(3)):
                self._run_a_job()
            self.objects.land()
            self._depth -= 1

    # The end.

    def _recover_behind_a_living_writer(self) -> None:
        """Without faults a recovery ends soon, however fast the writer is."""
        self._share = self._rare = 0.0
        self.writer.slots.hold(False)
        if not self.recoveries:
            self.recoveries.append(Recovery(self))
        for _ in range(MOST_STEPS):
            if not self.recoveries:
                return
            if self.writer.is_alive:
                self.writer.append()
            for process in (*self._processes(), self.writer, self.writer):
                for worker in process.workers:
                    if worker.jobs:
                        worker.step()
                while process.inbox:
                    process.inbox.popleft()()
            self.clock.pump()
            self.clock.advance(0.06)
            if self._renews:
                self.lease_ends = self.clock.uptime() + LEASE_SECONDS
            self._collect_ends()
            self.recoveries = [one for one in self.recoveries if one.is_alive]
            if not self.ends and not self.recoveries:
                self.recoveries.append(Recovery(self))
        raise AssertionError("a recovery chases the writer")

    def _check_the_end(self) -> None:
        end, runs = self._recovered()
        # Everything that was on its way comes late, and changes nothing.
        self.clock.advance(60)
        self._drain()
        while self.objects.land():
            pass
        self._drain()
        assert self._recovered() == (end, runs)
        writer = self.writer
        if writer.is_alive:
            assert len(writer.reported) == len(writer.appended), "a run is not reported"
            assert writer.slots.pending_bytes == 0
        # Rule 1: what is reported is there, once and in order, and nothing else comes between.
        durable = sum(writer.reported)
        first = writer.runs_below[self.trim]
        assert first + len(runs) >= durable
        assert runs == writer.appended[first : first + len(runs)]

    def _recovered(self) -> tuple[int, list[Run]]:
        """Recover once more, without faults, and read the log."""
        recovery = Recovery(self)
        self.recoveries.append(recovery)
        while not recovery.outcome.done():
            self._drain()
        end: int = recovery.outcome.result()
        outcome = start(self._read(recovery, end))
        while not outcome.done():
            self._drain()
        self._collect_ends()
        return end, outcome.result()

    async def _read(self, process: Process, end: int) -> list[Run]:
        objects: Objects = self.objects
        found: list[Run] = []
        async for number, slot in read_slots(
            objects, process.workers, process.clock, SESSION, self.trim, end
        ):
            assert isinstance(slot, Slot), f"slot {number}: {slot}"
            assert slot.number == number
            assert not slot.damage
            found += [run for place in slot.places for run in runs_of(slot, place)]
        return found

    def _drain(self) -> None:
        """Let everything happen that can without further time, then a little of that."""
        busy = True
        while busy:
            busy = False
            for process in self._processes():
                for worker in process.workers:
                    while worker.jobs:
                        worker.step()
                        busy = True
                while process.inbox:
                    process.inbox.popleft()()
                    busy = True
            while self.clock.step():
                busy = True
        self.clock.advance(1)


def runs_of(slot: Slot, place: RecordPlace) -> list[Run]:
    run = slot.run(place)
    return [(place.segment, run.first + i, payload) for i, payload in enumerate(run.payloads)]


def ignoring_outages(outcome: ManualPromise) -> object:
    """Return the result; None if the store was away or refused the credentials."""
    try:
        return outcome.result()
    except (AccessDenied, Unavailable):
        return None
