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

    @property
    def pending_bytes(self) -> int:
        """The bytes of all runs that are not reported yet, queued or in flight.

        Nothing limits it here: who appends does, and stops before it is too much.
        """

    @property
    def next_slot(self) -> int:
        """The number that the next slot will have."""

    @property
    def confirmed(self) -> int:
        """The number of slots that are durable and reported: all below this number are."""

    @property
    def failure(self) -> StorageError | None:
        """The error that ended the writer; None while it works.  `Fenced`: the session is over."""

    @property
    def trouble(self) -> StorageError | None:
        """The error of the last upload, which is tried again, or `failure`; None if all is well."""

    def when_fenced(self, call: Callable[[], None]) -> None:
        """Call once when the session is over, after all runs were reported; now if it is."""

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

    def hold(self, held: bool) -> None:
        """Pause or resume the beginning of uploads, while too much waits to be settled."""

    async def flush(self) -> None:
        """Wait until all runs appended before are reported, without the linger; raise `failure`."""

    async def close(self) -> None:
        """Refuse further runs, wait until all before are reported, and until no upload runs.

        Errors were reported to the runs, and are not raised.
        """
