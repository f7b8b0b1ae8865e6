"""Messages that the application has for the last time: a failure makes them dead letters. Pure.

An entry is delivered as a whole, but its messages fail and are acknowledged one by one.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from magnetar.consuming.ack_tracker import Position
from magnetar.consuming.delivered import ALL, bits_of
from magnetar.messages import Message

_position_of = attrgetter("entry.position")


class LastRound:
    """The messages in the last delivery of each entry, with a bit mask of the failed ones."""

    def __init__(self) -> None:
        self._messages: dict[Position, Sequence[Message]] = {}
        self._failed: dict[Position, int] = {}

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._messages)

    def __contains__(self, position: Position) -> bool:
        return position in self._messages

    def add(self, messages: Iterable[Message]) -> None:
        """Record messages that the application receives for the last time."""
        for position, run in groupby(messages, _position_of):
            known = {message.batch_index: message for message in (*self.of(position), *run)}
            self._messages[position] = list(known.values())

    def of(self, position: Position) -> Sequence[Message]:
        """Return the messages of an entry that the application has received."""
        return self._messages.get(position, ())

    def fail(self, messages: Iterable[Message]) -> None:
        """Record that the application has failed to process these messages."""
        for position, bits in bits_of(messages):
            if position in self._messages:
                self._failed[position] = self._failed.get(position, 0) | bits

    def fail_entry(self, position: Position) -> None:
        """Record that the application has failed to process its messages of this entry."""
        if position in self._messages:
            self._failed[position] = ALL

    def acked(self, position: Position, left: int) -> None:
        """Remove the messages of an entry whose acknowledgement was confirmed, except `left`."""
        if position in self._messages:
            self._keep(position, left)

    def acked_up_to(self, position: Position) -> None:
        """Remove all messages up to this entry, whose acknowledgement the broker has confirmed."""
        for known in [known for known in self._messages if known <= position]:
            self._keep(known, 0)

    def take(self, position: Position, unacked: int) -> list[Message]:
        """Remove and return the messages of an entry that have failed and are in `unacked`."""
        failed = self._failed.pop(position, 0)
        taken = _among(self._messages[position], failed & unacked)
        self._keep(position, unacked & ~failed)
        return taken

    def clear(self) -> None:
        """Remove all messages."""
        self._messages.clear()
        self._failed.clear()

    def _keep(self, position: Position, bits: int) -> None:
        kept = _among(self._messages[position], bits)
        if kept:
            self._messages[position] = kept
        else:
            del self._messages[position]
            self._failed.pop(position, None)


def _among(messages: Iterable[Message], bits: int) -> list[Message]:
    """Return the messages whose bits are set; a message outside a batch needs all bits."""
    return [
        message
        for message in messages
        if (bits == ALL if message.batch_index < 0 else bits >> message.batch_index & 1)
    ]
