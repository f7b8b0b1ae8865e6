"""Acknowledgements that have not been sent to the broker. Pure.

A batch is one entry to the broker: it is acknowledged as a whole, or by a bitset of the
messages that are *not* acknowledged yet.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Protocol, TypeVar

from magnetar.messages import Entry, Message
from magnetar_proto.ids import MessageId, ack_set_to_mask, mask_to_ack_set

T = TypeVar("T")
_entry_of = attrgetter("entry")

MAX_SIZES = 10_000
"""The most batches, and messages in parts, whose messages can be acknowledged by id.

When this number is reached, the oldest tenth is forgotten.
"""

Position = tuple[int, int]
"""The ledger id and the entry id of an entry."""
Ack = tuple[int, int, tuple[int, ...]]
"""Ledger, entry, and the ack set: () for the whole entry."""


class AckEnd(Protocol):
    """Receives the outcome of acknowledgements."""

    def acked(self, acks: list[Ack], is_cumulative: bool) -> None:
        """Called when the broker has confirmed acknowledgements."""

    def possibly_lost(self, acks: list[Ack]) -> None:
        """Called when individual acknowledgements may have been lost; they are sent again."""

    def refused(self, acks: list[Ack], is_cumulative: bool) -> None:
        """Called when the broker has refused acknowledgements, which are not sent again."""

    @property
    def subscription(self) -> str:
        """The name of the subscription."""


class AckTracker:
    """Collects the acknowledgements of one partition; `take` returns those to be sent.

    Acknowledgements that were taken and not confirmed must be returned with `restore`.  Without
    `batch_indexes`, a batch is acknowledged once all of its messages are.
    """

    def __init__(self, batch_indexes: bool = True) -> None:
        self._batch_indexes = batch_indexes
        self._whole: set[Position] = set()
        self._partial: set[Position] = set()
        self._unacked: dict[Position, int] = {}
        self._cumulative: Ack | None = None
        self._sizes: dict[Position, int] = {}
        """The number of messages of each batch that is not completely acknowledged."""
        self._acked_sizes: dict[Position, int] = {}
        """The sizes of the batches acknowledged last; a batch that is redelivered is removed."""
        self._parts: dict[Position, Sequence[Position]] = {}
        """The entries of each chunked message, by the last one, which the message's id names."""

    def __len__(self) -> int:
        """Return the number of entries that have acknowledgements to send."""
        return len(self._whole) + len(self._partial) + (self._cumulative is not None)

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge each of the messages; runs from one entry cost little."""
        for entry, run in groupby(messages, _entry_of):
            if entry.is_batch:
                acked = 0
                for message in run:
                    acked |= 1 << message.batch_index
                self._ack_in_batch(entry.position, entry.unacked, acked)
            elif entry.chunks:
                # promise[update(entry.chunks) -> add(entry.position)]: all chunks of a message are
                #   acknowledged
                self._whole.update(entry.chunks)
                self._parts.pop(entry.position, None)
            else:
                self._whole.add(entry.position)

    def delivered(self, entry: Entry) -> None:
        """Remember a batch, or a message in parts, which allows acknowledgement by id."""
        if entry.is_batch:
            self._acked_sizes.pop(entry.position, None)
            _remember(self._sizes, entry.position, entry.metadata.num_messages_in_batch)
        elif entry.chunks:
            _remember(self._parts, entry.position, entry.chunks)

    def ack_id(self, message_id: MessageId) -> None:
        """Acknowledge the message of an id; ValueError if its batch is not known."""
        if message_id.batch_index < 0:
            for entry in self.entries_of(message_id):
                self.ack_entry(entry)
            return
        if message_id[:2] in self._acked_sizes:
            return  # the whole batch is acknowledged, and its bits are forgotten
        bits = (1 << self.size_of(message_id)) - 1
        self._ack_in_batch(message_id[:2], bits, 1 << message_id.batch_index)

    def entries_of(self, message_id: MessageId) -> Sequence[Position]:
        """Return the entries of the message of an id: several if it came in parts."""
        position = message_id[:2]
        # promise[self._parts.get(position, (position,)) -> (position,)]: an id of a batch
        #   acknowledges all its parts
        return self._parts.get(position, (position,))

    def unacked_in(self, position: Position) -> int:
        """Return a bit mask of the unacknowledged messages of an entry; -1 if none is acked."""
        return 0 if position in self._whole else self._unacked.get(position, -1)

    def size_of(self, message_id: MessageId) -> int:
        """Return the size of the batch of an id; 0 if the id is that of an entry of no known batch.

        ValueError if the id is that of a message whose batch is not known.
        """
        position, index = message_id[:2], message_id.batch_index
        size = self._sizes.get(position, 0) or self._acked_sizes.get(position, 0)
        if index < 0 or index < size:
            return size
        if size:
            raise ValueError(f"{message_id} is beyond its batch, which has {size} messages")
        raise ValueError(
            f"{message_id} is in a batch that this consumer has not received: acknowledge the "
            f"message itself, or its whole entry by MessageId{position}"
        )

    def ack_up_to_id(self, message_id: MessageId) -> None:
        """Acknowledge all messages up to and including the one with this id.

        In a batch that is not known nothing is acknowledged: its size decides what is left of it.
        """
        try:
            ack = self.up_to(message_id)
        except ValueError:
            self._acknowledge_before(message_id[:2])
            return
        if ack[2] and not self._batch_indexes:
            self._acknowledge_before(message_id[:2])
        else:
            self._acknowledge_up_to(ack)

    def up_to(self, message_id: MessageId) -> Ack:
        """Return the acknowledgement of all messages up to and including the one with this id.

        ValueError if the message is in a batch that is not known.
        """
        ledger, entry, index, _ = message_id
        left = 0
        if index >= 0:
            left = (1 << self.size_of(message_id)) - (1 << (index + 1))
        return ledger, entry, mask_to_ack_set(left)

    def ack_entry(self, position: Position) -> None:
        """Acknowledge a whole entry, with all messages in it."""
        self._unacked.pop(position, None)
        size = self._sizes.pop(position, 0)
        if size:
            _remember(self._acked_sizes, position, size)
        self._parts.pop(position, None)
        self._partial.discard(position)
        self._whole.add(position)

    def _ack_in_batch(self, position: Position, delivered: int, acked: int) -> None:
        unacked = self._unacked.get(position, delivered) & ~acked
        if unacked:
            self._unacked[position] = unacked
            if self._batch_indexes:  # else the broker is told once the batch is complete
                self._partial.add(position)
        else:
            self.ack_entry(position)

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge all messages up to and including this one."""
        ledger, entry = message.entry.position
        remaining = 0
        if message.batch_index >= 0:
            count = message.entry.metadata.num_messages_in_batch
            remaining = (1 << count) - (1 << (message.batch_index + 1))
        # Without batch indexes the batch stays unacknowledged as long as a message is left.
        if remaining and not self._batch_indexes:
            self._acknowledge_before((ledger, entry))
        else:
            self._acknowledge_up_to((ledger, entry, mask_to_ack_set(remaining)))

    def ack_up_to_entry(self, position: Position) -> None:
        """Acknowledge all entries up to and including this one."""
        self._acknowledge_up_to((*position, ()))

    def _acknowledge_before(self, position: Position) -> None:
        # Before the first entry of a ledger this is -1, as other clients send it: the ledgers
        # before it are acknowledged.
        ledger, entry = position
        self._acknowledge_up_to((ledger, entry - 1, ()))

    def _acknowledge_up_to(self, ack: Ack) -> None:
        self._cumulative = later(self._cumulative, ack)

    def take(self) -> list[Ack]:
        """Remove and return the individual acknowledgements; the broker merges repeated bitsets."""
        acks: list[Ack] = [(ledger, entry, ()) for ledger, entry in sorted(self._whole)]
        for position in sorted(self._partial):
            acks.append((*position, mask_to_ack_set(self._unacked[position])))
        self._whole.clear()
        self._partial.clear()
        return acks

    def collected(self) -> tuple[list[Ack], Ack | None]:
        """Return the individual and cumulative acknowledgements to send, without removing them."""
        acks: list[Ack] = [(ledger, entry, ()) for ledger, entry in self._whole]
        acks += [
            (*position, mask_to_ack_set(self._unacked[position])) for position in self._partial
        ]
        return acks, self._cumulative

    def take_cumulative(self) -> Ack | None:
        """Remove and return the cumulative acknowledgement to send; None if nothing is due."""
        ack, self._cumulative = self._cumulative, None
        return ack

    def restore(self, acks: Iterable[Ack], is_cumulative: bool) -> None:
        """Collect acknowledgements again whose answer did not come."""
        for ack in acks:
            ledger, entry, ack_set = ack
            if is_cumulative:
                self._acknowledge_up_to(ack)
            elif not ack_set:
                self._whole.add((ledger, entry))
            elif (ledger, entry) not in self._whole:
                # Others may have been acknowledged since, or `begin_again` forgot the batch.
                left = ack_set_to_mask(ack_set)
                # promise[without & left]: a lost acknowledgement of a part leaves the others
                #   unacknowledged
                unacked = self._unacked.get((ledger, entry), left) & left
                self._unacked[ledger, entry] = unacked
                self._partial.add((ledger, entry))
                if not unacked:
                    self.ack_entry((ledger, entry))

    def begin_again(self) -> None:
        """Prepare for a redelivery: each entry comes with an ack set of what is left of it."""
        # Acknowledged parts that the broker knows come back as ack sets; the others are kept.
        if self._batch_indexes:
            self._unacked = {position: self._unacked[position] for position in self._partial}


def _remember(known: dict[Position, T], position: Position, value: T) -> None:
    if len(known) >= MAX_SIZES:
        # Remove many at a time: each removal makes it slower to find the first of a dict.
        for oldest in list(islice(known, MAX_SIZES // 10)):
            del known[oldest]
    known[position] = value


def later(one: Ack | None, other: Ack) -> Ack:
    """Return the one of two cumulative acknowledgements that covers more."""
    return one if one is not None and _end_of(one) >= _end_of(other) else other


def _end_of(ack: Ack) -> tuple[int, int, int]:
    # Inside one batch, the acknowledgement that leaves fewer messages is the later one.
    ledger, entry, ack_set = ack
    return ledger, entry, -ack_set_to_mask(ack_set)
