"""Metadata over a store that may be away for a few seconds, such as one that elects a leader.

Without this, each call that fails in those seconds would end what has made it: a log whose record
cannot be written has failed, and its topic is loaded again.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeGuard, TypeVar

from magnetar_storage.errors import (
    BadVersion,
    DiskFull,
    ProcessUnavailable,
    StorageError,
    Unavailable,
)
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Changes,
    Guard,
    Lease,
    Listed,
    MetadataStore,
    Version,
    Versioned,
)
from magnetar_storage.runtime.execution import Clock, settling
from magnetar_storage.runtime.mutex import KeyedMutex

T = TypeVar("T")

RETRY_SECONDS: Final = 5.0
"""The time for which calls are repeated: longer than the election of a leader takes, and shorter
than a lease lasts, because a process whose lease has ended must not write."""
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
"""The seconds before the first repetition, and the most; the pauses in between double."""
MOMENT: Final = 0.001
"""The shortest pause, in seconds; if less time is left, the call gives up."""
DELETED: Final = 0
"""Stands for the version of a key that was deleted."""

Made = Callable[[Versioned | None], Version | None]
"""Judges a key that was read after a write of unknown outcome: the version if the write took place;
None if the key is as it was before.  Raises `BadVersion` if it was changed by something else."""


class Outage:
    """The period in which a store answers no calls of one kind; these calls share one deadline.

    So a broker that stops while the store is away waits once, and not for each topic in turn.
    """

    __slots__ = ("_clock", "_failed", "_until", "seconds")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        self._clock = clock
        self._until: float | None = None  # the uptime at which calls give up; None without outage
        self._failed = 0.0  # the uptime of the last failure

    def over(self) -> None:
        """Note that the store has answered."""
        self._until = None

    def pauses(self) -> Iterator[float]:
        """Yield the seconds to wait before each repetition of a call that has failed just now.

        Ask for the next one after each further failure; there are none after the end of `seconds`.
        """
        pause, now = FIRST_PAUSE, self._clock.uptime()
        # After a long time without calls nothing is known: that is another outage.
        if self._until is None or now - self._failed > self.seconds:
            # promise[now + self.seconds -> now + 9 * self.seconds]: a call that has no answer ends
            #   before a lease does
            self._until = now + self.seconds
        until = self._until
        while True:
            self._failed = now = self._clock.uptime()
            left = until - now
            if left < MOMENT:
                return
            yield min(pause, left)
            pause = min(2 * pause, LONGEST_PAUSE)


class RetryingMetadata:
    """A `MetadataStore` that repeats calls of another one, and finds out what unknown ones did.

    A write with `expect` has one of three outcomes.  It took place: the call returns.  It was
    refused: `BadVersion` or `Fenced`, at once if it is the outcome of the first attempt.  It is
    unknown: `Unavailable`, after `seconds` without an answer; it may still take place later.  An
    attempt without an answer is settled by reading the key: if it has the value at another version,
    the write took place; if it is at the expected version, the write is repeated; otherwise it was
    refused.

    If an answer was lost and another process writes the key before it is read, the outcomes say
    less.  Each is the truth about the key, but not about what the call did before:

    - `BadVersion` means that the key is not as the caller left it.  The write did not take place,
      or another process has replaced or deleted what it wrote.
    - A `put` of an absent key that returns was the last write of the key.  If another process
      deleted the key in between, the call has created it twice.  A `put` at a version never takes
      place twice.
    - A `delete` that returns means that the key was absent: this call deleted it, or another one.

    So a caller that is refused reads the key again, and none concludes that it wrote nothing.

    The value shows what was written, not who wrote it.  Where that matters, as in `next_number`, no
    other writer may store the same value: put a nonce into it.  The record of a log needs none: two
    owners who store the same record know the same state, and the next change, which names a segment
    that only one of them has created, succeeds for one of them.

    A write without `expect` is repeated until it is answered, so it may take place twice.  If its
    guard ends meanwhile it fails with `Fenced`, though an attempt may have taken place before.

    Reads are repeated, too.  Leases and watches have times of their own, and are passed on.  While
    a write is repeated, later writes of the same key wait, but those of other keys overtake it.
    """

    def __init__(self, store: MetadataStore, clock: Clock, seconds: float = RETRY_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._reads = Outage(clock, seconds)
        self._writes = Outage(clock, seconds)
        self._unsettled: KeyedMutex[str] = KeyedMutex(clock)
        """The keys of which a write is repeated."""

    async def get(self, key: str) -> Versioned | None:
        return await self._read(partial(self._store.get, key))

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        attempt = partial(self._store.put, key, value, expect, lease, guard)
        made = None if expect is None else partial(_put, key, value, expect)
        return await self._write(key, attempt, made, lease)

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        async def attempt() -> Version:
            await self._store.delete(key, expect, guard)
            return DELETED

        made = None if expect is None else partial(_deleted, key, expect)
        await self._write(key, attempt, made, None)

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        return await self._read(partial(self._store.list, prefix, after, limit))

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return await self._read(partial(self._store.read_under, prefix, after, limit))

    def watch(self, prefix: str) -> Changes:
        return self._store.watch(prefix)

    async def lease(self, ttl_seconds: float) -> Lease:
        return await self._store.lease(ttl_seconds)

    async def revoke(self, lease: Lease) -> None:
        await self._store.revoke(lease)

    async def close(self) -> None:
        await self._store.close()

    # Repeating ----------------------------------------------------------------------------

    async def _read(self, ask: Callable[[], Awaitable[T]]) -> T:
        pauses: Iterator[float] | None = None
        while True:
            try:
                answer = await ask()
            except Unavailable as error:
                pauses = pauses or self._reads.pauses()
                if not _may_pass(error) or (pause := next(pauses, None)) is None:
                    raise
                await self._pause(pause)
            else:
                self._reads.over()
                return answer

    async def _write(
        self,
        key: str,
        attempt: Callable[[], Awaitable[Version]],
        made: Made | None,
        lease: Lease | None,
    ) -> Version:
        """Make a write; `made` judges the key after an unknown outcome, None does not read it."""
        outcome: Version | Unavailable | None = None
        # The key does not tell a write without `expect` from a later one: that one waits for it.
        # promise[always]: a later write does not overtake an earlier one that is repeated
        if made is not None and not self._unsettled.is_held(key):
            outcome = await self._tried(attempt, lease)
            if not isinstance(outcome, Unavailable):
                return outcome
        async with self._unsettled.held(key):
            if outcome is None:
                outcome = await self._tried(attempt, lease)
            if isinstance(outcome, Unavailable):
                outcome = await self._settled(key, attempt, made, outcome)
        return outcome

    async def _tried(
        self, attempt: Callable[[], Awaitable[Version]], lease: Lease | None
    ) -> Version | Unavailable:
        """Return the outcome of the first attempt; the error if it is unknown."""
        try:
            version = await attempt()
        except Unavailable as error:
            if not _may_pass(error) or (lease is not None and lease.is_lost):
                raise
            return error
        except StorageError:
            # promise: a refusal is an answer: the outage is over
            self._writes.over()
            raise
        self._writes.over()
        return version

    async def _settled(
        self,
        key: str,
        attempt: Callable[[], Awaitable[Version]],
        made: Made | None,
        unknown: Unavailable,
    ) -> Version:
        """Find out whether an attempt took place, and repeat it if it did not.

        The outage is over once the outcome is known, whatever it is.
        """
        refusal: StorageError | None = None
        pauses = self._writes.pauses()
        while True:
            try:
                # promise[made(await self._store.get(key)) -> None]: a write whose answer was lost
                #   is not reported as refused
                version = None if made is None else made(await self._store.get(key))
            except Unavailable as error:
                if not _may_pass(error):
                    raise
                unknown = error
            except BadVersion:
                self._writes.over()  # promise: the outage is over when a write is found refused
                raise
            else:
                if version is not None:
                    self._writes.over()  # promise: the outage is over when a write is found made
                    return version
                if refusal is not None:
                    raise refusal
            pause = next(pauses, None)
            if pause is None:
                raise self._unanswered(key, unknown) from unknown
            await self._pause(pause)
            try:
                version = await attempt()
            except StorageError as error:
                # A refusal is not the outcome yet: an earlier attempt may have taken place since
                # the key was read, and be what has refused this one.
                if _may_pass(error):
                    unknown = error
                else:
                    self._writes.over()  # promise: the outage is over when a repetition is refused
                    refusal = error
            else:
                self._writes.over()
                return version

    def _unanswered(self, key: str, last: Unavailable) -> Unavailable:
        return Unavailable(
            f"{key}: whether it was written is unknown, because the metadata store has not "
            f"answered for {self._writes.seconds:g} seconds: {last}"
        )

    async def _pause(self, seconds: float) -> None:
        promise = self._clock.promise()
        settle = settling(promise)
        timer = self._clock.later(seconds, lambda: settle(None))
        try:
            await promise
        finally:
            timer.cancel()


def _may_pass(error: StorageError) -> TypeGuard[Unavailable]:
    """Return whether a call that failed with this error is to be repeated.

    A full disk is not waited for: nothing was written, and the caller decides what can wait.  A
    process that has ended is not waited for either: its link does not come back.
    """
    return isinstance(error, Unavailable) and not isinstance(error, DiskFull | ProcessUnavailable)


def _put(
    key: str, value: bytes, expect: Version | Absent, found: Versioned | None
) -> Version | None:
    """Judge a put, as `Made` describes."""
    if found is None:
        if isinstance(expect, Absent):
            return None
        raise BadVersion(f"{key}: expected version {expect}, but the key does not exist")
    if found.version == expect:
        return None
    # promise[never]: a write that took place is recognized
    # promise[always]: what another writer has stored is not taken for one's own
    if found.value == value:
        return found.version
    wanted = "no such key" if isinstance(expect, Absent) else f"version {expect}"
    raise BadVersion(f"{key}: expected {wanted}, but it is at version {found.version}")


def _deleted(key: str, expect: Version, found: Versioned | None) -> Version | None:
    """Judge a deletion, as `Made` describes."""
    if found is None:
        return DELETED
    if found.version == expect:
        return None
    raise BadVersion(f"{key}: expected version {expect}, but it is at version {found.version}")
