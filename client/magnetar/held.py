"""Which messages of a partition the application has: they need not be delivered again. Pure."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice, takewhile
from operator import attrgetter

from magnetar.acks import Ack, Position
from magnetar.messages import Message
from magnetar_proto.ids import ack_set_to_mask

_entry_of = attrgetter("entry")

ALL = -1
"""As bits: every message of an entry."""
MAX_HELD = 100_000
"""Entries that are remembered; of more the oldest tenth may be delivered again."""


class Held:
    """By entry, as bits, the messages that are left out if the broker delivers them again.

    `add` says that the application was given messages, and `add_acks` that it has acknowledged
    them.  They stay until the broker has confirmed the acknowledgement (`acked`), or until they
    are wanted again (`release`, `keep`).
    """

    def __init__(self, limit: int = MAX_HELD) -> None:
        self._limit = limit
        self._bits: dict[Position, int] = {}
        self._last: Position = (-1, -1)
        self._is_sorted = True

    def __len__(self) -> int:
        return len(self._bits)

    def bits(self, position: Position) -> int:
        """The messages of this entry that the application has."""
        return self._bits.get(position, 0)

    def add(self, messages: Iterable[Message]) -> None:
        """The application was given these."""
        for position, bits in bits_of(messages):
            self._add(position, bits)

    def add_acks(self, acks: Iterable[Ack]) -> None:
        """The application has acknowledged these, each by itself; it is not confirmed yet."""
        for ledger, entry, ack_set in acks:
            self._add((ledger, entry), ~ack_set_to_mask(ack_set) if ack_set else ALL)

    def acked(self, acks: Iterable[Ack], is_cumulative: bool) -> None:
        """The broker has confirmed these: if it delivers them again, that has a reason."""
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
        """Have these delivered again."""
        for position, bits in bits_of(messages):
            left = self._bits.get(position, 0) & ~bits
            if left:
                self._bits[position] = left
            else:
                self._bits.pop(position, None)

    def release_entry(self, position: Position) -> None:
        """Have a whole entry delivered again."""
        self._bits.pop(position, None)

    def keep(self, acks: Iterable[Ack], up_to: Ack | None) -> None:
        """Have all delivered again but these, and but what is not behind `up_to`."""
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
        if position < self._last:
            self._is_sorted = False
        self._last = position
        self._bits[position] = bits
        if len(self._bits) > self._limit:
            # Many at a time: finding the first of a dict takes longer the more were removed there.
            for oldest in list(islice(self._bits, len(self._bits) - self._limit * 9 // 10)):
                del self._bits[oldest]

    def _remove_before(self, position: Position) -> None:
        if not self._is_sorted:  # as after a seek of the operator to what was delivered before
            # promise: a cumulative confirmation covers what came in another order
            self._bits = dict(sorted(self._bits.items()))
            self._is_sorted = True
            self._last = next(reversed(self._bits), (-1, -1))
        for known in list(takewhile(lambda one: one < position, self._bits)):
            del self._bits[known]


def bits_of(messages: Iterable[Message]) -> Iterator[tuple[Position, int]]:
    """By entry, the messages as bits; each entry of a message in parts has `ALL`."""
    for entry, run in groupby(messages, _entry_of):
        bits = 0
        for message in run:
            index = message.batch_index
            bits |= ALL if index < 0 else 1 << index
        for position in entry.chunks or ((entry.ledger, entry.entry),):
            yield position, bits
