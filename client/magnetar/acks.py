"""Acknowledgements that were not sent to the broker yet. Pure.

A batch is one entry to the broker: it is acknowledged as a whole, or by a bitset of the
messages that are *not* acknowledged yet.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from magnetar.messages import Entry, Message
from magnetar_proto.ids import ack_set_to_mask, mask_to_ack_set

_entry_of = attrgetter("entry")

Position = tuple[int, int]
"""Ledger and entry."""
Ack = tuple[int, int, tuple[int, ...]]
"""Ledger, entry, and the ack set: () for the whole entry."""


class AckTracker:
    """Collects acknowledgements of one partition; `take` hands out what must be sent.

    What was taken and not confirmed must be given back with `restore`.
    """

    def __init__(self) -> None:
        self._whole: set[Position] = set()
        self._partial: set[Position] = set()
        self._unacked: dict[Position, int] = {}
        self._cumulative: Ack | None = None

    def __len__(self) -> int:
        """How many entries have acknowledgements to send."""
        return len(self._whole) + len(self._partial) + (self._cumulative is not None)

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge each of the messages; runs from one entry cost little."""
        for entry, run in groupby(messages, _entry_of):
            if entry.is_batch:
                acked = 0
                for message in run:
                    acked |= 1 << message.batch_index
                self._ack_in_batch(entry, acked)
            else:
                self._whole.add(entry.position)

    def ack_entry(self, position: Position) -> None:
        """Acknowledge a whole entry, whatever it holds."""
        self._unacked.pop(position, None)
        self._partial.discard(position)
        self._whole.add(position)

    def _ack_in_batch(self, entry: Entry, acked: int) -> None:
        position = entry.position
        unacked = self._unacked.get(position, entry.unacked) & ~acked
        if unacked:
            self._unacked[position] = unacked
            self._partial.add(position)
        else:
            self.ack_entry(position)

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge everything up to the message, itself included."""
        ledger, entry = message.entry.position
        remaining = 0
        if message.batch_index >= 0:
            count = message.entry.metadata.num_messages_in_batch
            remaining = (1 << count) - (1 << (message.batch_index + 1))
        self._acknowledge_up_to((ledger, entry, mask_to_ack_set(remaining)))

    def _acknowledge_up_to(self, ack: Ack) -> None:
        if self._cumulative is None or _end_of(ack) > _end_of(self._cumulative):
            self._cumulative = ack

    def take(self) -> list[Ack]:
        """The individual acknowledgements to send; the broker combines repeated bitsets."""
        acks: list[Ack] = [(ledger, entry, ()) for ledger, entry in sorted(self._whole)]
        for position in sorted(self._partial):
            acks.append((*position, mask_to_ack_set(self._unacked[position])))
        self._whole.clear()
        self._partial.clear()
        return acks

    def take_cumulative(self) -> Ack | None:
        """The cumulative acknowledgement to send, if any."""
        ack, self._cumulative = self._cumulative, None
        return ack

    def restore(self, acks: Iterable[Ack], is_cumulative: bool) -> None:
        """Send these again: their answer did not come."""
        for ack in acks:
            ledger, entry, ack_set = ack
            if is_cumulative:
                self._acknowledge_up_to(ack)
            elif not ack_set:
                self._whole.add((ledger, entry))
            elif (ledger, entry) in self._unacked:
                self._partial.add((ledger, entry))

    def begin_anew(self) -> None:
        """Entries will be delivered again, each with an ack set of what is left of its batch."""
        self._unacked = {position: self._unacked[position] for position in self._partial}


def _end_of(ack: Ack) -> tuple[int, int, int]:
    # Of two acknowledgements inside one batch the one that leaves fewer messages is later.
    ledger, entry, ack_set = ack
    return ledger, entry, -ack_set_to_mask(ack_set)
