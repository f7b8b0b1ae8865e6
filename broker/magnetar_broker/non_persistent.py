"""Non-persistent topics: a message reaches who can take it now, and is gone.

Receipts carry (0, 0) and are sent at once; every message has the id 0:0; nothing is
stored, acknowledged, sought or redelivered.
"""

from magnetar_broker.connection import Connection
from magnetar_broker.dispatch.key_selection import KeySharedMeta, SlotOwners
from magnetar_broker.dispatch.key_shared import slot_owners
from magnetar_broker.dispatch.selection import RoundRobin, pick_active
from magnetar_broker.errors import NotReady, UnknownTrouble
from magnetar_broker.limits import TopicLimits, limits_of
from magnetar_broker.meter import Meter
from magnetar_broker.policies import ENCRYPTION_REQUIRED, Policies
from magnetar_broker.publishing.producer import Producer, ProducerRequest, Sends
from magnetar_broker.publishing.producers import Producers
from magnetar_broker.rates.topic_rates import topic_rates
from magnetar_broker.subscribing.consumer import Backlog, Consumer, SubscribeRequest
from magnetar_broker.subscribing.consumer_group import EXCLUSIVE, ConsumerGroup
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_proto.sends import encode_receipts
from magnetar_proto.sticky_key import sticky_key
from magnetar_storage.world import Clock, Done, Tasks

FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared


