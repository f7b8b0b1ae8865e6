"""A subscription: a cursor, the consumers that share it, and the dispatcher between them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from magnetar_broker.base.errors import UnknownError
from magnetar_broker.base.meter import Meter
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.base.wanted import Check, always
from magnetar_broker.dispatch.base import Dispatcher, Stream
from magnetar_broker.dispatch.compacted import CompactedReading, Start
from magnetar_broker.dispatch.consumer import (
    NO_COUNTERS,
    Backlog,
    Consumer,
    SubscribeRequest,
    added,
)
from magnetar_broker.dispatch.key_selection import KeySharedMeta
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.dispatch.shared import Shared
from magnetar_broker.dispatch.single_active import SingleActive
from magnetar_broker.subscriptions.acknowledging import Acknowledgements
from magnetar_broker.subscriptions.backlog import BacklogCounter
from magnetar_broker.subscriptions.consumer_group import EXCLUSIVE, ConsumerGroup
from magnetar_broker.subscriptions.finding import last_message_id
from magnetar_broker.subscriptions.half_sent import complete_messages
from magnetar_broker.subscriptions.read_history import changing
from magnetar_broker.subscriptions.seeking import target_of, target_since
from magnetar_broker.subscriptions.subscribed_topic import SubscribedTopic
from magnetar_broker.throttling.dispatch_throttle import DispatchThrottle, ThrottleEvents
from magnetar_broker.throttling.rate_limit import RateLimit
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.attached_state import IDLENESS, PENDING_ACKS
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.cursor_log import DurableCursor
from magnetar_storage.log.offset_set import OffsetSet

INDIVIDUAL = 0
RETURN_SECONDS = 60.0
"""The seconds that a non-durable subscription waits for readers that a seek disconnected."""

DISPATCHERS: dict[int, Callable[[Stream], Dispatcher]] = {
    EXCLUSIVE: partial(SingleActive, failover=False),
    pb.CommandSubscribe.Failover: partial(SingleActive, failover=True),
    pb.CommandSubscribe.Shared: Shared,
}
"""All but Key_Shared, whose dispatcher depends on its consumers' policy."""
KEY_SHARED = pb.CommandSubscribe.Key_Shared


