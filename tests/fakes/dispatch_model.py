"""All operations on a subscription, as steps that check the deliveries."""

from collections.abc import Coroutine
from typing import Any, NamedTuple

from fakes.connection import RecordingConnection
from fakes.dispatch_oracle import Client, Oracle, Published
from fakes.pace import Pace
from fakes.topics import FAILOVER, TopicWorld
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.expiry.trimming import trim_topic
from magnetar_broker.policies.table import SUBSCRIPTION_DISPATCH_RATE
from magnetar_broker.policies.values import DispatchRate
from magnetar_broker.subscriptions.finding import first_since
from magnetar_broker.subscriptions.skipping import expire_before, skip_all, skip_messages
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from magnetar_proto.ids import MessageId, mask_to_ack_set

LATEST = MessageId((1 << 63) - 1, (1 << 63) - 1)


class Kind(NamedTuple):
    """The kind of an entry."""

    key: int = 0
    delay_ms: int = 0
    chunks: int = 0
    """The number of entries that are the chunks of one message; 0 for an ordinary entry."""


class DispatchModel(Oracle):
    """Drives one subscription of a `TopicWorld`.  Steps that are impossible at present do nothing.

    `which` chooses a client, `pick` one of its pending entries.
    """

    def __init__(self, world: TopicWorld, sub_type: int, out_of_order: bool = False) -> None:
        super().__init__(world, sub_type)
        self.meta = KeySharedMeta(out_of_order=out_of_order)
        self.join(0)
        self.leave(0)  # the subscription exists from the start

    # Publishing -----------------------------------------------------------------------

    def publish(self, *kinds: Kind) -> None:
        """Publish entries of one to four messages, and chunks, in one run."""
        first = len(self.entries)
        for kind in kinds:
            uuid = f"message {len(self.entries)}"
            for number in range(kind.chunks or 1):
                one = self._made(kind, number, uuid)
                self._offsets[one.payload] = len(self.entries)
                self.entries.append(one)
        published = self.entries[first:]
        self.world.publish(
            *(one.payload for one in published), counts=[one.count for one in published]
        )
        self.check()

    def _made(self, kind: Kind, number: int, uuid: str) -> Published:
        offset = len(self.entries)
        count = 1 if kind.chunks else offset % 4 + 1
        metadata = pb.MessageMetadata(
            producer_name="p", sequence_id=offset, publish_time=offset, partition_key=str(kind.key)
        )
        if count > 1:
            metadata.num_messages_in_batch = count
        deliver_at_ms, chunk = 0, None
        if kind.delay_ms:
            deliver_at_ms = self.world.clock.now_ms() + kind.delay_ms
            metadata.deliver_at_time = deliver_at_ms
        if kind.chunks:
            metadata.uuid, metadata.chunk_id, chunk = uuid, number, (uuid, number)
            metadata.num_chunks_from_msg = kind.chunks
        payload = encode_entry(metadata, b"%d" % offset)
        return Published(payload, count, kind.key, deliver_at_ms, chunk)

    # Joining and leaving --------------------------------------------------------------

    def join(self, priority: int, beside: int | None = None) -> None:
        """Add a consumer; on the connection of another one, if `beside` names it."""
        if self.clients and not self.shared and self.type != FAILOVER:
            return
        before, other = self.active(), None if beside is None else self._client(beside)
        connection = other.connection if other else RecordingConnection()
        consumer = self.world.subscribe(
            connection, sub_type=self.type, priority=priority, key_shared=self.meta
        )
        self.clients.append(Client(consumer, connection))
        self._changed_from(before)

    def leave(self, which: int) -> None:
        client = self._client(which)
        if client is not None:
            self._gone([client])

    def lose(self, which: int) -> None:
        """End a connection, with all consumers on it."""
        client = self._client(which)
        if client is not None:
            self._gone([c for c in self.clients if c.connection is client.connection])

    def _gone(self, leaving: list[Client]) -> None:
        before = self.active()
        self.clients = [c for c in self.clients if c not in leaving]
        for client in leaving:
            client.consumer.close()
        self._changed_from(before)

    def crash(self) -> None:
        """Crash the broker; only durable state is there after the restart."""
        self.clients.clear()
        self.world.crash()
        self.position = 0
        self.pace = Pace(self.pace.rate, self.world.clock.now_ms())
        self.survived()

    # Flow -----------------------------------------------------------------------------

    def limit(self, rate: int) -> None:
        """Limit the rate to `rate` messages per second; 0: no limit."""
        if rate != self.pace.rate:
            self.pace = Pace(rate, self.world.clock.now_ms())
        setting = DispatchRate(rate, -1, 1, False) if rate else None
        self.world.do(
            self.world.policies.set(self.world.name, {SUBSCRIPTION_DISPATCH_RATE: setting})
        )
        self.world.do(self.world.topic.policies_changed())
        self.check()

    def flow(self, which: int, permits: int) -> None:
        client = self._client(which)
        if client is not None:
            client.permits += permits
            client.consumer.subscription.flow(client.consumer, permits)
            self.check()

    def jam(self, which: int, room: bool) -> None:
        """Make a connection full, or give it room again."""
        client = self._client(which)
        if client is not None:
            client.connection.room = room
            if room:
                client.consumer.subscription.wake()
            self.check()

    # Acknowledging --------------------------------------------------------------------

    def ack(self, which: int, pick: int, answered: bool = True) -> None:
        """Acknowledge one entry, by any consumer."""
        offset = self._pick(which, pick)
        if offset is not None:
            self.acked(offset, 0)
            self._ack(which + pick, [offset], answered)

    def ack_many(self, which: int, step: int, answered: bool = True) -> None:
        """Acknowledge several entries in one command, whichever consumers have them."""
        some = self.held(*self.clients)[:: step % 3 + 1]
        if some:
            for offset in some:
                self.acked(offset, 0)
            self._ack(which, some, answered)

    def ack_part(self, which: int, pick: int, answered: bool = True) -> None:
        """Acknowledge one message of a batch."""
        offset = self._pick(which, pick)
        if offset is not None:
            one = self.entries[offset]
            unacked = one.whole & ~(1 << pick % one.count)
            self.acked(offset, one.left & unacked)
            words = mask_to_ack_set(unacked) or (0,)
            self._ack(which, [offset], answered, ack_set=words)

    def ack_again(self, which: int, pick: int) -> None:
        """Acknowledge entries that are acknowledged already, or were trimmed."""
        gone = [offset for offset, one in enumerate(self.entries) if not one.left]
        if self.clients and gone:
            self._ack(which, [gone[pick % len(gone)]], answered=True)

    def ack_up_to(self, which: int, pick: int, part: bool) -> None:
        """Acknowledge cumulatively, maybe into a batch; shared subscriptions ignore that."""
        offset = self._pick(which, pick)
        if offset is None:
            return
        one = self.entries[offset]
        unacked = one.whole >> 1 << 1 if part else 0  # its first message alone, or all of it
        if not self.shared:
            for before in range(offset):
                self.acked(before, 0)
            self.acked(offset, one.left & unacked)
        words = mask_to_ack_set(unacked)
        self._ack(which, [offset], answered=True, cumulative=True, ack_set=words)

    def _ack(
        self, which: int, offsets: list[int], answered: bool,
        cumulative: bool = False, ack_set: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        client = self.clients[which % len(self.clients)]
        outcome = self.world.ack(
            client.consumer, *offsets, cumulative=cumulative, ack_set=ack_set, answered=answered
        )
        if answered:
            assert outcome == [None]
            self.durable()
        self.check()

    # Redelivery -----------------------------------------------------------------------

    def nack(self, which: int, pick: int) -> None:
        """Request one entry again, or all chunks of one; a single active consumer rewinds."""
        offset = self._pick(which, pick)
        if offset is not None:
            client, one = self.clients[which % len(self.clients)], self.entries[offset]
            more = [o for o in self.held(client) if o != offset and self._goes_with(one, o)]
            self._nack(client, [offset, *more])

    def nack_all(self, which: int) -> None:
        client = self._client(which)
        if client is not None:
            self._nack(client, [])

    def _nack(self, client: Client, offsets: list[int]) -> None:
        wanted = offsets or sorted(client.outstanding)
        if self.shared:
            for offset in wanted:
                self.entries[offset].asked_again()
            client.outstanding -= set(wanted)
        elif client is self.active():
            self.position = 0
            client.outstanding.clear()
        self.world.nack(client.consumer, *offsets, *offsets)  # named twice is named once
        self.check()

    def seek(self, target: int, keep: int) -> None:
        """Seek to any message, also of a batch; consumers with other entries are disconnected."""
        topic, end = self.world.topic, len(self.entries)
        offset = max(target % (end + 1), topic.log.first_offset)
        mask = 0
        if offset < end:
            mask = self.entries[offset].whole >> keep % self.entries[offset].count
        position = MessageId(*topic.log.position(offset)) if offset < end else LATEST
        whole = offset == end or mask == self.entries[offset].whole
        ack_set = () if whole else mask_to_ack_set(mask)
        self._moved_to(offset, mask)
        self._seek(self.world.subscription().seek_to_id(position, ack_set))

    def seek_to_time(self, target: int) -> None:
        """Seek to a time; entry n was published at n."""
        offset = max(target % (len(self.entries) + 1), self.world.topic.log.first_offset)
        self._moved_to(offset, self.entries[offset].whole if offset < len(self.entries) else 0)
        self._seek(self.world.subscription().seek_to_time(offset))

    def _moved_to(self, offset: int, mask: int) -> None:
        holes = self.world.topic.log.holes
        for at, one in enumerate(self.entries):
            one.restore()
            if at < offset or at in holes:
                one.left = 0
        if mask and offset not in holes:
            self.entries[offset].left = mask

    def _seek(self, seeking: Coroutine[Any, Any, None]) -> None:
        before = self.active()
        sent_away = [c for c in self.clients if self.shared or c is before]
        self.clients = [c for c in self.clients if c not in sent_away]
        self.position = 0
        self.world.do(seeking)
        for client in sent_away:
            assert client.consumer.closed
            assert client.connection.closed_consumers.count(client.consumer.id) == 1
        assert not any(client.consumer.closed for client in self.clients)
        self.durable()
        self._changed_from(before)

    # Skipping -------------------------------------------------------------------------

    def expire(self, target: int) -> None:
        """Expire entries published before a time: entry n was published at n."""
        log = self.world.topic.log
        stop = self.world.do(first_since(self.world.topic.log, target % (len(self.entries) + 1)))
        assert stop >= min(target % (len(self.entries) + 1), log.end)
        left = sum(one.left.bit_count() for one in self.entries[:stop])
        for offset in range(stop):
            self.acked(offset, 0)
        assert self.world.do(expire_before(self.world.subscription(), stop)) == left
        self.durable()
        self.check()

    def skip(self, messages: int) -> None:
        """Skip the oldest messages, maybe part of a batch, whose rest stays pending."""
        missing = messages
        for offset, one in enumerate(self.entries):
            left = one.left
            while left and missing:
                left, missing = left & (left - 1), missing - 1
            self.acked(offset, left)
        self.world.do(skip_messages(self.world.subscription(), messages))
        self.durable()
        self.check()

    def skip_all(self) -> None:
        """Skip everything, pending or not."""
        for offset in range(len(self.entries)):
            self.acked(offset, 0)
        self.world.do(skip_all(self.world.subscription()))
        self.durable()
        self.check()

    # Maintenance and end -------------------------------------------------------------------

    def trim(self) -> None:
        """Trim and reclaim acknowledged entries."""
        self.world.do(trim_topic(self.world.topic))
        log = self.world.topic.log
        gone = [*range(log.first_offset), *(n for one in log.holes for n in range(*one))]
        assert not any(self.entries[n].left for n in gone), "trimmed what is needed"
        self.check()

    def advance(self, seconds: int) -> None:
        if seconds:
            self.pass_time(seconds)

    def drain(self) -> None:
        """Check that everything gets acknowledged by consumers that receive and acknowledge."""
        if not self.clients:
            self.join(0)
        for _ in range(4 * len(self.entries) + 8):
            for which, client in enumerate(self.clients):
                self.jam(which, True)
                if client.permits < 10:
                    self.flow(which, 10)
                for offset in self.held(client):
                    if self.entries[offset].left:
                        self.acked(offset, 0)
                        self.world.ack(client.consumer, offset)
            self.settle()
            if not any(one.left for one in self.entries):
                break
        assert not any(one.left for one in self.entries), "the subscription went silent"
        cursor = self.world.subscription().cursor
        assert (cursor.mark_delete, cursor.is_plain) == (len(self.entries) - 1, True)
        assert not cursor.redelivered
        assert all(client.consumer.unacked == 0 for client in self.clients)
        assert self.world.subscription().dispatcher.in_replay == 0

    # Choices --------------------------------------------------------------------------

    def _changed_from(self, before: Client | None) -> None:
        if self.active() is not before:
            self.position = 0
        self.check()

    def _client(self, which: int) -> Client | None:
        return self.clients[which % len(self.clients)] if self.clients else None

    def _pick(self, which: int, pick: int) -> int | None:
        """Return one of the entries that a client holds."""
        client = self._client(which)
        held = self.held(client) if client else []
        return held[pick % len(held)] if held else None
