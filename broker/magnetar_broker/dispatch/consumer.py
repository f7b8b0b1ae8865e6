"""Consumers: the request that opens one, its permits and pending entries, and its subscription."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Protocol

from magnetar_broker.base.connection import Connection
from magnetar_broker.base.meter import Meter
from magnetar_broker.base.traffic import Traffic
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.base.wanted import Check, always
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.throttling.dispatch_throttle import DispatchThrottle
from magnetar_proto.acks import Ack
from magnetar_proto.broker_metadata import without_broker_metadata
from magnetar_proto.chunks import chunks_among
from magnetar_proto.deliveries import encode_message
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Done


@dataclass(frozen=True)
class SubscribeRequest:
    """The fields of a SUBSCRIBE command that a topic needs."""

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
    """The consumer's Key_Shared policy; None if it set none: the broker divides the keys."""
    read_compacted: bool = False
    """Deliver only the last message of each key, as far as the topic is compacted."""
    compacted_from: int = 0
    """The offset at which a new subscription with `read_compacted` begins."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Metadata that the client set."""


@dataclass(frozen=True)
class Backlog:
    """The unacknowledged part of a subscription."""

    messages: int
    """The number of messages, those in batches counted one by one, delayed and pending included."""
    entries: int
    size: int = 0
    """The bytes of the entries, estimated as their number times the mean size of each segment."""
    delayed: int = 0
    """The number of delayed messages."""

    @property
    def without_delayed(self) -> int:
        """The number of messages that have been delivered or could be now."""
        return self.messages - self.delayed


Counters = tuple[int, int, int, float, int]
"""Messages and bytes sent, messages redelivered, messages acknowledged, chunks sent."""
NO_COUNTERS: Counters = (0, 0, 0, 0.0, 0)


def added(one: Counters, other: Counters) -> Counters:
    """Return the sums of counters of two consumers."""
    return (
        one[0] + other[0],
        one[1] + other[1],
        one[2] + other[2],
        one[3] + other[3],
        one[4] + other[4],
    )


class CompactedSource(Protocol):
    """The source of compacted entries for dispatchers (`compacted.CompactedReading`)."""

    failure: StorageError | None
    """The reason why the entries cannot be read at present."""

    def first(self) -> int:
        """Return the offset to begin at after a seek or a change of the consumer."""

    def has(self, offset: int) -> bool:
        """Return whether the entries from this offset on are read from compacted data."""

    def give(
        self, consumer: "Consumer", offset: int, room: int, frames: FrameCache, partition: int
    ) -> int:
        """Send about `room` messages from `offset` on; returns the offset to continue at.

        That is `offset` itself while entries are being read.
        """

    def clear(self) -> None:
        """Release the memory: no consumer reads at present."""


class AnyAcknowledgements(Protocol):
    """The acknowledgements of a persistent or a non-persistent subscription."""

    def acknowledge(self, consumer: "Consumer", ack: Ack, done: Done | None) -> None:
        """Apply an ACK; `done` is called when it is durable.  Unknown positions are ignored."""

    def acknowledge_in(self, txn: TxnId, consumer: "Consumer", ack: Ack, done: Done | None) -> None:
        """Apply an ACK within a transaction, or raise the `BrokerError` that refuses it."""


class AnySubscription(Protocol):
    """A subscription of a persistent or a non-persistent topic, as the session uses it."""

    name: str
    type: int

    @property
    def acks(self) -> AnyAcknowledgements:
        """The acknowledgements of the subscription's consumers."""

    @property
    def topic_name(self) -> TopicName:
        """The topic, or the partition."""

    def remove_consumer(self, consumer: "Consumer") -> None:
        """Remove a consumer that left."""

    def flow(self, consumer: "Consumer", permits: int) -> None:
        """Add permits: `permits` more messages may be sent to the consumer."""

    def wake(self) -> None:
        """Send what can be sent now, because a connection has room again."""

    def redeliver(
        self, consumer: "Consumer", ids: list[tuple[int, int]], epoch: int | None
    ) -> None:
        """Send these entries again; without ids, all that the consumer did not acknowledge."""

    async def seek_to_id(
        self, position: MessageId, ack_set: tuple[int, ...], check: Check = always
    ) -> None:
        """Continue with this message; durable on return.  Calls `check` before a change."""

    async def seek_to_time(self, timestamp_ms: int, check: Check = always) -> None:
        """Continue with the first message published at or after a time, likewise."""

    async def settled(self) -> None:
        """Wait until every acknowledgement so far is durable."""

    async def unsubscribe(self, consumer: "Consumer", force: bool) -> None:
        """Delete the subscription; `force` disconnects its other consumers."""

    async def backlog(self) -> Backlog:
        """Return the backlog of the subscription."""

    def mark_delete_id(self) -> MessageId:
        """Return the mark-delete position: everything up to it is acknowledged."""

    async def last_message_id(self, read_compacted: bool = False) -> MessageId:
        """Return the topic's last entry, with the index of its last message if it is a batch."""


