"""The batches of one producer that wait to be sent."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from magnetar.base.errors import Closed, MagnetarError, MessageTooLarge
from magnetar.clock import Clock
from magnetar.connections.connection import DEFAULT_MAX_MESSAGE_SIZE, Connection
from magnetar.connections.registration import Registration
from magnetar.producing.batching import Batch, ChunkLimits, Packed, Sender
from magnetar.producing.options import ProducerOptions
from magnetar.producing.outcomes import Outcomes
from magnetar.producing.sent_entries import SentEntries


class Outbox:
    """Numbers, encodes and sends batches in order, once the producer is registered."""

    def __init__(
        self,
        registration: Registration,
        options: ProducerOptions,
        sent: SentEntries,
        outcomes: Outcomes,
        clock: Clock,
    ) -> None:
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        """The broker's limit for one entry, in bytes."""
        self.next_sequence_id = 0
        self._topic = registration.topic
        self._registration = registration
        self._options = options
        self._sent = sent
        self._outcomes = outcomes
        self._clock = clock
        self._sender: Sender | None = None
        self._waiting: deque[Batch] = deque()
        """The batches to send once the producer, or its partition in a transaction, is registered.

        Further batches queue behind them, to keep the order."""

    @property
    def is_open(self) -> bool:
        """Whether the outbox has been opened."""
        return self._sender is not None

    def open(self, sender: Sender, last_sequence_id: int) -> None:
        """Encode with this sender from now on, and continue after this sequence id."""
        self._sender = sender
        self.next_sequence_id = last_sequence_id + 1

    def waiting(self) -> list[Batch]:
        """Return the batches that were not sent."""
        return list(self._waiting)

    def has_sent(self) -> bool:
        """Tell whether a receipt is outstanding."""
        return len(self._sent) > 0

    def send(self, batch: Batch) -> None:
        """Send a batch after the batches that already wait."""
        self._waiting.append(batch)
        if len(self._waiting) == 1:
            self.send_waiting()

    def send_waiting(self, registered_on: Connection | None = None) -> None:
        """Send the waiting batches, by default on the registration's connection, if any."""
        while self._waiting:
            try:
                sender = self._sender_of(self._waiting[0])
            except MagnetarError as error:
                self._outcomes.rejected(self._waiting.popleft(), error)
                continue
            if sender is None:
                return
            self._send_by(sender, self._waiting.popleft(), registered_on)

    def end(self, error: MagnetarError) -> None:
        """Reject all waiting batches with the error."""
        waiting, self._waiting = self._waiting, deque()
        for batch in waiting:
            self._outcomes.rejected(batch, error)

    def _sender_of(self, batch: Batch) -> Sender | None:
        """Return the encoder of the batch; None if it must wait until `send_waiting` is called.

        Raises the error for which its transaction cannot accept it.
        """
        sender = self._sender
        if sender is None:
            self._registration.start()  # a lazy producer registers with its first message
            return None
        if batch.txn is not None:
            added = batch.txn.partition(self._topic)
            if not added.done():
                added.add_done_callback(lambda _: self.send_waiting())
                return None
            if added.cancelled():
                raise Closed(f"adding {self._topic} to {batch.txn} was cancelled")
            added.result()
            sender = replace(sender, txn=batch.txn.id)
        if batch.schema_version is not None:
            sender = replace(sender, schema_version=batch.schema_version)
        return sender

    def _send_by(
        self, sender: Sender, batch: Batch, registered_on: Connection | None = None
    ) -> None:
        now_ms = self._clock.now_ms()
        ids = batch.ids(self.next_sequence_id) if batch.has_ids else ()
        first = ids[0] if ids else self.next_sequence_id
        highest = ids[-1] if ids else first + len(batch.messages) - 1
        try:
            frames = self._frames(sender, batch, first, now_ms, ids)
        except Exception as error:  # its receipts must fail, or be awaited for ever
            self._outcomes.rejected(batch, error)
            return
        self.next_sequence_id = highest + 1
        connection = registered_on or self._registration.connection
        self._sent.add(batch, frames, (first, highest), connection)

    def _frames(
        self, sender: Sender, batch: Batch, first: int, now_ms: int, ids: Sequence[int]
    ) -> list[bytes]:
        """Return the frames of a batch: several if it is one message that is sent in chunks."""
        messages = batch.messages
        try:
            return [sender.encode(messages, first, now_ms, self.max_message_size, ids)]
        except MessageTooLarge:
            if not self._options.chunking or isinstance(messages, Packed) or len(messages) > 1:
                raise
        limits = ChunkLimits(self.max_message_size, self._options.max_chunk_bytes)
        return sender.encode_chunks(messages[0], first, now_ms, limits)