class NonPersistentSubscription:
    """Consumers under one name; it ends with the last of them."""

    def __init__(self, topic: "NonPersistentTopic", name: str) -> None:
        self.topic = topic
        self.name = name
        self.type: int = EXCLUSIVE
        self.consumers = ConsumerGroup(name, topic.limits.max_consumers_per_subscription)
        self.messages_dropped = 0
        self._turns: RoundRobin[Consumer] = RoundRobin()
        self._slots: SlotOwners[Consumer] | None = None  # for Key_Shared
        self._active: Consumer | None = None

    async def admit(self, request: SubscribeRequest) -> None:
        """Make sure that one more consumer may join, else `ConsumerBusy`, `ConsumerUnassigned`."""
        wanted = request.key_shared or KeySharedMeta()
        while True:
            await self.consumers.admit(self.type, request)
            self.type = request.type
            if request.type != KEY_SHARED:
                return
            self.consumers.check_key_policy(wanted)
            if not self.consumers:
                self._slots = slot_owners(wanted, self.topic.limits)
            rival = self._slots.check(wanted) if self._slots is not None else None
            if rival is None:
                return
            await self.consumers.oust(rival)

    def join(self, consumer: Consumer) -> None:
        """Add an admitted consumer; only who stands back from the start is told its part."""
        self.consumers.add(consumer)
        self._turns.add(consumer)
        if self.type == KEY_SHARED and self._slots is not None:
            self._slots.add(consumer)
        self._choose()
        if self.type == FAILOVER and self._active is not consumer:
            consumer.connection.active_changed(consumer.id, False)

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer left."""
        self.consumers.remove(consumer)
        self._turns.remove(consumer)
        if self.type == KEY_SHARED and self._slots is not None:
            self._slots.remove(consumer)
        self._choose()
        if not self.consumers:
            self.topic.forget(self)

    def give(self, payload: bytes, messages: int) -> None:
        """Send an entry to who is next, or drop it when nobody can take it."""
        consumer = self._next(payload)
        if consumer is None or not consumer.can_take():
            self.messages_dropped += messages
        else:
            self._turns.served(consumer)
            self.topic.messages_out += messages
            self.topic.bytes_out += len(payload)
            consumer.give_entry(0, 0, self.topic.name.partition, payload, messages, 0, ())

    def _choose(self) -> None:
        topic = self.topic.name
        self._active = pick_active(list(self.consumers), str(topic), topic.partition)

    def _next(self, payload: bytes) -> Consumer | None:
        if self.type == KEY_SHARED and self._slots is not None:
            return self._slots.owner(self._slots.slot_of(sticky_key(payload)))
        return self._turns.next() if self.type == pb.CommandSubscribe.Shared else self._active

    def flow(self, consumer: Consumer, permits: int) -> None:
        """The consumer can take so many messages more."""
        consumer.permits += permits

    def wake(self) -> None:
        """Nothing waits here."""

    def acknowledge(self, consumer: Consumer, ack: Ack, done: Done | None) -> None:
        """Nothing to remember: answered at once."""
        if done is not None:
            done(None)

    def redeliver(self, consumer: Consumer, ids: list[tuple[int, int]], epoch: int | None) -> None:
        """Nothing is kept that could be sent again."""

    async def seek_to_id(self, position: MessageId, ack_set: tuple[int, ...]) -> None:
        """There is nowhere to go; the answer is success all the same."""

    async def seek_to_time(self, timestamp_ms: int) -> None:
        """There is nowhere to go; the answer is success all the same."""

    async def settled(self) -> None:
        """There is nothing to wait for."""

    async def unsubscribe(self, consumer: Consumer, force: bool) -> None:
        """The consumer leaves, and with `force` all others."""
        self.consumers.disconnect_others(consumer, force)
        consumer.close()

    async def backlog(self) -> Backlog:
        """There is never one."""
        return Backlog(0, 0)

    async def last_message_id(self, read_compacted: bool = False) -> MessageId:
        """Nothing is kept, so there is none."""
        raise UnknownTrouble(f"{self.topic.name} keeps no messages: it is not persistent")

    def mark_delete_id(self) -> MessageId:
        """No cursor, no place."""
        return MessageId(-1, -1)


class NonPersistentTopic:
    """Nothing but the clients that are connected to it; every message is delivered at once."""

    max_delay_ms = 0

    def __init__(
        self,
        name: TopicName,
        limits: TopicLimits,
        policies: Policies,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self.name = name
        self._base_limits = limits
        self.limits = limits = limits_of(limits, policies, name)
        self.policies = policies
        self.producers = Producers(name, limits.max_producers, clock, tasks, None, self)
        self.producers.limit_of_address = limits.max_producers_of_address
        self.subscriptions: dict[str, NonPersistentSubscription] = {}
        self.messages_in = self.bytes_in = self.messages_out = self.bytes_out = 0
        self.closed = False
        self.meter = Meter(4)
        self.rates = topic_rates(self, clock, None)
        self._clock = clock

    async def add_producer(self, connection: Connection, request: ProducerRequest) -> Producer:
        """A producer; it is `ready`, or waits for its turn."""
        self.check_open()
        producer = Producer(connection, self, request)
        await self.producers.enter(producer)
        return producer

    async def store_epoch(self, epoch: int) -> None:
        """The topic's epoch lives as long as the topic: in memory."""

    async def welcome(self, producer: Producer) -> None:
        """It may send at once."""
        producer.max_message_size = self.limits.max_message_size
        self.check_open()
        producer.must_encrypt = self.policies.value(ENCRYPTION_REQUIRED, self.name)

    def remove_producer(self, producer: Producer) -> None:
        """A producer left."""
        self.producers.remove(producer)

    def bar_producer(self, producer: Producer, why: str) -> None:
        """When the producer comes back, refuse it once."""
        self.producers.bar(producer.name, why)

    def publish(self, sends: Sends) -> None:
        """Give every subscription its copy, and answer."""
        if self.rates is not None:
            self.rates.published(sends)
        for payload, messages in zip(sends.payloads, sends.counts, strict=True):
            for subscription in list(self.subscriptions.values()):
                subscription.give(payload, messages)
        self.messages_in += sum(sends.counts)
        self.bytes_in += sends.size
        ids = zip(sends.sequence_ids, sends.highest_ids, strict=True)
        producer_id = sends.producer.id
        sends.answer(
            b"".join(encode_receipts(producer_id, (low,), (high,), 0, 0) for low, high in ids)
        )

    def check_subscribe(self, request: SubscribeRequest) -> None:
        """Refuse a consumer too many."""
        present = sum(len(s.consumers) for s in self.subscriptions.values())
        self.limits.check_consumers(self.name, present)

    async def subscribe(self, connection: Connection, request: SubscribeRequest) -> Consumer:
        """Join a subscription; start positions mean nothing here."""
        if self.rates is not None:
            self.rates.check_subscribe(connection, request)
        self.check_open()
        subscription = await self._admitted(request)
        self.check_open()
        present = (one for each in self.subscriptions.values() for one in each.consumers)
        self.limits.check_address(self.name, connection.address, present)
        consumer = Consumer(
            connection,
            request.consumer_id,
            subscription,
            request.consumer_name,
            request.priority,
            request.epoch,
            self._clock.now_ms(),
            request.key_shared,
            request.metadata,
        )
        subscription.join(consumer)
        return consumer

    async def _admitted(self, request: SubscribeRequest) -> NonPersistentSubscription:
        """The subscription, with room for one more consumer of the type asked for."""
        name = request.subscription
        while True:
            self.check_subscribe(request)
            subscription = self.subscriptions.get(name)
            if subscription is None:
                self.limits.check_subscriptions(self.name, len(self.subscriptions))
                subscription = NonPersistentSubscription(self, name)
            await subscription.admit(request)
            self.check_subscribe(request)  # others may have come meanwhile
            if self.subscriptions.setdefault(name, subscription) is subscription:
                return subscription
            # Somebody else has begun another one of that name.

    async def policies_changed(self) -> None:
        """Keep to what `policies` say now; done on return."""
        self.limits = limits_of(self._base_limits, self.policies, self.name)
        self.rates = topic_rates(self, self._clock, self.rates)
        self.producers.limit = self.limits.max_producers
        self.producers.limit_messages(self.limits.max_message_size)
        for subscription in self.subscriptions.values():
            subscription.consumers.limit = self.limits.max_consumers_per_subscription
        self.producers.require_encryption(self.policies.value(ENCRYPTION_REQUIRED, self.name))

    def totals(self) -> tuple[int, int, int, int]:
        """Messages and bytes in, messages and bytes out: what is metered."""
        return (self.messages_in, self.bytes_in, self.messages_out, self.bytes_out)

    async def check_quotas(self) -> None:
        """Nothing waits here."""

    async def ensure_subscription(self, name: str) -> None:
        """Nothing is kept for a subscription without consumers."""

    def forget(self, subscription: NonPersistentSubscription) -> None:
        """A subscription ended with its last consumer."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]

    @property
    def in_use(self) -> bool:
        """Whether clients are connected."""
        return bool(self.producers) or bool(self.producers.waiting) or bool(self.subscriptions)

    def check_open(self) -> None:
        """`NotReady` once it has been closed."""
        if self.closed:
            raise NotReady(f"{self.name} is being closed on this broker; try again")

    async def close(self) -> None:
        """The same; nothing is left then."""
        self.disconnect()

    async def delete(self) -> None:
        """The same."""
        self.disconnect()

    def disconnect(self) -> None:
        """Send every client away."""
        self.closed = True
        self.producers.disconnect()
        if self.rates is not None:
            self.rates.let_go()
        for subscription in list(self.subscriptions.values()):
            subscription.consumers.disconnect()
