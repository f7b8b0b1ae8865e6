"""One consumer of one subscription: its permits and what it was given."""

from typing import TYPE_CHECKING

from magnetar_broker.connection import Connection
from magnetar_broker.meter import Meter
from magnetar_proto.commands import encode_message, encode_messages

if TYPE_CHECKING:
    from magnetar_broker.contracts import AnySubscription

FRAME_OVERHEAD = 40
"""About what a MESSAGE command adds to an entry on the wire."""


class Consumer:
    """`permits` counts messages and may fall below zero by less than one entry."""

    def __init__(
        self,
        connection: Connection,
        consumer_id: int,
        subscription: "AnySubscription",
        name: str,
        priority: int,
        epoch: int,
        connected_ms: int,
    ) -> None:
        self.connection = connection
        self.id = consumer_id
        self.subscription = subscription
        self.name = name
        self.priority = priority
        self.epoch = epoch
        self.permits = 0
        self.unacked = 0
        self.pending: dict[int, int] = {}
        """Shared: the messages not yet acknowledged of each entry given out, by offset."""
        self.blocked = False
        """Shared: too much is unacknowledged; goes on at half the limit."""
        self.closed = False
        self.entries_out = self.messages_out = self.bytes_out = self.messages_acked = 0
        self.messages_redelivered = 0
        self.connected_ms = connected_ms
        self.meter = Meter(4)

    def totals(self) -> tuple[int, int, int, int]:
        """Messages and bytes sent, messages redelivered, entries acknowledged: what is metered."""
        return (self.messages_out, self.bytes_out, self.messages_redelivered, self.messages_acked)

    def can_take(self) -> bool:
        """Whether a message may be sent now."""
        return self.permits > 0 and not self.blocked and self.connection.has_room()

    def give_run(
        self, ledger: int, first_entry: int, partition: int, payloads: list[bytes], messages: int
    ) -> None:
        """Send consecutive whole entries that nothing of was acknowledged or redelivered."""
        if self.epoch >= 0:
            for entry, payload in enumerate(payloads, first_entry):
                self._give_one(ledger, entry, partition, payload, 0, ())
        else:
            frames: list[bytes] = []
            encode_messages(self.id, ledger, first_entry, partition, payloads, frames)
            size = sum(map(len, payloads))
            self.connection.send_all(frames, size + FRAME_OVERHEAD * len(payloads))
            self.bytes_out += size
        self._count(len(payloads), messages)

    def give_entry(
        self,
        ledger: int,
        entry: int,
        partition: int,
        payload: bytes,
        messages: int,
        redelivery_count: int,
        ack_set: tuple[int, ...],
    ) -> None:
        """Send one entry of which `messages` are not acknowledged yet."""
        self._give_one(ledger, entry, partition, payload, redelivery_count, ack_set)
        self._count(1, messages)
        if redelivery_count:
            self.messages_redelivered += messages

    def _give_one(
        self,
        ledger: int,
        entry: int,
        partition: int,
        payload: bytes,
        redelivery_count: int,
        ack_set: tuple[int, ...],
    ) -> None:
        epoch = self.epoch if self.epoch >= 0 else None
        head = encode_message(
            self.id, ledger, entry, partition, payload, redelivery_count, ack_set, epoch
        )
        self.connection.send_all([head, payload], len(head) + len(payload))
        self.bytes_out += len(payload)

    def _count(self, entries: int, messages: int) -> None:
        self.permits -= messages
        self.entries_out += entries
        self.messages_out += messages

    def close(self) -> None:
        """Leave the subscription; what it had pending goes to others."""
        if not self.closed:
            self.closed = True
            self.subscription.remove_consumer(self)

    def disconnect(self) -> None:
        """The broker ends this consumer; the client is told and will come back."""
        if not self.closed:
            self.close()
            self.connection.close_consumer(self.id)
