"""The acknowledgements of a partition that the broker has not confirmed."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from magnetar.connections.connection import Connection
from magnetar.consuming.ack_tracker import Ack, AckTracker, Position, later
from magnetar.consuming.transaction_acks import TransactionAcks


@dataclass(slots=True)
class SentAcks:
    """An ACK that the broker has not answered."""

    connection: Connection
    acks: list[Ack]
    is_cumulative: bool
    frame: bytes
    at_s: float


class UnconfirmedAcks:
    """The acknowledgements that are collected, unanswered, or part of a transaction."""

    def __init__(self, tracker: AckTracker) -> None:
        self.tracker = tracker
        self.unanswered: dict[asyncio.Future[Any], SentAcks] = {}
        self.in_transactions: WeakSet[TransactionAcks] = WeakSet()

    def all(self) -> tuple[list[Ack], Ack | None]:
        """Return the individual acknowledgements, and the last cumulative one."""
        individual, cumulative = self.tracker.collected()
        for acks in self.in_transactions:
            # promise: what a transaction acknowledged is not received again
            individual += acks.unconfirmed()
        for sent in self.unanswered.values():
            if not sent.is_cumulative:
                individual += sent.acks
            else:
                cumulative = later(cumulative, sent.acks[0])
        return individual, cumulative

    def acked_entries(self, positions: Iterable[Position]) -> set[Position]:
        """Return the entries that were acknowledged as a whole, and are not confirmed yet."""
        individual, cumulative = self.all()
        whole = {(ledger, entry) for ledger, entry, ack_set in individual if not ack_set}
        end = (-1, -1) if cumulative is None else cumulative[:2]
        is_whole = cumulative is not None and not cumulative[2]
        return {
            position
            for position in positions
            if position in whole or position < end or (is_whole and position == end)
        }

    def unacked_in(self, position: Position) -> int:
        """Return a bit mask of the unacknowledged messages of an entry; -1 if none is acked."""
        return self.tracker.unacked_in(position)
