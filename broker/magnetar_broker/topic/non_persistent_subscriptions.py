"""The subscriptions of a non-persistent topic: nothing is kept for them, and nothing acknowledged.

A message is sent to a consumer that can take it at once, else it is dropped.
"""

from collections.abc import Callable, Iterator, Mapping

from magnetar_broker.base.connection import Connection
from magnetar_broker.base.errors import NotAllowed, UnknownError
from magnetar_broker.base.meter import Meter
from magnetar_broker.base.traffic import Traffic
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.base.wanted import Check, always
from magnetar_broker.dispatch.consumer import (
    NO_COUNTERS,
    Backlog,
    Consumer,
    SubscribeRequest,
    added,
)
from magnetar_broker.dispatch.key_selection import KeySharedMeta, SlotOwners
from magnetar_broker.dispatch.key_shared import slot_owners
from magnetar_broker.dispatch.selection import RoundRobin, pick_active
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.subscriptions.consumer_group import EXCLUSIVE, ConsumerGroup
from magnetar_broker.throttling.topic_rates import TopicRates
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.runtime.execution import Done

FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared


class NothingAcknowledged:
    """The acknowledgements of a subscription that remembers nothing."""

    def acknowledge(self, consumer: Consumer, ack: Ack, done: Done | None) -> None:
        """Answer at once: there is nothing to remember."""
        if done is not None:
            done(None)

    def acknowledge_in(self, txn: TxnId, consumer: Consumer, ack: Ack, done: Done | None) -> None:
        """Refuse an ACK in a transaction, because an abort could not undo it."""
        raise NotAllowed(
            "messages of a non-persistent topic cannot be acknowledged in a transaction: "
            "acknowledge them outside of one"
        )


class NonPersistentSubscription:
    """The consumers of one subscription name; the subscription ends with the last of them."""

    def __init__(self, siblings: "NonPersistentSubscriptions", name: str) -> None:
        self.name = name
        self.type: int = EXCLUSIVE
        self.consumers = ConsumerGroup(name, siblings.limits.max_consumers_per_subscription)
        self.acks = NothingAcknowledged()
        self.messages_dropped = 0
        self.meter = Meter(6)
        self.flow_ms = self.sent_ms = 0
        """The times at which messages were last asked for and sent; 0 for never."""
        self._left = NO_COUNTERS  # the counters of consumers that have left
        self._siblings = siblings
        self._topic = siblings.topic
        self._turns: RoundRobin[Consumer] = RoundRobin()
        self.slots: SlotOwners[Consumer] | None = None
        """The owners of keys, if the subscription is or was Key_Shared."""
        self.active: Consumer | None = None

    @property
    def topic_name(self) -> TopicName:
        """The topic, or the partition."""
        return self._topic

    async def admit(self, request: SubscribeRequest) -> None:
        """Check that one more consumer may join; raises `ConsumerBusy` or `ConsumerUnassigned`."""
        wanted = request.key_shared or KeySharedMeta()
        while True:
            await self.consumers.admit(self.type, request)
            self.type = request.type
            if request.type != KEY_SHARED:
                return
            self.consumers.check_key_policy(wanted)
            if not self.consumers:
                self.slots = slot_owners(wanted, self._siblings.limits)
            competing = self.slots.check(wanted) if self.slots is not None else None
            if competing is None:
                return
            await self.consumers.take_over(competing)

    def join(self, consumer: Consumer) -> None:
        """Add an admitted consumer; a Failover consumer that is not active is notified."""
        self.consumers.add(consumer)
        self._turns.add(consumer)
        if self.type == KEY_SHARED and self.slots is not None:
            self.slots.add(consumer)
        self._choose()
        if self.type == FAILOVER and self.active is not consumer:
            consumer.connection.active_changed(consumer.id, False)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer that has left."""
        self._siblings.traffic.changed = True
        self.consumers.remove(consumer)
        self._left = added(self._left, consumer.totals())
        self.sent_ms = max(self.sent_ms, consumer.sent_ms)
        self._turns.remove(consumer)
        if self.type == KEY_SHARED and self.slots is not None:
            self.slots.remove(consumer)
        self._choose()
        if not self.consumers:
            self._siblings.forget(self)

    def give(self, payload: bytes, messages: int) -> None:
        """Send an entry to the next consumer; drop it if that has no permits or no room."""
        consumer = self._next(payload)
        if consumer is None or not consumer.can_take():
            self.messages_dropped += messages
        else:
            self._turns.served(consumer)
            self._siblings.messages_out += messages
            self._siblings.bytes_out += len(payload)
            consumer.send_entry(0, 0, self._topic.partition, payload, messages, 0, ())

    def _choose(self) -> None:
        topic = self._topic
        self.active = pick_active(list(self.consumers), str(topic), topic.partition)

    def _next(self, payload: bytes) -> Consumer | None:
        if self.type == KEY_SHARED and self.slots is not None:
            return self.slots.owner(self.slots.slot_of(sticky_key(payload)))
        return self._turns.next() if self.type == pb.CommandSubscribe.Shared else self.active

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Add permits: the consumer can take `permits` more messages."""
        consumer.flow(permits)
        self.flow_ms = consumer.flow_ms

    @property
    def is_single(self) -> bool:
        """Whether one consumer receives everything."""
        return self.type in (EXCLUSIVE, FAILOVER)

    def sent(self) -> tuple[int, int]:
        """Return the messages and bytes sent to the subscription's consumers so far."""
        messages, size, *_ = self.totals()
        return int(messages), int(size)

    def totals(self) -> tuple[float, ...]:
        """Return the counters for `meter`: those of a consumer, and dropped messages."""
        totals = self._left
        for consumer in self.consumers:
            totals = added(totals, consumer.totals())
        return (*totals, self.messages_dropped)

    def wake(self) -> None:
        """Do nothing: no message waits here."""

    def redeliver(self, consumer: Consumer, ids: list[tuple[int, int]], epoch: int | None) -> None:
        """Do nothing: no message is kept that could be sent again."""

    async def seek_to_id(
        self, position: MessageId, ack_set: tuple[int, ...], check: Check = always
    ) -> None:
        """Do nothing: a SEEK on a non-persistent topic succeeds without effect, as in Pulsar."""

    async def seek_to_time(self, timestamp_ms: int, check: Check = always) -> None:
        """Do nothing, because nothing is stored."""

    async def settled(self) -> None:
        """Do nothing: no acknowledgement is pending."""

    async def unsubscribe(self, consumer: Consumer, force: bool) -> None:
        """Disconnect the consumer; with `force` also all other consumers."""
        self.consumers.disconnect_others(consumer, force)
        consumer.close()

    async def backlog(self) -> Backlog:
        """Return an empty backlog, because nothing is stored."""
        return Backlog(0, 0)

    async def last_message_id(self, read_compacted: bool = False) -> MessageId:
        """Raise `UnknownError`: no message is kept."""
        raise UnknownError(f"{self._topic} keeps no messages: it is not persistent")

    def mark_delete_id(self) -> MessageId:
        """Return the id -1:-1, because there is no cursor."""
        return MessageId(-1, -1)