class Consumer:
    """A consumer of a connection.

    `permits` counts messages and may become negative, by less than the messages of one entry.
    """

    def __init__(
        self,
        connection: Connection,
        consumer_id: int,
        subscription: AnySubscription,
        name: str,
        priority: int,
        epoch: int,
        traffic: Traffic,
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
        self.keeps_pending = False
        """Whether each entry is pending until it is acknowledged: only for Shared and Key_Shared.
        Other types keep nothing for each entry, and what follows does not change."""
        self.pending: dict[int, int] = {}
        """By offset, the unacknowledged messages of each entry that was sent."""
        self.blocked = False
        """Whether the consumer has reached its limit of unacknowledged messages, until it has half
        of it."""
        self._max_unacked = 0
        self.leaving = False
        """Whether nothing more is sent to the consumer, which is about to be disconnected."""
        self.last_sent = (-1, -1)
        """The ledger and entry that were sent last."""
        self.at_end = False
        self.throttle: DispatchThrottle | None = None
        """Counts all that is sent against dispatch rates, if any apply."""
        self.closed = False
        self.lost = False
        """Whether the consumer was closed because its connection ended."""
        self.messages_out = self.bytes_out = 0
        self.entries_out = 0
        self.messages_redelivered = self.chunks_out = 0
        self.messages_returned = 0
        """The number of messages that ceased to be pending without an acknowledgement."""
        self.messages_acked = 0.0
        """Only where nothing is pending: an acknowledged entry counts as many messages as the mean
        of those that were sent to the consumer."""
        self.connected_ms = traffic.now_ms()
        self.sent_ms = self.acked_ms = self.flow_ms = 0
        """The times of the last message sent, acknowledgement and FLOW; 0 for never."""
        self.first_sent_ms = self.first_flow_ms = 0
        self.traffic = traffic
        self.key_shared = key_shared or KeySharedMeta()
        self.metadata = metadata or {}
        self.takes_any_schema = False
        """Whether the consumer subscribed with AUTO_CONSUME, without a schema of its own."""
        self.bare = False
        """Whether broker entry metadata is removed from entries for this consumer."""
        self.compacted: CompactedSource | None = None
        """The source of entries below the compaction horizon; None unless it reads compacted."""
        self.meter = Meter(5)

    def totals(self) -> Counters:
        """Return the counters for `meter`."""
        acked = self.messages_acked
        if self.keeps_pending:  # no acknowledgement needs to be counted
            acked = float(self.messages_out - self.unacked - self.messages_returned)
        return (
            self.messages_out,
            self.bytes_out,
            self.messages_redelivered,
            acked,
            self.chunks_out,
        )

    def flow(self, permits: int) -> None:
        """Add permits: the consumer has asked for `permits` more messages."""
        self.permits += permits
        self.flow_ms = self.traffic.now_ms()
        if not self.first_flow_ms:
            self.first_flow_ms = self.flow_ms

    def count_acks(self, entries: int) -> int:
        """Count `entries` entries as acknowledged; return the time."""
        if not self.keeps_pending:
            # Not even the number of messages of each entry is kept: the mean of all is close to it.
            sent = self.entries_out
            self.messages_acked += entries * self.messages_out / sent if sent else entries
        self.acked_ms = self.traffic.now_ms()
        return self.acked_ms

    # Pending entries --------------------------------------------------------------

    def keep_pending(self, max_unacked: int) -> None:
        """Keep what is pending, with a limit of unacknowledged messages; 0 means no limit.

        A consumer at the limit is blocked until `unblock` is called with half of it left.
        """
        self.keeps_pending = True
        self._max_unacked = max_unacked
        self.blocked = 0 < max_unacked <= self.unacked

    def hold(self, offsets: Sequence[int], counts: Sequence[int], messages: int) -> None:
        """Add entries that are sent to the consumer; `messages` is the sum of `counts`."""
        self.pending.update(zip(offsets, counts, strict=True))
        self.unacked += messages
        if 0 < self._max_unacked <= self.unacked:
            self.blocked = True

    def release(self, offsets: Iterable[int]) -> int:
        """Remove acknowledged entries, if they are pending; return the number of their messages."""
        # One that is not pending counts as 0: it was acknowledged twice, or another consumer has
        # it.
        messages = sum(map(self.pending.pop, offsets, repeat(0)))
        self.unacked -= messages
        return messages

    def release_part(self, offset: int, messages_left: int) -> int:
        """Remove the acknowledged messages of a pending entry; return their number."""
        before = self.pending[offset]
        messages_left = min(messages_left, before)  # a client may claim more
        if messages_left:
            self.pending[offset] = messages_left
        else:
            del self.pending[offset]
        self.unacked -= before - messages_left
        return before - messages_left

    def take_back(self, offsets: Iterable[int]) -> int:
        """Remove pending entries that were not acknowledged; return the number of messages."""
        # All of them are pending: the dispatcher, not a client, has chosen them.
        messages = sum(map(self.pending.pop, offsets))
        # promise: returned messages do not count as acknowledged
        self.messages_returned += messages
        self.unacked -= messages
        return messages

    def unblock(self) -> bool:
        """Go on at half of the limit; return whether the consumer may, after it was blocked."""
        # The protocol says at half of the limit, not just below it: otherwise every single
        # acknowledgement at the limit would start a delivery of one message.
        # promise[* 2 <= self._max_unacked -> < 0]: a blocked consumer goes on at half of its limit
        if self.unacked * 2 <= self._max_unacked:
            self.blocked = False
        return not self.blocked

    # Sending ----------------------------------------------------------------------

    def can_take(self) -> bool:
        """Return whether a message may be sent now."""
        # The connection is asked last: asking it is a call, and mostly permits decide.
        may = self.permits > 0 and not self.blocked and not self.leaving
        return may and self.connection.has_room()

    def send_run(
        self,
        frames: FrameCache,
        ledger: int,
        first_entry: int,
        payloads: Sequence[bytes],
        messages: int,
    ) -> None:
        """Send consecutive whole entries with redelivery count 0."""
        # From the topic's cache: its other subscriptions send the same bytes in this turn.
        buffers, size, payload_bytes = frames.of(
            self.id, self.epoch, ledger, first_entry, payloads, self.bare
        )
        self.connection.send_all(buffers, size)
        self.last_sent = ledger, first_entry + len(payloads) - 1
        self._count(payloads, messages, payload_bytes)

    def send_scattered(
        self,
        frames: FrameCache,
        ledger: int,
        entries: Sequence[int],
        payloads: Sequence[bytes],
        messages: int,
    ) -> None:
        """Send whole entries of one ledger, ascending, with redelivery count 0 and no epoch."""
        buffers, size, payload_bytes = frames.scattered(
            self.id, ledger, entries, payloads, self.bare
        )
        self.connection.send_all(buffers, size)
        self.last_sent = ledger, entries[-1]
        self._count(payloads, messages, payload_bytes)

    def send_entry(
        self,
        ledger: int,
        entry: int,
        partition: int,
        payload: bytes,
        messages: int,
        redelivery_count: int,
        ack_set: tuple[int, ...],
    ) -> None:
        """Send one entry of which `messages` are not acknowledged."""
        # A client drops what carries an older epoch than its own, so an epoch that it did not set
        # must not be sent.
        epoch = self.epoch if self.epoch >= 0 else None
        if self.bare:
            payload = without_broker_metadata(payload)
        head = encode_message(
            self.id, ledger, entry, partition, payload, redelivery_count, ack_set, epoch
        )
        self.connection.send_all([head, payload], len(head) + len(payload))
        self.last_sent = ledger, entry
        self._count((payload,), messages, len(payload))
        if redelivery_count:
            self.messages_redelivered += messages

    def _count(self, payloads: Sequence[bytes], messages: int, payload_bytes: int) -> None:
        entries, traffic = len(payloads), self.traffic
        # Counted when it is sent: a rate admits a run before its size is known, and the run may
        # exceed what is left.
        if self.throttle is not None:
            self.throttle.count(entries, messages, payload_bytes)
        # promise[messages -> messages + 1]: an entry costs as many permits as it has messages
        self.permits -= messages
        self.messages_out += messages
        self.bytes_out += payload_bytes
        self.entries_out += entries
        # Looking for chunks searches every entry, so it is done only in topics that have had some.
        if traffic.chunked:
            self.chunks_out += len(chunks_among(payloads))
        self.sent_ms = traffic.now_ms()
        if not self.first_sent_ms:
            self.first_sent_ms = self.sent_ms

    def reached_end(self) -> None:
        """Send REACHED_END_OF_TOPIC once: the topic is terminated, everything is acknowledged."""
        # Called for every acknowledgement at the end of a terminated topic.
        if not self.at_end:
            self.at_end = True
            self.connection.reached_end(self.id)

    def close(self) -> None:
        """Leave the subscription; what is pending goes to other consumers."""
        if not self.closed:
            self.closed = True
            self.subscription.remove_consumer(self)

    def disconnect(self, new_owner: str = "") -> None:
        """Close the consumer and notify its client, which reconnects, to `new_owner` if set."""
        if not self.closed:
            # The subscription first: no message may follow the CLOSE_CONSUMER.
            self.close()
            self.connection.close_consumer(self.id, new_owner)