class Subscription:
    """A subscription: one name on one topic.  `type` may change while no consumer is connected."""

    def __init__(
        self,
        topic: SubscribedTopic,
        name: str,
        cursor: Cursor,
        ended: Callable[["Subscription"], bool],
    ) -> None:
        """`ended` takes the subscription off the topic's list; False if it was not listed."""
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.durable = isinstance(cursor, DurableCursor)
        self._skip_missing()
        self.counter = BacklogCounter(topic.log, cursor)
        self.consumers = ConsumerGroup(name, topic.limits.max_consumers_per_subscription)
        self.type: int = EXCLUSIVE
        self.throttled: ThrottleEvents | None = None
        """Counts the times that delivery waited for dispatch rates; None without such rates."""
        self._stream = Stream(
            topic.name,
            topic.log,
            topic.frames,
            cursor,
            topic.limits,
            topic.shared_limits.unacked,
            self.durable,
            topic.delays,
            self._throttle(),
        )
        self.dispatcher: Dispatcher = DISPATCHERS[self.type](self._stream)
        self.messages_expired = self.last_expired_ms = 0
        self.joined = 0
        """The number of consumers that have joined so far."""
        self.acks = Acknowledgements(
            topic, name, cursor, self.dispatcher, self._follow, self.notify_end
        )
        self._ended = ended
        self.meter = Meter(6)
        self.sent_ms = self.flow_ms = 0
        """The times at which messages were last sent and asked for; 0 for never."""
        self.left_ms = topic.traffic.created_ms
        """The time at which the last consumer left, or the topic was loaded."""
        self._left = NO_COUNTERS  # the counters of consumers that have left
        self._moving: Waiters | None = None  # for the end of the seek that runs
        self._compacted: CompactedReading | None = None
        if (
            isinstance(cursor, DurableCursor)
            and topic.pending_acks is not None
            and topic.pending_acks.of(cursor.number)
        ):
            self.acks.in_transactions()
            self.dispatcher.rewind()

    @property
    def topic_name(self) -> TopicName:
        """The topic, or the partition."""
        return self.topic.name

    def limits_changed(self) -> None:
        """Apply the topic's present limits and rates; consumers that exceed them stay."""
        self.topic.traffic.changed = True
        # The throttle continues the old one's limits: what was used of a rate stays used.
        limits, throttle = self.topic.limits, self._throttle(self._stream.throttle)
        self.consumers.limit = limits.max_consumers_per_subscription
        self._stream = replace(self._stream, limits=limits, throttle=throttle)
        for consumer in self.consumers:
            consumer.throttle = throttle
        self.dispatcher.apply_limits(self._stream)

    def _throttle(self, before: DispatchThrottle | None = None) -> DispatchThrottle | None:
        """Return the dispatch rates that apply to the subscription; None without any."""
        rates = self.topic.rates
        if rates is None:
            return None
        limits = rates.of_subscription(self.name, before.limits if before else ())
        if not limits:
            return None
        if self.throttled is None:
            self.throttled = ThrottleEvents()
        # By default rates apply to everybody; else only to those that catch up on a backlog.
        behind = None if self.topic.limits.throttle_caught_up else self._entries_behind
        return DispatchThrottle(
            limits, self.wake, self.topic.limits.throttle_entries, behind, self.throttled
        )

    @property
    def rate_limits(self) -> Sequence[RateLimit]:
        """The dispatch rates that apply to the subscription."""
        return () if self._stream.throttle is None else self._stream.throttle.limits

    def _entries_behind(self) -> int:
        return self.topic.log.visible_end - self.dispatcher.read_offset

    # Consumers --------------------------------------------------------------------

    async def admit(self, request: SubscribeRequest) -> None:
        """Wait until one more consumer may join, or raise `ConsumerBusy` or `ConsumerUnassigned`.

        Call `join` without waiting in between.
        """
        wanted = request.key_shared or KeySharedMeta()
        # Every wait lets other consumers and seeks in, so all is checked again after each one.
        while True:
            while self._moving is not None:
                await self._moving.wait()
            await self.consumers.admit(self.type, request)
            competing = self._become(request.type, wanted)
            if competing is None:
                return
            await self.consumers.take_over(competing)

    def _become(self, sub_type: int, wanted: KeySharedMeta) -> Consumer | None:
        """Change the type if need be; returns a consumer whose hash ranges overlap, if any."""
        if sub_type != KEY_SHARED:
            if self.type != sub_type:
                self._deliver_by(sub_type, DISPATCHERS[sub_type](self._stream))
            return None
        self.consumers.check_key_policy(wanted)
        dispatcher = self.dispatcher
        # The policy decides how slots are divided, so another one needs a new dispatcher.  Nothing
        # is pending then: `check_key_policy` has refused it while consumers are connected.
        if not (isinstance(dispatcher, KeyShared) and dispatcher.meta.policy == wanted.policy):
            dispatcher = KeyShared(self._stream, wanted)
            self._deliver_by(sub_type, dispatcher)
        return dispatcher.competing(wanted)

    def _deliver_by(self, sub_type: int, dispatcher: Dispatcher) -> None:
        self.type = sub_type
        self.dispatcher = self.acks.dispatcher = dispatcher

    def join(self, consumer: Consumer) -> None:
        """Add an admitted consumer."""
        self.joined += 1
        idleness = self.topic.idleness
        if (
            idleness is not None
            and isinstance(self.cursor, DurableCursor)
            and idleness.used(self.cursor)
        ):
            self.topic.cursors.state_changed(IDLENESS)
        self.consumers.add(consumer)
        # Before the dispatcher, which may send at once.
        consumer.throttle = self._stream.throttle
        self.dispatcher.add(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer that has left."""
        self.topic.traffic.changed = True
        self.consumers.remove(consumer)
        # Off by default, as in Pulsar: there only a request to redeliver raises the counts.
        if consumer.lost and self.topic.limits.count_lost_as_redelivery:
            self.cursor.count_redelivery(list(consumer.pending))
            self._write_soon()
        # promise: what a consumer did in its last window is kept
        self._left = added(self._left, consumer.totals())
        self.sent_ms = max(self.sent_ms, consumer.sent_ms)
        if not self.consumers:
            self.left_ms = self.topic.traffic.now_ms()
        self.dispatcher.remove(consumer)
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        """End a non-durable subscription with its last consumer, unless a seek is running."""
        if not self.durable and not self.consumers and self._moving is None:
            self._ended(self)

    async def unsubscribe(self, consumer: Consumer, force: bool) -> None:
        """Delete the subscription; `force` disconnects its other consumers."""
        self.consumers.disconnect_others(consumer, force)
        consumer.close()
        await self.delete()

    async def delete(self) -> None:
        """Delete the cursor; durable on return, even if another request is deleting it."""
        # Another request has removed the subscription from the list and is deleting its cursor:
        # wait for that write, because this request too must not be answered before it is durable.
        if not self._ended(self):
            await self.settled()
        elif isinstance(self.cursor, DurableCursor):
            if self.topic.pending_acks is not None:
                # promise: pending acknowledgements go with their subscription
                self.topic.pending_acks.forget(self.cursor.number)
                self.topic.cursors.state_changed(PENDING_ACKS)
            self._note_end(self.cursor)
            await self.topic.cursors.delete(self.name)
            self.acks.end()

    def _note_end(self, cursor: DurableCursor) -> None:
        """Remember what the subscription has acknowledged, if any of it is still stored."""
        is_stored = cursor.mark_delete >= self.topic.log.first_offset
        if is_stored or self.topic.read_history is not None:
            # promise: what a deleted subscription has acknowledged does not count as unread
            changing(self.topic).end(self.name, cursor.mark_delete)

    # Flow -------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add permits: `permits` more messages may be sent to the consumer."""
        consumer.flow(permits)
        self.flow_ms = consumer.flow_ms
        self.dispatcher.dispatch()  # promise: delivery resumes when permits arrive
        if self.topic.log.terminated:
            self.notify_end()

    def wake(self) -> None:
        """Send what can be sent now."""
        self.dispatcher.dispatch()

    def has_epochs(self, read_compacted: bool) -> bool:
        """Return whether messages carry their consumer's epoch: only where one gets all of them."""
        # promise[without and not read_compacted]: messages of a compacted reader carry no epoch
        return self.dispatcher.exclusive_acks and not read_compacted

    def redeliver(self, consumer: Consumer, ids: list[tuple[int, int]], epoch: int | None) -> None:
        """Send these entries again; without ids, all that the consumer did not acknowledge.

        A higher `epoch` becomes the consumer's: messages carry it, and the client drops those with
        a lower one, which were on their way when it asked.
        """
        has_epochs = self.has_epochs(consumer.compacted is not None)
        # Only forward: a request that was overtaken must not make the client take old messages.
        if epoch is not None and has_epochs and epoch > consumer.epoch:
            consumer.epoch = epoch
        self.topic.traffic.changed = True
        if ids:
            offsets = (self.topic.log.offset_of(ledger, entry) for ledger, entry in ids)
            self.dispatcher.redeliver(consumer, [o for o in offsets if o is not None])
        else:
            self.dispatcher.redeliver(consumer, None)
        self._write_soon()  # promise: redelivery counts are written

    def skip(self, *runs: range, partly: tuple[int, int] | None = None) -> None:
        """Acknowledge entries that no consumer did; await `settled` until that is durable.

        `partly` is one more entry, with the mask of its messages that are still wanted.
        """
        self.topic.traffic.changed = True
        for run in runs:
            self.cursor.ack(run)
        if partly is not None:
            self.cursor.ack_batch(*partly)
        self._refresh()
        self.dispatcher.skipped()
        self._write_soon()
        if self.topic.log.terminated:
            self.notify_end()

    def skip_missing(self) -> None:
        """Count entries as acknowledged that the log has deleted or never delivers."""
        self._skip_missing()
        self._refresh()

    def _skip_missing(self) -> None:
        log = self.topic.log
        self.cursor.skip_reclaimed(log.first_offset, log.holes)
        self.cursor.skip(log.hidden)

    def skip_hidden(self, offsets: OffsetSet) -> None:
        """Count these entries as acknowledged: their transaction was aborted, or ends there."""
        self.cursor.skip(offsets)
        if self.acks.transactional is not None:
            self.acks.transactional.view.skip(offsets)
        if self.topic.log.terminated:
            self.notify_end()

    def notify_end(self) -> None:
        """Notify each consumer once that the topic is terminated and everything is acknowledged."""
        if self.cursor.mark_delete >= self.topic.log.end - 1:
            for consumer in self.consumers:
                consumer.reached_end()

    def _write_soon(self) -> None:
        """Schedule the changed cursor for the next write of the cursor log."""
        if isinstance(self.cursor, DurableCursor):
            self.topic.cursors.cursor_changed(self.cursor)

    async def settled(self) -> None:
        """Wait until every acknowledgement so far is durable."""
        if self.durable:
            await self.topic.cursors.durable()

    # Transactions ---------------------------------------------------------------------

    @property
    def open_transactions(self) -> Collection[tuple[int, int]]:
        """The open transactions that have acknowledged something here."""
        return () if self.acks.transactional is None else self.acks.transactional.open

    async def end_transaction(self, txn: TxnId, outcome: Outcome, low_watermark: int) -> None:
        """Commit or abort what a transaction has acknowledged here; durable on return.

        Repeat the call after an error.  It is not an error if the transaction has acknowledged
        nothing here, or has ended already.  `low_watermark` is as for `Topic.end_transaction`.
        """
        self.topic.check_open()
        again = self.acks.in_transactions().end(txn, outcome, low_watermark)
        self.cursor.count_redelivery(again)  # promise: an abort counts as a redelivery
        self.acks.write_pending(None)
        self._write_soon()
        if again:
            self.dispatcher.restore(again)  # promise: an abort delivers its messages again
        if self.topic.log.terminated:
            self.notify_end()
        # promise: the end at a subscription is answered only when it is durable
        await self.settled()

    def _follow(self, view: Cursor) -> None:
        """Make delivery follow a view of the cursor."""
        self._stream = replace(self._stream, cursor=view)
        self.dispatcher.apply_limits(self._stream)
        if self._compacted is not None:
            self._compacted.delivered = view

    def _refresh(self) -> None:
        """Follow a change of the cursor that no acknowledgement of a consumer has made."""
        if self.acks.transactional is not None:
            self.acks.transactional.refresh()

    # Seeking --------------------------------------------------------------------------

    async def seek_to_id(
        self, position: MessageId, ack_set: tuple[int, ...], check: Check = always
    ) -> None:
        """Continue with this message; `ack_set` has the still wanted messages of its batch."""
        compaction = None if self._compacted is None else self.topic.compaction
        offset, mask = await target_of(self.topic.log, compaction, position, ack_set)
        await self.seek(offset, mask, check)

    async def seek_to_time(self, timestamp_ms: int, check: Check = always) -> None:
        """Continue with the first message published at or after a time."""
        compacted = self._compacted is not None
        offset, mask = await target_since(self.topic.log, timestamp_ms, compacted)
        await self.seek(offset, mask, check)

    async def finish(self) -> None:
        """Send consumers nothing but the missing chunks of messages already begun."""
        receivers = self.dispatcher.receivers()
        await complete_messages(self.topic.log, self.cursor, receivers, self.topic.frames)

    async def seek(self, offset: int, mask: int | None = None, check: Check = always) -> None:
        """Make `offset` the next entry, of which the messages of `mask` are wanted, or all.

        Consumers that may hold other entries are disconnected, and reconnect.  Durable on return;
        `UnknownError` while another seek runs.
        """
        if self._moving is not None:
            raise UnknownError(
                f"subscription {self.name} is being moved by another seek: try again"
            )
        clock = self.topic.log.engine.clock
        moving = self._moving = Waiters(clock)
        try:
            # Whom the completion below sends something is found out by the difference.
            receivers = self.dispatcher.receivers()
            sent = [consumer.entries_out for consumer in receivers]
            try:
                check()
                await self.finish()
                check()  # promise: no subscription is moved for a client that has left
                self._move(offset, mask)
            except BaseException:
                for consumer, before in zip(receivers, sent, strict=True):
                    if consumer.entries_out > before:
                        # promise: chunks that were sent out of turn are not sent again
                        consumer.disconnect()
                raise
            finally:
                for consumer in receivers:
                    consumer.leaving = False
                self.dispatcher.dispatch()  # to those that were not disconnected
            if isinstance(self.cursor, DurableCursor):
                self.topic.cursors.cursor_changed(self.cursor)
                if self.topic.read_history is not None:
                    changing(self.topic).seek(self.name, offset)
                await self._keep_start(self.cursor)
                await self.topic.cursors.durable()
        finally:
            self._moving = None
            moving.release()
            if not self.durable:  # its readers were disconnected and must find it again
                clock.later(RETURN_SECONDS, self._end_if_unused)

    def _move(self, offset: int, mask: int | None) -> None:
        self.topic.traffic.changed = True
        # Entries after the target may have been deleted: they must not count as backlog.
        self.cursor.reset(offset - 1)
        self.skip_missing()
        # The seek decides where compacted data is read from, even if the log is trimmed there.
        if self._compacted is not None:
            self._compacted.start = Start(offset, self.cursor.mark_delete)
        if mask is not None:
            self.cursor.ack_batch(offset, mask)
            self._refresh()
        # Their clients have messages queued that are not wanted now; a reconnect clears the queue.
        for consumer in self.dispatcher.receivers():
            consumer.disconnect()
        self.dispatcher.rewind()
        self.dispatcher.dispatch()

    async def _keep_start(self, cursor: DurableCursor) -> None:
        """Store where reading compacted begins, so that it is known after a restart."""
        if self._compacted is not None and self._compacted.start is not None:
            start = self._compacted.start.as_properties()
            await self.topic.cursors.set_properties(cursor, cursor.properties | start)

    # Reading compacted ----------------------------------------------------------------

    @property
    def compacted(self) -> CompactedReading:
        """The reader of entries below the horizon, for consumers that read compacted data."""
        if self._compacted is None:
            view = self.topic.compaction.view
            self._compacted = CompactedReading(view, self.topic.log, self.cursor, self.wake)
            self._compacted.delivered = self._stream.cursor
            if isinstance(self.cursor, DurableCursor):
                self._compacted.start = Start.of(self.cursor.properties)
        return self._compacted

    async def last_message_id(self, read_compacted: bool = False) -> MessageId:
        """Return the id of the topic's last message.

        With `read_compacted` it is the last one of the compacted data if the log has none left.
        """
        if read_compacted:
            last = await self.topic.compaction.last_message_id()
            if last is not None:
                return last
        return await last_message_id(self.topic.log, self.topic.name.partition)

    # Numbers --------------------------------------------------------------------------

    def mark_delete_id(self) -> MessageId:
        """Return the mark-delete position: everything up to it is acknowledged."""
        return MessageId(*self.topic.log.position(self.cursor.mark_delete))

    def is_acked(self, offset: int, index: int | None) -> bool:
        """Return whether an entry, or the message of this index in its batch, is acknowledged."""
        mask = self.cursor.partial.get(offset)
        if mask is None or index is None:
            return self.cursor.is_acked(offset)
        return not mask >> index & 1

    def next_unacked(self) -> int:
        """Return the first entry that is not acknowledged; the log's end if all are."""
        return self.counter.first_unacked()

    def sent(self) -> tuple[int, int]:
        """Return the messages and bytes sent to the subscription's consumers so far."""
        messages, size, *_ = self._left
        for consumer in self.consumers:
            messages += consumer.messages_out
            size += consumer.bytes_out
        return messages, size

    def totals(self) -> tuple[float, ...]:
        """Return the counters for `meter`: those of a consumer, and messages that have expired."""
        totals = self._left
        for consumer in self.consumers:
            totals = added(totals, consumer.totals())
        return (*totals, self.messages_expired)

    async def backlog(self) -> Backlog:
        """Return the exact backlog, whether messages are batched or not.

        Nothing counts as delayed while consumers are connected whose type ignores delays.
        """
        # Without consumers the next one decides, and may be of a type that waits.
        waits = not (self.dispatcher.exclusive_acks and self.consumers)
        return await self.counter.count(self._stream.delays.waiting if waits else None)