class NonPersistentSubscriptions(Mapping[str, NonPersistentSubscription]):
    """A topic's subscriptions by name."""

    def __init__(
        self,
        topic: TopicName,
        limits: TopicLimits,
        rates: TopicRates | None,
        traffic: Traffic,
        check_open: Callable[[], None],
    ) -> None:
        """`check_open` raises `NotReady` once the topic is being closed."""
        self.topic = topic
        self.limits = limits
        self.rates = rates
        self.messages_out = self.bytes_out = 0
        self.traffic = traffic
        self._check_open = check_open
        self._by_name: dict[str, NonPersistentSubscription] = {}

    def __getitem__(self, name: str) -> NonPersistentSubscription:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def by_name(self) -> dict[str, NonPersistentSubscription]:
        """The subscriptions by name, in a plain dict for speed; it must not be changed."""
        return self._by_name

    def sent(self) -> tuple[int, int]:
        """Return messages and bytes sent to consumers, including those of ended subscriptions."""
        return self.messages_out, self.bytes_out

    def apply_limits(self, limits: TopicLimits, rates: TopicRates | None) -> None:
        """Apply changed limits and rates to new requests; connected consumers stay."""
        self.limits, self.rates = limits, rates
        for subscription in self._by_name.values():
            subscription.consumers.limit = limits.max_consumers_per_subscription

    def check(self, request: SubscribeRequest) -> None:
        """Raise `ConsumerBusy` if the topic has reached its limit of consumers."""
        present = sum(len(s.consumers) for s in self._by_name.values())
        self.limits.check_consumers(self.topic, present)

    async def subscribe(
        self, connection: Connection, request: SubscribeRequest, check: Check = always
    ) -> Consumer:
        """Add a consumer to a subscription, new or existing; start positions have no effect."""
        if self.rates is not None:
            self.rates.check_subscribe(connection, request.consumer_name, request.consumer_id)
        self._check_open()
        subscription = await self._admitted(request)
        self._check_open()
        check()
        present = (one for each in self._by_name.values() for one in each.consumers)
        self.limits.check_address(self.topic, connection.address, present)
        # promise[-1 -> request.epoch]: messages that are not kept carry no epoch
        consumer = Consumer(
            connection,
            request.consumer_id,
            subscription,
            request.consumer_name,
            request.priority,
            -1,  # nothing is delivered again, so no message is of an earlier time than another
            self.traffic,
            request.key_shared,
            request.metadata,
        )
        subscription.join(consumer)
        return consumer

    async def _admitted(self, request: SubscribeRequest) -> NonPersistentSubscription:
        """Return the subscription if it has room for a consumer of this type; else refuse."""
        name = request.subscription
        while True:
            self.check(request)
            subscription = self._by_name.get(name)
            if subscription is None:
                self.limits.check_subscriptions(self.topic, len(self._by_name))
                subscription = NonPersistentSubscription(self, name)
            await subscription.admit(request)
            self.check(request)  # other consumers may have joined during the wait
            if self._by_name.setdefault(name, subscription) is subscription:
                return subscription
            # A concurrent request has created another subscription of that name.

    async def ensure(self, name: str, check: Check = always) -> None:
        """Do nothing: a subscription without consumers does not exist here."""

    def forget(self, subscription: NonPersistentSubscription) -> None:
        """Remove a subscription whose last consumer has left."""
        if self._by_name.get(subscription.name) is subscription:
            del self._by_name[subscription.name]
