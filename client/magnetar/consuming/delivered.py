"""The messages of a partition that the application has: no redelivery is needed. Pure."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice, takewhile
from operator import attrgetter

from magnetar.consuming.ack_tracker import Ack, Position
from magnetar.messages import Message
from magnetar_proto.ids import ack_set_to_mask

_entry_of = attrgetter("entry")

ALL = -1
"""The bit mask that stands for all messages of an entry."""
MAX_HELD = 100_000
"""The number of entries remembered; beyond it, the oldest tenth may be redelivered."""


class DeliveredMessages:
    """Bit masks, by entry, of messages that are dropped when the broker delivers them again.

    `add` records messages that the application has received, and `add_acks` those that it has
    acknowledged.  They stay until the broker has confirmed the acknowledgement (`acked`), or until
    their redelivery is requested (`release`, `keep`).
    """

    def __init__(self, limit: int = MAX_HELD) -> None:
        self._limit = limit
        self._bits: dict[Position, int] = {}
        self._last: Position = (-1, -1)
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._bits)

    def bits(self, position: Position) -> int:
        """Return a bit mask of the messages of this entry that the application has."""
        return self._bits.get(position, 0)

    def add(self, messages: Iterable[Message]) -> None:
        """Record messages that the application has received."""
        for position, bits in bits_of(messages):
            self._add(position, bits)

    def add_acks(self, acks: Iterable[Ack]) -> None:
        """Record individual acknowledgements that the broker has not confirmed."""
        for ledger, entry, ack_set in acks:
            self._add((ledger, entry), ~ack_set_to_mask(ack_set) if ack_set else ALL)

    def acked(self, acks: Iterable[Ack], is_cumulative: bool) -> None:
        """Remove acknowledgements that the broker has confirmed: a redelivery then has a reason."""
        for ledger, entry, ack_set in acks:
            position = (ledger, entry)
            if is_cumulative:
                self._remove_before(position)
            left = self._bits.get(position, 0) & (ack_set_to_mask(ack_set) if ack_set else 0)
            if left:
                self._bits[position] = left
            else:
                self._bits.pop(position, None)

    def release(self, messages: Iterable[Message]) -> None:
        """Remove messages, so that a redelivery is accepted."""
        for position, bits in bits_of(messages):
            left = self._bits.get(position, 0) & ~bits
            if left:
                self._bits[position] = left
            else:
                self._bits.pop(position, None)

    def release_entry(self, position: Position) -> None:
        """Remove a whole entry, so that a redelivery is accepted."""
        self._bits.pop(position, None)

    def keep(self, acks: Iterable[Ack], up_to: Ack | None) -> None:
        """Remove all messages except these acknowledged ones, and except those up to `up_to`."""
        before, self._bits = self._bits, {}
        self._last, self._is_sorted = (-1, -1), True
        if up_to is not None:
            ledger, entry, ack_set = up_to
            for position in sorted(known for known in before if known < (ledger, entry)):
                self._add(position, before[position])
            self.add_acks([(ledger, entry, ack_set)])
        self.add_acks(acks)

    def _add(self, position: Position, bits: int) -> None:
        known = self._bits.get(position)
        if known is not None:
            self._bits[position] = known | bits
            return
        if position < self._last:  # a redelivery; `_remove_before` sorts when it needs to
            self._is_sorted = False
        self._last = position
        self._bits[position] = bits
        if len(self._bits) > self._limit:
            # Remove many at a time: each removal makes it slower to find the first of a dict.
            for oldest in list(islice(self._bits, len(self._bits) - self._limit * 9 // 10)):
                del self._bits[oldest]

    def _remove_before(self, position: Position) -> None:
        if not self._is_sorted:  # as after an operator has reset the subscription
            # promise: a cumulative confirmation covers what came in another order
            self._bits = dict(sorted(self._bits.items()))
            self._is_sorted = True
            self._last = next(reversed(self._bits), (-1, -1))
        for known in list(takewhile(lambda one: one < position, self._bits)):
            del self._bits[known]


def bits_of(messages: Iterable[Message]) -> Iterator[tuple[Position, int]]:
    """Yield entries with a bit mask of their messages; for a message in parts, all its entries."""
    for entry, run in groupby(messages, _entry_of):
        bits = 0
        for message in run:
            index = message.batch_index
            bits |= ALL if index < 0 else 1 << index
        for position in entry.chunks or ((entry.ledger, entry.entry),):
            yield position, bits
