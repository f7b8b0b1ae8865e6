"""The open batches of one producer."""

import asyncio

from magnetar.base.errors import MagnetarError
from magnetar.clock import Clock, Timer
from magnetar.messages import MESSAGE_OVERHEAD, Outgoing
from magnetar.producing.batching import (
    Batch,
    Packed,
    SameMessages,
    rides_alone,
    size_of,
    version_of,
)
from magnetar.producing.options import ProducerOptions
from magnetar.producing.outbox import Outbox
from magnetar.producing.outcomes import Outcomes
from magnetar.producing.receipts import Receipt
from magnetar.producing.send_room import SendRoom
from magnetar.transactions.transaction import Transaction


class OpenBatches:
    """Collects messages in one batch, or with key_batching in one for each key.

    A batch is sent when it is full, after the delay of the options, or when nothing else is under
    way to the broker.
    """

    def __init__(
        self,
        partition: int,
        options: ProducerOptions,
        room: SendRoom,
        outcomes: Outcomes,
        outbox: Outbox,
        clock: Clock,
    ) -> None:
        self._partition = partition
        self._limits = options.batching
        self._by_key = options.key_batching
        self._room = room
        self._outcomes = outcomes
        self._outbox = outbox
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._txn: Transaction | None = None
        """The transaction of the batches that are being filled."""
        self._batch = self._new_batch()
        self._keyed: dict[object, Batch] = {}
        self._keyed_messages = self._keyed_bytes = 0
        self._timer: Timer | None = None

    def are_empty(self) -> bool:
        """Tell whether the next message would start a new batch."""
        return not self._batch.messages and not self._keyed

    def add(self, message: bytes | Outgoing, txn: Transaction | None) -> Receipt:
        """Add a message, for which there is room, to a batch of its transaction or of none."""
        # promise[txn is not self._txn -> self._txn is None and txn is not None]: batches never mix
        if txn is not self._txn:
            self._begin(txn)
        alone = rides_alone(message)
        if self._by_key and not alone:
            return self._add_keyed(message)
        if alone or not self._batch.has_room(message, self._limits):
            self.send_batch_now()
        batch = self._batch
        if not isinstance(message, bytes) and message.sequence_id is not None:
            batch = self._batch_before(message.sequence_id)
        receipt = Receipt(batch, batch.add(message), self._partition)
        if txn is not None:
            txn.adds(batch.done, self)
        self._room.take(1, size_of(message))
        if alone or batch.is_full(self._limits):
            self.send_batch_now()
        elif self._timer is None:
            self._schedule()
        return receipt

    def add_packed(
        self, messages: SameMessages | Packed, txn: Transaction | None
    ) -> "asyncio.Future[tuple[int, int]]":
        """Send the messages as one batch at once; return the future of the receipt."""
        self._begin(txn)  # promise[txn -> None]: an encoded batch is in its transaction
        batch = self._new_batch()
        batch.messages = messages
        if isinstance(messages, Packed):
            batch.has_ids = bool(messages.ids)
            batch.size = len(messages) * MESSAGE_OVERHEAD + len(messages.encoded)
        else:
            batch.size = len(messages) * size_of(messages.value)
        batch.is_noticed = True
        if txn is not None:
            txn.adds(batch.done, self)
        self._room.take(len(messages), batch.size)
        self._outbox.send(batch)
        return batch.done

    def send_batch_now(self) -> None:
        """Send the batches that are being filled without waiting for more messages."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._batch.messages:
            batch, self._batch = self._batch, self._new_batch()
            self._outbox.send(batch)
        if self._keyed:
            keyed, self._keyed = self._keyed, {}
            self._keyed_messages = self._keyed_bytes = 0
            for batch in keyed.values():
                self._outbox.send(batch)

    def end(self, error: MagnetarError) -> None:
        """Reject the messages of all open batches with the error."""
        if self._timer is not None:
            self._timer.cancel()
        batches = list(self._keyed.values())
        if self._batch.messages:
            batches.append(self._batch)
        self._batch, self._keyed = self._new_batch(), {}
        for batch in batches:
            self._outcomes.rejected(batch, error)

    def _begin(self, txn: Transaction | None) -> None:
        """Start batches of this transaction, or of none: no batch mixes transactions."""
        self.send_batch_now()
        self._txn = self._batch.txn = txn

    def _new_batch(self) -> Batch:
        return Batch(self._loop.create_future(), self._txn)

    def _batch_before(self, sequence_id: int) -> Batch:
        """Return the batch for a message with this id: the ids in a batch ascend."""
        last = self._batch.ids(self._outbox.next_sequence_id)[-1:]
        if last and sequence_id <= last[0]:
            self.send_batch_now()
        self._batch.has_ids = True
        return self._batch

    def _add_keyed(self, message: bytes | Outgoing) -> Receipt:
        key = None if isinstance(message, bytes) else message.ordering_key or message.key
        batch = self._keyed.get(key)
        if batch is not None and batch.schema_version != version_of(message):
            self.send_batch_now()  # promise: what comes later of the key does not overtake it
            batch = None
        if batch is None:
            batch = self._keyed[key] = self._new_batch()
            if self._txn is not None:
                self._txn.adds(batch.done, self)
        if not isinstance(message, bytes) and message.sequence_id is not None:
            raise ValueError("key_batching numbers messages itself: leave out sequence_id")
        receipt = Receipt(batch, batch.add(message), self._partition)
        size = size_of(message)
        self._room.take(1, size)
        self._keyed_messages += 1
        self._keyed_bytes += size
        limits = self._limits
        if self._keyed_messages >= limits.max_messages or self._keyed_bytes >= limits.max_bytes:
            self.send_batch_now()
        elif self._timer is None:
            self._schedule()
        return receipt

    def _schedule(self) -> None:
        # If nothing is in flight, waiting gains nothing: send at the end of this turn.
        if self._outbox.has_sent():
            delay_s = self._limits.max_delay_ms / 1000
            self._timer = self._clock.later(delay_s, self.send_batch_now)
        else:
            self._timer = self._loop.call_soon(self.send_batch_now)
