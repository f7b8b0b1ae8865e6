"""A persistent topic: a log, the producers that append to it, the subscriptions that read it."""

import logging
from collections.abc import Callable, Sequence

from magnetar_broker.compaction.topic_compaction import CompactionFigures, TopicCompaction
from magnetar_broker.connection import Connection
from magnetar_broker.delays import TopicDelays
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.errors import NotReady
from magnetar_broker.finding import first_since, last_message_id
from magnetar_broker.lifetime.expiry import expire_messages
from magnetar_broker.lifetime.idleness import Idleness
from magnetar_broker.lifetime.quotas import admit_producer
from magnetar_broker.lifetime.tidying import tidy
from magnetar_broker.limits import TopicLimits, limits_of
from magnetar_broker.metadata_keys import topic_key
from magnetar_broker.meter import Meter
from magnetar_broker.policies import (
    COMPACTION_THRESHOLD,
    DEDUPLICATION,
    DELAYED_DELIVERY,
    ENCRYPTION_REQUIRED,
    Policies,
)
from magnetar_broker.publishing.appender import Appender
from magnetar_broker.publishing.deduplication import Deduplication
from magnetar_broker.publishing.producer import Producer, ProducerRequest, Sends
from magnetar_broker.publishing.producers import Producers
from magnetar_broker.publishing.sequences import Sequences
from magnetar_broker.rates.topic_rates import topic_rates
from magnetar_broker.subscribing.consumer import Consumer, SubscribeRequest
from magnetar_broker.subscribing.subscriptions import Subscriptions
from magnetar_broker.termination import check_not_terminated, terminate
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage import sides
from magnetar_storage.cursor_log import CursorLog
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Engine, Log
from magnetar_storage.recent_delays import RecentDelays

logger = logging.getLogger(__name__)

EPOCH = "topicEpoch"
"""The property of its log that holds a topic's epoch."""


