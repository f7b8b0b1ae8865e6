"""The single writer of a write-ahead log: runs of all segments, in rounds, several at a time.

A round is stored as one slot by one create-only upload.  Uploads end in any order, and runs are
reported in the order of their appends, up to the first slot whose outcome is not known: a recovery
finds exactly the slots before the first that is missing or fenced.

The way of a run is `SlotWriter.append`, `SlotWriter._cut`, `_Round.store` in the thread of an
upload, `SlotWriter._tried` back on the loop, and `SlotWriter._report`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from magnetar_storage.errors import Fenced, LogClosed, StorageError, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.objects.creation import FIRST_PAUSE, LONGEST_PAUSE, attempt
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Done, Timer, Worker, settling
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import MOST_RECORDS, EncodedSlot, QueuedRun, encode_slot

TROUBLE_SECONDS: Final = 5.0
"""The time after which a slot that is still not stored is a trouble to be reported."""
RUN_BYTES: Final = 256
"""The memory that a queued run takes beside its payloads, about."""
MOST_RUNS: Final = MOST_RECORDS // 2
"""The most runs of a slot."""


@dataclass(frozen=True)
class WalLimits:
    """The limits of a `SlotWriter`."""

    round_bytes: int = 4 << 20
    """The size from which a round is cut without waiting, and the most that it has, unless a single
    run is larger."""
    linger_seconds: float = 0.1
    """The time that the oldest run waits for others; each round costs one request."""
    unreported_slots: int = 32
    """The most slots that are uploaded, or wait for an earlier one to be uploaded."""
    give_up_seconds: float = 120.0
    """The time after which a slot whose outcome stays unknown ends the writer."""


DEFAULT: Final = WalLimits()


class StoredSlot(NamedTuple):
    """A slot that is durable, as are all before it."""

    number: int
    encoded: EncodedSlot
    """Its directory and its records: the latter may be copied to segments as they are."""
    seconds: float
    """The time since its first run was appended."""


class _Round:
    """Runs that become one slot: encoded and uploaded in a thread, then reported."""

    __slots__ = (
        "began", "encoded", "error", "is_stored", "nonce", "number", "outcomes", "pause", "runs",
        "session", "since", "size", "timer", "worker",
    )  # fmt: skip

    def __init__(
        self,
        session: WalSession,
        number: int,
        nonce: bytes,
        worker: Worker,
        taken: "_Queue",
        began: float,
    ) -> None:
        self.session = session
        self.number = number
        self.nonce = nonce
        self.worker = worker
        """The worker that uploads it, which has nothing else to do."""
        self.runs = taken.runs
        self.outcomes = taken.outcomes
        self.size = taken.size
        self.since = taken.since
        self.began = began
        """The time of the first attempt."""
        self.pause = FIRST_PAUSE
        self.timer: Timer | None = None
        """The next attempt, during a pause."""
        self.error: Unavailable | None = None
        """The error of the last attempt."""
        self.encoded: EncodedSlot | None = None
        self.is_stored = False

    def store(self, objects: Objects) -> bool | None:
        """Upload the slot once, in the worker's thread; returns as `attempt` does."""
        if self.encoded is None:
            # Every attempt uploads the same bytes: an earlier one may still take place.
            self.encoded = encode_slot(self.nonce, self.session, self.number, self.runs)
            self.runs = []  # small payloads were copied, and need not be in memory twice
        name = self.session.name(self.number)
        return attempt(objects, name, self.nonce, [self.nonce, *self.encoded.body()])


