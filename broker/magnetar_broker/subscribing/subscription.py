"""A subscription: a cursor, the consumers that share it, and the dispatcher between them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from magnetar_broker.dispatch.base import Blocker, Dispatcher, Stream
from magnetar_broker.dispatch.compacted import CompactedReading, Start
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.dispatch.shared import Shared
from magnetar_broker.dispatch.single_active import SingleActive
from magnetar_broker.dispatch.throttle import Throttle
from magnetar_broker.subscribing.acknowledging import ack_each, ack_up_to
from magnetar_broker.subscribing.backlog import BacklogCounter
from magnetar_broker.subscribing.consumer import Backlog, Consumer, SubscribeRequest
from magnetar_broker.subscribing.consumer_group import EXCLUSIVE, ConsumerGroup
from magnetar_broker.subscribing.seeking import seek, seek_to_id, seek_to_time
from magnetar_broker.subscribing.subscribed_topic import SubscribedTopic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack
from magnetar_proto.ids import MessageId
from magnetar_storage.cursor import Cursor
from magnetar_storage.cursor_log import DurableCursor
from magnetar_storage.sides import IDLENESS
from magnetar_storage.world import Done, Promise

INDIVIDUAL = 0

DISPATCHERS: dict[int, Callable[[Stream], Dispatcher]] = {
    EXCLUSIVE: partial(SingleActive, failover=False),
    pb.CommandSubscribe.Failover: partial(SingleActive, failover=True),
    pb.CommandSubscribe.Shared: Shared,
}
"""All but Key_Shared, whose dispatcher depends on its consumers' policy."""
KEY_SHARED = pb.CommandSubscribe.Key_Shared