class Topic:
    """Loaded and owned by this broker; when its log fails it is dropped and loaded anew."""

    def __init__(
        self,
        name: TopicName,
        entries: Log,
        cursors: CursorLog,
        delays: TopicDelays,
        sequences: Sequences,
        limits: TopicLimits,
        policies: Policies,
        dropped: Callable[["Topic"], None],
    ) -> None:
        self.name = name
        self.log = entries
        self.frames = FrameCache(name.partition)
        self.cursors = cursors
        self.delays = delays
        self._base_limits = limits
        self.limits = limits = limits_of(limits, policies, name)
        self.policies = policies
        self.closed = False
        self.producers = Producers(
            name,
            limits.max_producers,
            entries.engine.clock,
            entries.engine.tasks,
            _epoch_of(entries),
            self,
        )
        self.producers.limit_of_address = limits.max_producers_of_address
        self.deduplication = Deduplication(
            entries, cursors, sequences, limits.deduplication, self.producers
        )
        self.messages_in = self.bytes_in = 0
        self.meter = Meter(4)
        self.rates = topic_rates(self, entries.engine.clock, None)
        self.idleness: Idleness | None = None
        self._dropped = dropped
        self.appender = Appender(self)
        self._woken = False
        self._compaction: TopicCompaction | None = None
        self.subscriptions = Subscriptions(self)
        delays.on_due = self._due
        delays.start()
        entries.on_failure = self.drop
        entries.on_reclaimed = self._reclaimed

    @classmethod
    async def open(
        cls,
        name: TopicName,
        engine: Engine,
        create: bool,
        limits: TopicLimits,
        policies: Policies,
        dropped: Callable[["Topic"], None],
    ) -> "Topic | None":
        """Take the topic over; None if it does not exist and may not be created.

        Its `policies` must be loaded.  `dropped` is called when the topic ends by itself, because
        its log failed.
        """
        entries = await Log.open(topic_key(name), engine, create)
        if entries is None:
            return None
        recent, sequences = RecentDelays(), Sequences(limits.deduplication.max_names)
        cursors = await CursorLog.open(
            entries, {sides.DELAYS: recent, sides.DEDUPLICATION: sequences}
        )
        policy = policies.value(DELAYED_DELIVERY, name)
        delays = await TopicDelays.open(entries, recent, cursors, policy, limits.strict_delays)
        topic = cls(name, entries, cursors, delays, sequences, limits, policies, dropped)
        try:
            await topic.deduplication.keep_to(policies.value(DEDUPLICATION, name))
            await topic._compact_at(policies.value(COMPACTION_THRESHOLD, name))
            topic.check_open()
        except (StorageError, NotReady):
            topic.disconnect()
            await entries.close()
            raise
        return topic

    # Producers ------------------------------------------------------------------------

    async def add_producer(self, connection: Connection, request: ProducerRequest) -> Producer:
        """A producer; it is `ready`, or waits for its turn."""
        self.check_open()
        check_not_terminated(self)
        if self.log.engine.store.is_failing:  # else that would show only when it publishes
            await self.log.start_writing()
        producer = Producer(connection, self, request)
        await self.producers.enter(producer)
        return producer

    async def check_quotas(self) -> None:
        """Refuse a producer while too much waits for consumers."""
        await admit_producer(self)

    async def store_epoch(self, epoch: int) -> None:
        """Keep the topic's epoch; durable on return."""
        await self.log.change_properties(lambda old: {**old, EPOCH: str(epoch)})

    async def welcome(self, producer: Producer) -> None:
        """Tell a producer that became ready what the topic knows and demands; it may send then."""
        producer.last_sequence_id = await self.deduplication.last_sequence_id(producer.name)
        producer.must_encrypt = self.policies.value(ENCRYPTION_REQUIRED, self.name)
        producer.max_message_size = self.limits.max_message_size
        self.check_open()
        check_not_terminated(self)

    def remove_producer(self, producer: Producer) -> None:
        """A producer left."""
        self.producers.remove(producer)

    def bar_producer(self, producer: Producer, why: str) -> None:
        """When the producer comes back, refuse it once."""
        self.producers.bar(producer.name, why)

    @property
    def max_delay_ms(self) -> int:
        policy = self.delays.policy
        return policy.max_delay_ms if policy.active else 0

    def publish(self, sends: Sends) -> None:
        """Append a run; it is answered when it is durable."""
        if self.rates is not None:
            self.rates.published(sends)
        self.appender.append(sends)

    async def terminate(self) -> MessageId:
        """Let nothing be published any more, ever; the last message's id.  Durable on return."""
        last = await terminate(self)
        if self.rates is not None:
            self.rates.let_go()
        return last

    def wake_soon(self) -> None:
        """There is something new: each subscription delivers, once for all that came at once."""
        if self.subscriptions and not self._woken:
            self._woken = True
            self.log.engine.clock.soon(self._wake)

    def _wake(self) -> None:
        self._woken = False
        subscriptions = list(self.subscriptions.values())
        self.frames.shared = len(subscriptions) > 1
        for subscription in subscriptions:
            subscription.dispatcher.dispatch()
        self.frames.forget()

    def _due(self, offsets: Sequence[int]) -> None:
        for subscription in list(self.subscriptions.values()):
            subscription.dispatcher.due(offsets)

    def totals(self) -> tuple[int, int, int, int]:
        """Messages and bytes in, messages and bytes out: what is metered."""
        return (self.messages_in, self.bytes_in, *self.subscriptions.sent())

    # Subscriptions ----------------------------------------------------------------------

    def check_subscribe(self, request: SubscribeRequest) -> None:
        """Refuse a consumer too many, and one of a subscription that may not be created."""
        self.subscriptions.check(request)

    async def subscribe(self, connection: Connection, request: SubscribeRequest) -> Consumer:
        """Join a subscription, creating it if need be."""
        return await self.subscriptions.subscribe(connection, request)

    async def ensure_subscription(self, name: str) -> None:
        """A producer names a subscription that must exist: at the start, if it is new."""
        await self.subscriptions.ensure(name)

    # Reading ------------------------------------------------------------------------------

    async def first_since(self, timestamp_ms: int) -> int:
        """The offset of the first entry published at or after a time."""
        return await first_since(self.log, timestamp_ms)

    @property
    def compaction(self) -> TopicCompaction:
        """Its compacted data, and what makes it."""
        if self._compaction is None:
            self._compaction = TopicCompaction(self, self.limits.compaction)
        return self._compaction

    @property
    def compactions(self) -> CompactionFigures | None:
        """Numbers of what was compacted since it was loaded; None if nothing was."""
        compaction = self._compaction
        if compaction is None or not (compaction.figures.succeeded or compaction.figures.failed):
            return None
        return compaction.figures

    async def compact_if_due(self) -> None:
        """Begin to compact if as much waits as the policy says."""
        if self._compaction is not None:
            await self._compaction.check()

    async def _compact_at(self, threshold: int) -> None:
        if threshold or self._compaction is not None or self.log.record.compacted is not None:
            await self.compaction.keep_to(threshold)

    async def last_message_id(self) -> MessageId:
        """The last entry's id, with the index of its last message if it is a batch."""
        return await last_message_id(self.log, self.name.partition)

    async def policies_changed(self) -> None:
        """Keep to what `policies` say now; done on return."""
        self._keep_to(limits_of(self._base_limits, self.policies, self.name))
        holding = self.policies.holding(self.name)
        self.producers.require_encryption(holding.value(ENCRYPTION_REQUIRED))
        await self.deduplication.keep_to(holding.value(DEDUPLICATION))
        self.delays.policy_changed(holding.value(DELAYED_DELIVERY))
        await self._compact_at(holding.value(COMPACTION_THRESHOLD))
        await expire_messages(self)

    def _keep_to(self, limits: TopicLimits) -> None:
        before, self.rates = self.rates, topic_rates(self, self.log.engine.clock, self.rates)
        if limits is not self.limits or before is not self.rates:
            self.limits = limits
            self.producers.limit = limits.max_producers
            self.producers.limit_messages(limits.max_message_size)
            self.deduplication.rules = limits.deduplication
            for subscription in self.subscriptions.values():
                subscription.limits_changed()

    # Upkeep and end -------------------------------------------------------------------------

    async def tidy(self) -> None:
        """Roll over a segment that is old, and give back what is consumed and not retained."""
        await tidy(self)

    def _reclaimed(self) -> None:
        """Entries are gone that durable cursors had acknowledged; others pass over them."""
        for subscription in self.subscriptions.values():
            self.log.skip_holes(subscription.cursor)
            if not subscription.durable:
                subscription.dispatcher.skipped()

    def drop(self, error: BaseException) -> None:
        """The log failed: send everybody away; the topic is loaded anew when they come back."""
        if not self.closed:
            logger.error("%s is closed and will be loaded anew: %s", self.name, error)
            self.disconnect()
            self._dropped(self)

    @property
    def in_use(self) -> bool:
        """Whether clients are connected."""
        return (
            bool(self.producers)
            or bool(self.producers.waiting)
            or any(subscription.consumers for subscription in self.subscriptions.values())
        )

    async def delete(self) -> None:
        """Send every client away and delete all that is stored; durable on return."""
        self.disconnect()
        await self.log.delete()

    def disconnect(self) -> None:
        """Send every client away."""
        self.closed = True
        self.delays.stop()
        self.producers.disconnect()
        if self.rates is not None:
            self.rates.let_go()
        self.deduplication.close()
        for subscription in list(self.subscriptions.values()):
            subscription.consumers.disconnect()

    async def close(self) -> None:
        """Send every client away, write what is left, and seal."""
        self.disconnect()
        if self._compaction is not None:
            await self._compaction.stop()
        if self.log.failed is None:
            await self.delays.close()
            self.deduplication.write()
            if self.idleness is not None:
                self.cursors.side_changed(sides.IDLENESS)
            await self.cursors.close()
        await self.log.close()

    def check_open(self) -> None:
        """`NotReady` once it is being closed."""
        if self.closed or self.log.failed is not None:
            raise NotReady(f"{self.name} is being closed on this broker; try again")


def _epoch_of(entries: Log) -> int | None:
    epoch = entries.properties.get(EPOCH)
    return None if epoch is None else int(epoch)
