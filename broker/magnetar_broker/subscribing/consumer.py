"""Consumers: what one asks for, what it was given, and what it may ask of its subscription."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from magnetar_broker.connection import Connection
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.dispatch.throttle import Throttle
from magnetar_broker.meter import Meter
from magnetar_proto.acks import Ack
from magnetar_proto.deliveries import encode_message
from magnetar_proto.ids import MessageId
from magnetar_storage.errors import StorageError
from magnetar_storage.world import Done


@dataclass(frozen=True)
class SubscribeRequest:
    """What a SUBSCRIBE asks of a topic."""

    subscription: str
    type: int
    consumer_id: int
    consumer_name: str
    priority: int = 0
    epoch: int = -1
    durable: bool = True
    earliest: bool = False
    start: MessageId | None = None
    rollback_seconds: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    key_shared: KeySharedMeta | None = None
    """None when the consumer says nothing: the broker divides the keys."""
    read_compacted: bool = False
    """Of each key only the latest message, as far as the topic was compacted."""
    compacted_from: int = 0
    """The offset to begin at then, if the subscription is new."""
    metadata: dict[str, str] = field(default_factory=dict)
    """What the consumer tells about itself."""


@dataclass(frozen=True)
class Backlog:
    """What a subscription has not acknowledged, in messages (batches unfolded)."""

    messages: int
    """All of them, delayed ones and those with consumers included."""
    entries: int
    size: int = 0
    """Bytes of those entries: segment by segment their number times the mean size."""
    delayed: int = 0
    """Messages that are to be delivered later."""

    @property
    def without_delayed(self) -> int:
        """Messages that could be delivered now, or have been."""
        return self.messages - self.delayed


class CompactedSource(Protocol):
    """Compacted entries for the consumers of one subscription that read compacted."""

    failure: StorageError | None
    """Why they cannot be read at present."""

    def first(self) -> int:
        """The offset to begin at after the cursor was moved, or the consumer changed."""

    def has(self, offset: int) -> bool:
        """Whether the entries from this offset on are to be read here."""

    def give(
        self, consumer: "Consumer", offset: int, room: int, frames: FrameCache, partition: int
    ) -> int:
        """Send about `room` messages from `offset` on; returns where to go on: the same to wait."""

    def clear(self) -> None:
        """Give back the memory: nobody reads at present."""


class AnySubscription(Protocol):
    """A subscription as its consumers' connections see it."""

    name: str
    type: int

    def remove_consumer(self, consumer: "Consumer") -> None:
        """A consumer left."""

    def flow(self, consumer: "Consumer", permits: int) -> None:
        """The consumer can take so many messages more."""

    def wake(self) -> None:
        """Send what can be sent now: a connection has room again."""

    def acknowledge(self, consumer: "Consumer", ack: Ack, done: Done | None) -> None:
        """Apply an ACK; `done` comes when it is durable.  Positions that are not there are none."""

    def redeliver(
        self, consumer: "Consumer", ids: list[tuple[int, int]], epoch: int | None
    ) -> None:
        """Send again what the consumer did not acknowledge: these entries, or all of them."""

    async def seek_to_id(self, position: MessageId, ack_set: tuple[int, ...]) -> None:
        """Continue with this message; durable on return."""

    async def seek_to_time(self, timestamp_ms: int) -> None:
        """Continue with the first message published at or after a time; durable on return."""

    async def settled(self) -> None:
        """Wait until every acknowledgement so far is durable."""

    async def unsubscribe(self, consumer: "Consumer", force: bool) -> None:
        """Remove the subscription; `force` disconnects its other consumers."""

    async def backlog(self) -> Backlog:
        """What is not acknowledged."""

    def mark_delete_id(self) -> MessageId:
        """Where the cursor is."""

    async def last_message_id(self, read_compacted: bool = False) -> MessageId:
        """The topic's last entry, with the index of its last message if it is a batch."""


class Consumer:
    """`permits` counts messages and may fall below zero by less than one entry."""

    def __init__(
        self,
        connection: Connection,
        consumer_id: int,
        subscription: AnySubscription,
        name: str,
        priority: int,
        epoch: int,
        connected_ms: int,
        key_shared: KeySharedMeta | None = None,
        metadata: Mapping[str, str] | None = None,
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
        self.at_end = False
        self.throttle: Throttle | None = None
        """Told of all that is sent, if there are limits on how fast that may be."""
        self.closed = False
        self.lost = False
        """Closed because its connection was."""
        self.messages_out = self.bytes_out = 0
        self.messages_redelivered = 0
        self.connected_ms = connected_ms
        self.key_shared = key_shared or KeySharedMeta()
        self.metadata = metadata or {}
        self.takes_any_schema = False
        """Whether it asks for whatever schema there is, and none of its own."""
        self.compacted: CompactedSource | None = None
        """Where entries below the horizon come from, if it reads compacted."""
        self.meter = Meter(3)

    def totals(self) -> tuple[int, int, int]:
        """Messages and bytes sent, messages redelivered: what is metered."""
        return (self.messages_out, self.bytes_out, self.messages_redelivered)

    def can_take(self) -> bool:
        """Whether a message may be sent now."""
        return self.permits > 0 and not self.blocked and self.connection.has_room()

    def give_run(
        self,
        frames: FrameCache,
        ledger: int,
        first_entry: int,
        payloads: Sequence[bytes],
        messages: int,
    ) -> None:
        """Send consecutive whole entries that nothing of was acknowledged or redelivered."""
        buffers, size, payload_bytes = frames.of(self.id, self.epoch, ledger, first_entry, payloads)
        self.connection.send_all(buffers, size)
        self._count(len(payloads), messages, payload_bytes)

    def give_scattered(
        self,
        frames: FrameCache,
        ledger: int,
        entries: Sequence[int],
        payloads: Sequence[bytes],
        messages: int,
    ) -> None:
        """The same for entries that do not follow each other, the lowest first; without epoch."""
        buffers, size, payload_bytes = frames.scattered(self.id, ledger, entries, payloads)
        self.connection.send_all(buffers, size)
        self._count(len(payloads), messages, payload_bytes)

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
        epoch = self.epoch if self.epoch >= 0 else None
        head = encode_message(
            self.id, ledger, entry, partition, payload, redelivery_count, ack_set, epoch
        )
        self.connection.send_all([head, payload], len(head) + len(payload))
        self._count(1, messages, len(payload))
        if redelivery_count:
            self.messages_redelivered += messages

    def _count(self, entries: int, messages: int, payload_bytes: int) -> None:
        if self.throttle is not None:
            self.throttle.took(entries, messages, payload_bytes)
        self.permits -= messages
        self.messages_out += messages
        self.bytes_out += payload_bytes

    def reached_end(self) -> None:
        """Its topic is terminated, and nothing is left for it; the client is told once."""
        if not self.at_end:
            self.at_end = True
            self.connection.reached_end(self.id)

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
