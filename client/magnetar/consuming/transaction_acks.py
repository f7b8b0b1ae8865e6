"""The acknowledgements that one transaction has in one partition."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from magnetar.base.errors import ConnectionLost, OperationTimeout, TransactionConflict
from magnetar.clock import Clock, Timer
from magnetar.connections.connection import Connection
from magnetar.connections.registration import Registration
from magnetar.consuming.ack_tracker import Ack, AckEnd, AckTracker, Position, later
from magnetar.messages import Message
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.ids import MessageId, ack_set_to_mask, mask_to_ack_set

MAX_ACKS = 1000
"""The most entries in one command; acknowledgements are sent when this many are collected."""
ALL = -1
"""The bit mask that stands for all messages of an entry."""

_entry_of = attrgetter("entry")


class AbortEnd(Protocol):
    """Prepares for the redelivery of messages that an aborted transaction has acknowledged."""

    def transaction_aborts(self) -> None:
        """Called before the broker redelivers messages acknowledged in a transaction."""

    def transaction_aborted(self, rest: list[Position]) -> None:
        """Called when that redelivery has begun; the broker did not know the acks of `rest`."""


class TransactionAcks:
    """Collects acknowledgements of a transaction, and sends them after a delay or when many.

    The broker holds them until the transaction ends.  Acknowledging a message twice in it is a
    conflict: the application has received, and processed, the message twice.
    """

    def __init__(
        self,
        txn: Transaction,
        consumer_id: int,
        registration: Registration,
        end: AckEnd,
        abort_end: AbortEnd,
        delay_s: float,
        tracker: AckTracker,
        clock: Clock,
    ) -> None:
        self._txn = txn
        self._id = consumer_id
        self._registration = registration
        self._end = end
        self._abort_end = abort_end
        self._delay_s = delay_s
        self._tracker = tracker
        self._clock = clock
        self._timer: Timer | None = None
        self._acked: dict[Position, int] = {}
        """Bit masks of the acknowledged messages, by entry."""
        self._unsent: dict[Position, int] = {}
        self._sizes: dict[Position, int] = {}
        """The number of messages in each batch."""
        self._up_to: Ack | None = None
        self._sent_up_to: Ack | None = None
        self._confirmed: dict[Position, int] = {}
        self._answers: set[asyncio.Future[Any]] = set()

    # -- for the consumer

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages when the transaction is committed."""
        self._txn.check_open()
        for entry, run in groupby(messages, _entry_of):
            if entry.is_batch:
                bits = 0
                for message in run:
                    bits |= 1 << message.batch_index
                self._sizes[entry.position] = entry.metadata.num_messages_in_batch
                self._add(entry.position, bits)
            else:
                for position in entry.chunks or (entry.position,):
                    self._add(position, ALL)
        self._schedule()

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge all messages up to and including this one when the transaction commits."""
        self._txn.check_open()
        ledger, entry = message.entry.position
        left = 0
        if message.batch_index >= 0:
            size = message.entry.metadata.num_messages_in_batch
            self._sizes[ledger, entry] = size
            left = (1 << size) - (1 << (message.batch_index + 1))
        self._up_to = later(self._up_to, (ledger, entry, mask_to_ack_set(left)))
        self._schedule()

    def ack_id(self, message_id: MessageId) -> None:
        """Acknowledge the message of this id when the transaction is committed.

        ValueError if it is in a batch that this consumer has not received.
        """
        self._txn.check_open()
        size = self._tracker.size_of(message_id)
        for position in self._tracker.entries_of(message_id):
            if size:
                self._sizes[position] = size
            whole = (1 << size) - 1 if size else ALL
            index = message_id.batch_index
            # promise[without 1 << index if index >= 0 else]: an id of a part is acknowledged alone
            self._add(position, 1 << index if index >= 0 else whole)
        self._schedule()

    def ack_up_to_id(self, message_id: MessageId) -> None:
        """Acknowledge all messages up to and including the one with this id when it commits.

        ValueError if it is in a batch that this consumer has not received.
        """
        self._txn.check_open()
        ack = self._tracker.up_to(message_id)
        if ack[2]:
            self._sizes[ack[:2]] = self._tracker.size_of(message_id)
        self._up_to = later(self._up_to, ack)
        self._schedule()

    def unconfirmed(self) -> list[Ack]:
        """Return the acknowledgements the broker may not know: drop them on redelivery."""
        found = []
        for position, bits in self._acked.items():
            missing = bits & ~self._confirmed.get(position, 0)
            if missing:
                found.append(self._ack_of(position, missing))
        return found

    def detached(self) -> None:
        """Stop waiting for answers, which a closed consumer does not get: acks are sent again."""
        for answer in list(self._answers):
            answer.cancel()

    def _add(self, position: Position, bits: int) -> None:
        known = self._acked.get(position, 0)
        if known & bits:  # promise: a message is acknowledged once in a transaction
            ledger, entry = position
            why = (
                f"a message of entry {ledger}:{entry} of {self._registration.topic} was "
                f"acknowledged in {self._txn} before: it was received twice"
            )
            self._txn.failed(TransactionConflict(pb.TransactionConflict, why))
        self._acked[position] = known | bits
        self._unsent[position] = self._unsent.get(position, 0) | bits & ~known

    def _schedule(self) -> None:
        if len(self._unsent) >= MAX_ACKS:
            self.send()
        elif self._timer is None:
            self._timer = self._clock.later(self._delay_s, self.send)

    # -- for the transaction

    def send(self) -> None:
        """Send the collected acknowledgements; the transaction waits for the answers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # The broker keeps the last cumulative position, so an unchanged one is not repeated.
        if self._up_to is not None and self._up_to != self._sent_up_to:
            self._sent_up_to = self._up_to
            self._txn.waits_for(self._deliver([self._up_to], is_cumulative=True))
        unsent, self._unsent = self._unsent, {}
        acks = [self._ack_of(position, bits) for position, bits in sorted(unsent.items())]
        for first in range(0, len(acks), MAX_ACKS):
            some = acks[first : first + MAX_ACKS]
            self._txn.waits_for(self._deliver(some, is_cumulative=False))

    def committed(self) -> None:
        """Record that the broker has acknowledged all messages."""
        if self._up_to is not None:
            self._end.acked([self._up_to], is_cumulative=True)

    def aborts(self) -> None:
        """Prepare for the redelivery of the acknowledged messages."""
        self._abort_end.transaction_aborts()

    def aborted(self) -> None:
        """Request the redelivery of messages whose acknowledgement the broker does not know."""
        acks = self.unconfirmed()
        self._acked.clear()
        self._end.refused(acks, is_cumulative=False)
        if self._up_to is not None:
            # promise: what was acknowledged cumulatively is given back
            self._end.refused([self._up_to], is_cumulative=True)
        self._abort_end.transaction_aborted(sorted((ledger, entry) for ledger, entry, _ in acks))

    # -- sending

    def _ack_of(self, position: Position, bits: int) -> Ack:
        size = self._sizes.get(position)
        # promise[((1 << size) - 1) & ~bits -> 0]: a part of a batch is acknowledged alone
        left = 0 if size is None else ((1 << size) - 1) & ~bits
        return (*position, mask_to_ack_set(left))

    def _bits_of(self, position: Position, ack_set: Sequence[int]) -> int:
        size = self._sizes.get(position)
        return ALL if size is None else ((1 << size) - 1) & ~ack_set_to_mask(ack_set)

    async def _deliver(self, acks: list[Ack], is_cumulative: bool) -> None:
        try:
            await self._txn.add_subscription(self._registration.topic, self._end.subscription)
            while not await self._is_answered(acks, is_cumulative):
                if not is_cumulative:  # the broker may know it, and may deliver it again
                    self._end.possibly_lost(acks)
        except BaseException:
            if not is_cumulative:
                self._end.refused(acks, is_cumulative=False)
            raise
        if not is_cumulative:  # a cumulative one may be redelivered until the commit
            for ledger, entry, ack_set in acks:
                bits = self._bits_of((ledger, entry), ack_set)
                known = self._confirmed.get((ledger, entry), 0)
                self._confirmed[ledger, entry] = known | bits
            self._end.acked(acks, is_cumulative=False)

    async def _is_answered(self, acks: list[Ack], is_cumulative: bool) -> bool:
        """Send a command; tell whether it was answered, or must be resent.  Raises a refusal."""
        connection = await self._txn.in_time(self._registration.ready(), "acknowledging")
        if not connection.is_open:
            await asyncio.sleep(0)  # until the consumer knows that, too
            return False
        command = self._command(acks, is_cumulative)
        command.request_id, answer = connection.expect()
        self._answers.add(answer)
        connection.write(encode(command))
        try:
            async with self._clock.timeout(self._txn.operation_timeout_s):
                await asyncio.wait([answer])
        except TimeoutError:
            raise OperationTimeout(
                f"{self._registration.topic}: acknowledgements of {self._txn} were not answered "
                f"within {self._txn.operation_timeout_s:g} s"
            ) from None
        finally:
            self._answers.discard(answer)
        # promise: a lost acknowledgement in a transaction is sent again
        if answer.cancelled() or _is_lost(answer, connection):
            return False
        answer.result()
        return True

    def _command(self, acks: list[Ack], is_cumulative: bool) -> pb.CommandAck:
        most, least = self._txn.id
        command = pb.CommandAck(
            consumer_id=self._id,
            ack_type=pb.CommandAck.Cumulative if is_cumulative else pb.CommandAck.Individual,
            txnid_most_bits=most,
            txnid_least_bits=least,
        )
        for ledger, entry, ack_set in acks:
            one = command.message_id.add(ledgerId=ledger, entryId=entry)
            size = self._sizes.get((ledger, entry))
            if size is not None:
                # With an ack set the broker detects that a message of the batch is acknowledged.
                one.ack_set.extend(ack_set or (0,))
                one.batch_size = size
        return command


def _is_lost(answer: asyncio.Future[Any], connection: Connection) -> bool:
    error = answer.exception()
    return isinstance(error, ConnectionLost) and not connection.is_open