class Subscription:
    """One name on one topic; `type` may change while no consumer is connected."""

    def __init__(self, topic: SubscribedTopic, name: str, cursor: Cursor) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.durable = isinstance(cursor, DurableCursor)
        topic.log.skip_holes(cursor)
        self.consumers = ConsumerGroup(name, topic.limits.max_consumers_per_subscription)
        self.type: int = EXCLUSIVE
        self._stream = Stream(
            topic.name,
            topic.log,
            topic.frames,
            cursor,
            topic.limits,
            self.durable,
            topic.delays,
            self._throttle(),
        )
        self.dispatcher: Dispatcher = DISPATCHERS[self.type](self._stream)
        self.messages_expired = self.last_expired_ms = 0
        self.joined = 0
        """How many consumers have come so far."""
        self._messages_out = self._bytes_out = 0  # sent to consumers that have left
        self.moving: Promise | None = None
        self.reading: CompactedReading | None = None
        self._counter = BacklogCounter(topic.log, cursor)

    def limits_changed(self) -> None:
        """The topic has other limits, or rates: keep to them from now on; nobody is sent away."""
        limits, throttle = self.topic.limits, self._throttle(self._stream.throttle)
        self.consumers.limit = limits.max_consumers_per_subscription
        self._stream = replace(self._stream, limits=limits, throttle=throttle)
        for consumer in self.consumers:
            consumer.throttle = throttle
        self.dispatcher.keep_to(self._stream)

    def _throttle(self, before: Throttle | None = None) -> Throttle | None:
        """What limits how fast it may deliver, if anything does."""
        rates = self.topic.rates
        if rates is None:
            return None
        limits = rates.of_subscription(self.name, before.limits if before else ())
        if not limits:
            return None
        behind = None if self.topic.limits.throttle_caught_up else self._entries_behind
        return Throttle(limits, self.wake, self.topic.limits.throttle_entries, behind)

    def _entries_behind(self) -> int:
        return self.topic.log.end - self.dispatcher.read_offset

    # Consumers --------------------------------------------------------------------

    async def admit(self, request: SubscribeRequest) -> None:
        """Make sure that one more consumer may join, else `ConsumerBusy`, `ConsumerUnassigned`."""
        wanted = request.key_shared or KeySharedMeta()
        while True:
            while self.moving is not None:
                await self.moving
            await self.consumers.admit(self.type, request)
            rival = self._become(request.type, wanted)
            if rival is None:
                return
            await self.consumers.oust(rival)

    def _become(self, sub_type: int, wanted: KeySharedMeta) -> Consumer | None:
        """Deliver as an admitted consumer wants it; who has to go before it may join."""
        if sub_type != KEY_SHARED:
            if self.type != sub_type:
                self.type, self.dispatcher = sub_type, DISPATCHERS[sub_type](self._stream)
            return None
        self.consumers.check_key_policy(wanted)
        dispatcher = self.dispatcher
        if not (isinstance(dispatcher, KeyShared) and dispatcher.meta.policy == wanted.policy):
            self.type = sub_type
            self.dispatcher = dispatcher = KeyShared(self._stream, wanted)
        return dispatcher.rival(wanted)

    def join(self, consumer: Consumer) -> None:
        """Add an admitted consumer."""
        self._used()
        self.consumers.add(consumer)
        consumer.throttle = self._stream.throttle
        self.dispatcher.add(consumer)

    def _used(self) -> None:
        """Somebody has come: it is not idle."""
        self.joined += 1
        idleness = self.topic.idleness
        if idleness is None or not isinstance(self.cursor, DurableCursor):
            return
        if idleness.used(self.cursor):
            self.topic.cursors.side_changed(IDLENESS)

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer left."""
        self.consumers.remove(consumer)
        if consumer.lost and self.topic.limits.count_lost_as_redelivery:
            self.cursor.count_redelivery(list(consumer.pending))
            self._write_soon()
        self._messages_out += consumer.messages_out
        self._bytes_out += consumer.bytes_out
        self.dispatcher.remove(consumer)
        self.forget_if_unused()

    # Flow and acknowledgement -------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """The consumer can take so many messages more."""
        consumer.permits += permits
        self.dispatcher.dispatch()
        if self.topic.log.terminated:
            self.tell_end()

    def wake(self) -> None:
        """Send what can be sent now."""
        self.dispatcher.dispatch()

    def acknowledge(self, consumer: Consumer, ack: Ack, done: Done | None) -> None:
        """Apply an ACK; `done` comes when it is durable.  Positions that are not there are none."""
        if ack.ack_type == INDIVIDUAL:
            ack_each(self, consumer, ack.message_ids)
        elif self.dispatcher.exclusive_acks and len(ack.message_ids) == 1:
            ack_up_to(self, *ack.message_ids[0])
        if isinstance(self.cursor, DurableCursor):
            self.topic.cursors.changed(self.cursor, done)
        elif done is not None:
            done(None)
        if self.topic.log.terminated:
            self.tell_end()

    def redeliver(self, consumer: Consumer, ids: list[tuple[int, int]], epoch: int | None) -> None:
        """Send again what the consumer did not acknowledge: these entries, or all of them."""
        if epoch is not None and self.dispatcher.exclusive_acks and epoch > consumer.epoch:
            consumer.epoch = epoch
        if ids:
            offsets = (self.topic.log.offset_of(ledger, entry) for ledger, entry in ids)
            self.dispatcher.redeliver(consumer, [o for o in offsets if o is not None])
        else:
            self.dispatcher.redeliver(consumer, None)
        self._write_soon()

    def _write_soon(self) -> None:
        """The cursor knows more than the disk."""
        if isinstance(self.cursor, DurableCursor):
            self.topic.cursors.changed(self.cursor)

    # Moving the cursor ----------------------------------------------------------------

    async def seek_to_id(self, position: MessageId, ack_set: tuple[int, ...]) -> None:
        """Continue with this message; `ack_set` tells which of its batch are still wanted."""
        await seek_to_id(self, position, ack_set)

    async def seek_to_time(self, timestamp_ms: int) -> None:
        """Continue with the first message published at or after a time."""
        await seek_to_time(self, timestamp_ms)

    async def seek(self, offset: int, mask: int | None = None) -> None:
        """Make `offset` the next entry, of which `mask` says what is wanted; durable on return."""
        await seek(self, offset, mask)

    def skip(self, *runs: range, partly: tuple[int, int] | None = None) -> None:
        """Count entries as acknowledged although no consumer did; await `settled` for the disk.

        `partly` is one more entry, and which of its messages are still wanted.
        """
        for run in runs:
            self.cursor.ack(run)
        if partly is not None:
            self.cursor.ack_batch(*partly)
        self.dispatcher.skipped()
        self._write_soon()
        if self.topic.log.terminated:
            self.tell_end()

    def tell_end(self) -> None:
        """The topic is terminated: once nothing is left, its consumers are told so, once."""
        if self.cursor.mark_delete >= self.topic.log.end - 1:
            for consumer in self.consumers:
                consumer.reached_end()

    # Reading compacted ----------------------------------------------------------------

    @property
    def compacted(self) -> CompactedReading:
        """Where consumers find what is below the horizon that read compacted."""
        if self.reading is None:
            view = self.topic.compaction.view
            self.reading = CompactedReading(view, self.topic.log, self.cursor, self.wake)
            if isinstance(self.cursor, DurableCursor):
                self.reading.start = Start.of(self.cursor.properties)
        return self.reading

    def forget_if_unused(self) -> None:
        """A non-durable subscription ends with its last consumer, but not while it is moved."""
        if not self.durable and not self.consumers and self.moving is None:
            self.topic.subscriptions.forget(self)

    async def settled(self) -> None:
        """Wait until every acknowledgement so far is durable."""
        if self.durable:
            await self.topic.cursors.durable()

    async def unsubscribe(self, consumer: Consumer, force: bool) -> None:
        """Remove the subscription; `force` disconnects its other consumers."""
        self.consumers.disconnect_others(consumer, force)
        consumer.close()
        await self.topic.subscriptions.remove(self)

    async def last_message_id(self, read_compacted: bool = False) -> MessageId:
        """The topic's last entry; below the horizon the last one left, for who reads compacted."""
        if read_compacted:
            last = await self.topic.compaction.last_message_id()
            if last is not None:
                return last
        return await self.topic.last_message_id()

    def mark_delete_id(self) -> MessageId:
        """Where the cursor is."""
        return MessageId(*self.topic.log.position(self.cursor.mark_delete))

    # Numbers --------------------------------------------------------------------------

    def sent(self) -> tuple[int, int]:
        """Messages and bytes that its consumers have been sent so far."""
        messages, size = self._messages_out, self._bytes_out
        for consumer in self.consumers:
            messages += consumer.messages_out
            size += consumer.bytes_out
        return messages, size

    async def backlog(self) -> Backlog:
        """What is not acknowledged, exactly, whether batched or not.

        Nothing counts as delayed where a consumer is connected that does not wait.
        """
        waits = not (self.dispatcher.exclusive_acks and self.consumers)
        return await self._counter.count(self._stream.delays.waiting if waits else None)

    async def nth_unacked(self, messages: int) -> tuple[int, int | None]:
        """Where to continue to have skipped so many messages: an entry, and what of it is left."""
        return await self._counter.nth(messages)

    def unacked_bytes(self) -> int:
        """Bytes of what is not acknowledged, from the mean size of each segment's entries."""
        return self._counter.size()

    def offset_leaving(self, size: int) -> int:
        """The first offset from which on no more than so many bytes are not acknowledged."""
        return self._counter.offset_leaving(size)

    async def published_ms(self, offset: int) -> int | None:
        """When an entry was published, if that can be read."""
        return await self._counter.published_ms(offset)

    def next_unacked(self) -> int:
        """The first entry that is not acknowledged; the end if all are."""
        return min(self.cursor.next_unacked(self.topic.log.first_offset), self.topic.log.end)

    async def oldest_ms(self) -> int | None:
        """When the oldest message that is not acknowledged was published, if that can be read."""
        return await self._counter.oldest_ms()

    def unacked_entries(self) -> int:
        """Entries of which something is not acknowledged."""
        return self._counter.entries()

    def why_not_delivering(self) -> Blocker:
        """What keeps the subscription from delivering at this moment."""
        return self.dispatcher.blocker()