class _Queue:
    """Runs in the order of their appends, as columns."""

    __slots__ = ("outcomes", "runs", "since", "size", "sizes")

    def __init__(self, since: float = 0.0) -> None:
        self.runs: list[QueuedRun] = []
        self.outcomes: list[Done] = []
        self.sizes: list[int] = []
        self.size = 0
        self.since = since
        """The time at which the first run was queued, or shortly before."""

    def split(self, limit: int) -> "_Queue":
        """Remove the first runs: all within `limit` bytes, and at least one."""
        size = n = 0
        for run_size in self.sizes:
            # A single run may exceed the limit: it would never be stored otherwise.
            if n and (size + run_size > limit or n == MOST_RUNS):
                break
            size += run_size
            n += 1
        taken = _Queue(self.since)
        taken.runs, self.runs = self.runs[:n], self.runs[n:]
        taken.outcomes, self.outcomes = self.outcomes[:n], self.outcomes[n:]
        taken.sizes, self.sizes = self.sizes[:n], self.sizes[n:]
        taken.size = size
        self.size -= size
        return taken


class SlotWriter:
    """Writes one session's log; used on the owner's thread only.

    While nothing is appended it makes no request and has no timer.
    """

    def __init__(
        self,
        objects: Objects,
        uploads: Sequence[Worker],
        clock: Clock,
        session: WalSession,
        new_nonce: Callable[[], bytes],
        limits: WalLimits = DEFAULT,
        may_confirm: Callable[[], bool] = lambda: True,
        after_slot: Callable[[StoredSlot], None] = lambda stored: None,
    ) -> None:
        """Begin the log of a session that has none yet: the first slot is 0.

        As many uploads run at a time as there are workers; these are used for nothing else.
        `new_nonce` returns `NONCE_BYTES` random bytes.  `may_confirm` is asked before a slot is
        reported; once it returns False the session is over.  `after_slot` is called for each
        durable slot, in order, before its runs are reported.
        """
        self._objects = objects
        self._workers = len(uploads)
        self._idle = list(uploads)
        """The workers without an upload."""
        self._clock = clock
        self._session = session
        self._new_nonce = new_nonce
        self._limits = limits
        self._may_confirm = may_confirm
        self._after_slot = after_slot
        self._queue = _Queue()
        self._rounds: deque[_Round] = deque()
        """The rounds that are not reported yet, in the order of their slots."""
        self._next_slot = 0
        self._confirmed = 0
        self._pending_bytes = 0
        self._linger: Timer | None = None
        self._is_due = False
        """Whether the queue is to be uploaded however small it is."""
        self._wakes = False  # `_cut` was scheduled
        self._held = False
        self._failure: StorageError | None = None
        self._closed: LogClosed | None = None
        self._at_end: list[Callable[[StorageError], None]] = []
        self._appended = self._reported = 0  # runs
        self._flushes: list[tuple[int, Done]] = []
        """The number of runs that each `flush` waits for, in order, and its end."""
        self._closes: list[Done] = []

    @property
    def pending_bytes(self) -> int:
        """The bytes of all runs that are not reported yet, queued or in flight.

        Nothing limits it here: who appends does, and stops before it is too much.
        """
        return self._pending_bytes

    @property
    def next_slot(self) -> int:
        """The number that the next slot will have."""
        return self._next_slot

    @property
    def confirmed(self) -> int:
        """The number of slots that are durable and reported: all below this number are."""
        return self._confirmed

    @property
    def failure(self) -> StorageError | None:
        """The error that ended the writer; None while it works.  `Fenced`: the session is over."""
        return self._failure

    @property
    def trouble(self) -> StorageError | None:
        """The error with which appends fail at present, or `failure`; None while all is well.

        While uploads are repeated it is the error of the first slot that is not stored, once that
        has taken `TROUBLE_SECONDS`: all runs behind it wait, too.
        """
        if self._failure is not None or not self._rounds:
            return self._failure
        first = self._rounds[0]
        taken = self._clock.uptime() - first.began
        # promise[without if taken >= TROUBLE_SECONDS else None]: a single error of the store is not
        #   reported as an outage
        return first.error if taken >= TROUBLE_SECONDS else None

    def when_ended(self, call: Callable[[StorageError], None]) -> None:
        """Call once with `failure` when that ends the writer, after all runs were reported; now if
        it has.  `close` alone does not."""
        if self._failure is not None:
            call(self._failure)
        else:
            self._at_end.append(call)

    def append(
        self,
        segment: SegmentId,
        first: int,
        payloads: Sequence[bytes],
        counts: Sequence[int],
        done: Done,
        origin: bytes | None = None,
    ) -> None:
        """Queue a run of at least one entry; see `QueuedRun` for its parts.

        `done(None)` is called when the run and all before it are durable; `done(error)` if they may
        not be, and then for every later run, too: `Fenced` if the session is over, `Unavailable` if
        the store was away for too long, `LogClosed` after `close`.  It is called in the order of
        the appends, never within this call, and must not raise.  The caller must not change the
        sequences any more.
        """
        refusal = self._failure or self._closed
        if refusal is not None:
            self._clock.soon(partial(done, refusal.again()))
            return
        queue = self._queue
        if not queue.runs:
            queue.since = self._clock.uptime()
        size = sum(map(len, payloads)) + RUN_BYTES
        queue.runs.append(QueuedRun(segment, first, payloads, counts, origin))
        queue.outcomes.append(done)
        queue.sizes.append(size)
        queue.size += size
        self._appended += 1
        self._pending_bytes += size
        if queue.size >= self._limits.round_bytes:
            self._wake()
        if self._linger is None and not self._is_due:
            self._linger = self._clock.later(self._limits.linger_seconds, self._waited)

    def hold(self, held: bool) -> None:
        """Pause or resume the beginning of uploads, while too much waits to be settled."""
        self._held = held
        if not held:
            self._wake()

    def end(self, failure: StorageError) -> None:
        """End the session for a reason outside of the log, unless it has ended."""
        if self._failure is None:
            self._end(failure)

    async def flush(self) -> None:
        """Wait until all runs appended before are reported, without the linger; raise `failure`."""
        await self._all_reported()
        if self._failure is not None:
            raise self._failure.again()

    async def close(self) -> None:
        """Refuse further runs, wait until all before are reported, and until no upload runs.

        Errors were reported to the runs, and are not raised.
        """
        self._closed = LogClosed(f"the log of session {self._session.number} is closed")
        self.hold(False)
        await self._all_reported()
        # Behind a fence, uploads of slots that were reported as failed may still run.
        while len(self._idle) < self._workers:
            promise = self._clock.promise()
            self._closes.append(settling(promise))
            await promise

    async def _all_reported(self) -> None:
        if self._reported < self._appended:
            promise = self._clock.promise()
            self._flushes.append((self._appended, settling(promise)))
            self._waited()
            await promise

    def _waited(self) -> None:
        """Upload what is queued, since its first run has waited for long enough."""
        self._stop_linger()
        # Not for the next run, if all before are in flight already.
        self._is_due = bool(self._queue.runs)
        self._wake()

    def _stop_linger(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _wake(self) -> None:
        if not self._wakes:
            self._wakes = True
            # At the end of the turn, so that a round has all of it.
            self._clock.soon(self._cut, "journal")

    def _cut(self) -> None:
        """Begin as many uploads as possible."""
        self._wakes = False
        while self._may_cut():
            queue, limit = self._queue, self._limits.round_bytes
            taken = queue.split(limit)
            if not queue.runs:
                # The rest of a larger queue stays due, or keeps the timer of the runs before it.
                self._is_due = False
                self._stop_linger()
            cut = _Round(
                self._session, self._next_slot, self._new_nonce(), self._idle.pop(), taken,
                self._clock.uptime(),
            )  # fmt: skip
            self._next_slot += 1
            self._rounds.append(cut)
            self._try(cut)

    def _may_cut(self) -> bool:
        if self._failure is not None or self._held or not self._queue.runs or not self._idle:
            return False
        # promise: a slot whose upload hangs does not make a recovery walk over ever more slots
        if len(self._rounds) >= self._limits.unreported_slots:
            return False
        return self._is_due or self._queue.size >= self._limits.round_bytes

    def _try(self, tried: _Round) -> None:
        tried.timer = None
        tried.worker.submit(partial(tried.store, self._objects), partial(self._tried, tried))

    def _tried(self, tried: _Round, mine: bool | None, error: BaseException | None) -> None:
        """Continue after an attempt: the slot is the writer's, or another's, or it is unknown."""
        if self._failure is not None:
            self._release(tried)  # its runs were reported
        elif mine:
            tried.is_stored = True
            self._release(tried)
            self._report()
            self._wake()
        elif mine is False:
            self._release(tried)
            name = self._session.name(tried.number)
            self._end(Fenced(f"the session is over: object {name} is not of its writer"))
        elif error is None or isinstance(error, Unavailable):
            self._try_later(tried, error)
        else:
            self._release(tried)
            self._give_up(error)

    def _try_later(self, tried: _Round, error: Unavailable | None) -> None:
        name = self._session.name(tried.number)
        # Also after `AccessDenied`, whose reason may be removed: this is the only way to go on.
        tried.error = error or Unavailable(f"the outcome of creating object {name} is unknown")
        left = tried.began + self._limits.give_up_seconds - self._clock.uptime()
        if left <= 0:
            self._release(tried)
            self._give_up(tried.error)
            return
        tried.timer = self._clock.later(min(tried.pause, left), partial(self._try, tried))
        tried.pause = min(2 * tried.pause, LONGEST_PAUSE)

    def _give_up(self, error: BaseException) -> None:
        failure = Unavailable(
            f"the log of session {self._session.number} has failed, and what it stored last is"
            f" unknown; restart the broker: {error}"
        )
        failure.__cause__ = error
        self._end(failure)

    def _release(self, tried: _Round) -> None:
        """Make the worker of an upload that has ended free for another one."""
        self._idle.append(tried.worker)
        if len(self._idle) == self._workers:
            closes, self._closes = self._closes, []
            for close in closes:
                close(None)

    def _report(self) -> None:
        """Report the slots before the first one that is not known to be stored."""
        rounds = self._rounds
        # promise[without and rounds[0].is_stored]: a run is reported only when all slots before it
        #   are stored, too
        while rounds and rounds[0].is_stored:
            # promise: nothing is reported as durable once the lease may have ended
            if not self._may_confirm():
                self._end(
                    Fenced("the lease of this session has ended, or may have: the session is over")
                )
                return
            stored = rounds.popleft()
            self._confirmed = stored.number + 1
            self._pending_bytes -= stored.size
            assert stored.encoded is not None
            seconds = self._clock.uptime() - stored.since
            self._after_slot(StoredSlot(stored.number, stored.encoded, seconds))
            self._reported += len(stored.outcomes)
            for done in stored.outcomes:
                done(None)
        self._end_flushes()

    def _end(self, failure: StorageError) -> None:
        """Fail everything that is not reported, and everything later."""
        self._failure = failure
        self._stop_linger()
        rounds, self._rounds = self._rounds, deque()
        queue, self._queue = self._queue, _Queue()
        self._pending_bytes = 0
        self._reported = self._appended
        for one in rounds:
            if one.timer is not None:
                one.timer.cancel()
                self._release(one)
        for outcomes in (*(one.outcomes for one in rounds), queue.outcomes):
            for done in outcomes:
                # An error for each: one object would gather the tracebacks of all who raise it.
                done(failure.again())
        self._end_flushes()
        calls, self._at_end = self._at_end, []
        # promise: a process whose log has failed for good is told, whatever the reason
        for call in calls:
            call(failure)

    def _end_flushes(self) -> None:
        while self._flushes and self._flushes[0][0] <= self._reported:
            self._flushes.pop(0)[1](None)
