"""The entries of one producer without receipt."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from magnetar.base.errors import ConnectionLost, MagnetarError, OperationTimeout
from magnetar.clock import Clock, Timer
from magnetar.connections.connection import Connection
from magnetar.connections.registration import Registration
from magnetar.producing.batching import Batch
from magnetar.producing.outcomes import Outcomes


@dataclass(slots=True)
class _Pending:
    """An entry whose receipt has not arrived."""

    frame: bytes
    sequence_id: int
    highest_sequence_id: int
    batch: Batch
    deadline_s: float
    is_written: bool
    """Whether a broker may have received the entry."""
    is_last: bool
    """Whether the entry is the last chunk of its message, whose outcome it determines."""


class SentEntries:
    """Matches entries and receipts in order, sends again after a loss, and gives up in time."""

    def __init__(
        self, registration: Registration, send_timeout_s: float, outcomes: Outcomes, clock: Clock
    ) -> None:
        self.last_sequence_id = -1
        """The highest sequence id known to be stored; -1 if none is known."""
        self._registration = registration
        self._topic = registration.topic
        self._send_timeout_s = send_timeout_s
        self._outcomes = outcomes
        self._clock = clock
        self._pending: deque[_Pending] = deque()
        self._expiry: Timer | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def batches(self) -> list[Batch]:
        """Return the batches without outcome."""
        return [pending.batch for pending in self._pending]

    def add(
        self,
        batch: Batch,
        frames: Sequence[bytes],
        sequence_ids: tuple[int, int],
        connection: Connection | None,
    ) -> None:
        """Send the frames of a batch with these ids, first and highest, once there is a connection.

        Several frames are the chunks of one message.
        """
        deadline_s = self._clock.now_s() + self._send_timeout_s
        left = len(frames)
        is_written = connection is not None
        for frame in frames:
            left -= 1
            pending = _Pending(frame, *sequence_ids, batch, deadline_s, is_written, left == 0)
            self._pending.append(pending)
            if connection is not None:
                connection.write(frame)
        if self._expiry is None:
            self._expiry = self._clock.at(deadline_s, self._expire)

    def send_again(self, connection: Connection) -> None:
        """Send all entries on a connection where the producer is registered."""
        for pending in self._pending:
            pending.is_written = True
            connection.write(pending.frame)

    # -- outcomes

    def receipt_rcvd(
        self, connection: Connection, sequence_id: int, ledger: int, entry: int
    ) -> bool:
        """Record a receipt; one that is out of turn ends the connection.

        Returns whether it is the outcome of a batch.
        """
        if not self._pending or sequence_id < self._pending[0].sequence_id:
            return False  # the batch was sent twice, or has timed out
        if sequence_id > self._pending[0].sequence_id:
            connection.close(
                ConnectionLost(
                    f"{connection.address} answered {sequence_id} on {self._topic} before "
                    f"{self._pending[0].sequence_id}"
                )
            )
            return False
        pending = self._pending.popleft()
        if not pending.is_last:
            pending.batch.chunk_stored(ledger, entry)
            return False
        took_s = self._clock.now_s() - pending.deadline_s + self._send_timeout_s
        self.last_sequence_id = pending.highest_sequence_id
        self._outcomes.stored(pending.batch, ledger, entry, took_s)
        return True

    def is_first(self, sequence_id: int) -> bool:
        """Tell whether this is an id of the entry whose receipt comes next."""
        if not self._pending:
            return False
        first = self._pending[0]
        return first.sequence_id <= sequence_id <= first.highest_sequence_id

    def give_up_first(self, error: MagnetarError) -> None:
        """Reject the batch whose receipt comes next."""
        pending = self._pending.popleft()
        while not pending.is_last:
            pending = self._pending.popleft()  # the other chunks of the message
        self._outcomes.rejected(pending.batch, error)

    def give_up_in_transactions(self) -> None:
        """Fail batches that a broker may have stored for a transaction, which is then aborted.

        Without deduplication a resent batch would be stored twice, and committed twice.
        """
        kept: deque[_Pending] = deque()
        for pending in self._pending:
            # promise[without or not pending.is_written]: what was not sent is kept
            if pending.batch.txn is None or not pending.is_written:
                kept.append(pending)
            elif pending.is_last:
                error = ConnectionLost(
                    f"{self._topic}: the connection broke before the receipt of a message of "
                    f"{pending.batch.txn}, which cannot be committed any more: begin another one"
                )
                self._outcomes.rejected(pending.batch, error)
        self._pending = kept

    def _expire(self) -> None:
        self._expiry = None
        now_s = self._clock.now_s()
        refusal = self._registration.refusal
        while self._pending and self._pending[0].deadline_s <= now_s:
            self.give_up_first(
                OperationTimeout(
                    f"no receipt from {self._topic} within {self._send_timeout_s:g} s; "
                    "whether the message was stored is unknown"
                    f"{'' if refusal is None else f'; the producer is refused: {refusal}'}"
                )
            )
        if self._pending:
            self._expiry = self._clock.at(self._pending[0].deadline_s, self._expire)

    def end(self, error: MagnetarError) -> None:
        """Reject all batches with the error, because no receipt will arrive."""
        if self._expiry is not None:
            self._expiry.cancel()
        while self._pending:
            self.give_up_first(error)
