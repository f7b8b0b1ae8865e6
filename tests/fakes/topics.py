"""Topics over stores in memory, with clients that only record."""

from collections.abc import Iterable
from typing import Any

from fakes.connection import Got, RecordingConnection
from fakes.logs import NEVER, LogWorld
from fakes.publish_runs import publish
from fakes.world import ManualPromise
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.limits.shared_limits import SharedLimits, shared_limits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.stored import Policies
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.producer import Producer, ProducerRequest
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack
from magnetar_proto.chunks import chunks_among
from magnetar_proto.entries import DELIVER_AT_TAG, encode_entry
from magnetar_proto.names import TopicName
from magnetar_storage.log.roll_limits import RollLimits

EXCLUSIVE = pb.CommandSubscribe.Exclusive
SHARED = pb.CommandSubscribe.Shared
FAILOVER = pb.CommandSubscribe.Failover
KEY_SHARED = pb.CommandSubscribe.Key_Shared
TYPES = (EXCLUSIVE, SHARED, FAILOVER)

TOPIC = "persistent://public/default/topic"


def entry(
    publish_time: int,
    batch: int | None = None,
    payload: bytes = b"",
    deliver_at_ms: int | None = None,
) -> bytes:
    """Return an entry with readable metadata."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=publish_time)
    if deliver_at_ms is not None:
        metadata.deliver_at_time = deliver_at_ms
    if batch is not None:
        metadata.num_messages_in_batch = batch
    return encode_entry(metadata, payload)


class TopicWorld(LogWorld):
    """One topic and its clients; `reload` is a restart of the broker."""

    def __init__(
        self,
        limits: TopicLimits | None = None,
        roll: RollLimits = NEVER,
        cache_bytes: int = 1 << 20,
        name: str = TOPIC,
        settings: Settings | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        super().__init__(roll, cache_bytes)
        self.settings = settings or Settings()
        self.limits = limits or TopicLimits()
        self.shared = shared or shared_limits(self.settings, self.clock)
        self.name = TopicName.parse(name)
        self.dropped: list[Topic] = []
        self._ids = 0
        self._publisher: Producer | None = None
        self.reload()

    def reload(self) -> Topic:
        self.policies = policies = Policies(
            GuardedMetadata(self.engine.metadata, None), self.settings
        )
        self.do(policies.load(self.name))
        opening = Topic.open(
            self.name, self.engine, True, self.limits, self.shared, policies, self.dropped.append
        )
        topic = self.do(opening)
        assert topic is not None
        self.topic = topic
        self._publisher = None
        return topic

    def crash(self) -> Topic:
        """Crash and restart the process: only durable state remains."""
        self.clock.forget()
        self.tasks.forget()
        self.store.crash()
        self.dropped.clear()
        return self.reload()

    # Producing ------------------------------------------------------------------------

    def producer(
        self, connection: RecordingConnection | None = None, name: str = "p",
        producer_id: int = 1, epoch: int = 0, **more: Any,
    ) -> Producer:  # fmt: skip
        client = connection or RecordingConnection()
        request = ProducerRequest(producer_id, name, epoch, **more)
        producer = self.do(self.topic.producers.add(client, request))
        self.do(self.topic.log.rollover.start_writing())
        return producer

    def begin_producer(
        self, connection: RecordingConnection, name: str = "p", **more: Any
    ) -> ManualPromise:
        """Start to add a producer, up to the first wait; pump to continue."""
        request = ProducerRequest(1, name, **more)
        return self.begin(self.topic.producers.add(connection, request))

    def publish(self, *payloads: bytes, counts: Iterable[int] = ()) -> None:
        """Append entries and let them be delivered."""
        if self._publisher is None:
            self._publisher = self.producer(name="publisher")
        self.send(self._publisher, *payloads, counts=counts)
        self.clock.pump()

    @staticmethod
    def send(producer: Producer, *payloads: bytes, counts: Iterable[int] = ()) -> PublishRun:
        """Send one run; pump to have it answered."""
        sends = PublishRun(producer)
        sends.payloads = list(payloads)
        sends.counts = list(counts) or [1] * len(payloads)
        sends.sequence_ids = list(range(len(payloads)))
        sends.highest_ids = [0] * len(payloads)
        sends.size = sum(map(len, payloads))
        sends.chunked = bool(chunks_among(payloads))
        sends.delayed = any(DELIVER_AT_TAG in payload for payload in payloads)
        publish(sends)
        return sends

    # Consuming ------------------------------------------------------------------------

    def request(self, sub: str = "sub", sub_type: int = EXCLUSIVE, **more: Any) -> SubscribeRequest:
        self._ids += 1
        asked = {"consumer_id": self._ids, "consumer_name": f"c{self._ids}", **more}
        return SubscribeRequest(sub, sub_type, **asked)

    def begin_subscribe(self, connection: RecordingConnection, **asked: Any) -> ManualPromise:
        return self.begin(self.topic.subscriptions.subscribe(connection, self.request(**asked)))

    def subscribe(
        self, connection: RecordingConnection | None = None, permits: int = 0, **asked: Any
    ) -> Consumer:
        client = connection or RecordingConnection()
        consumer = self.do(self.topic.subscriptions.subscribe(client, self.request(**asked)))
        if permits:
            self.flow(consumer, permits)
        return consumer

    def subscription(self, name: str = "sub") -> Subscription:
        return self.topic.subscriptions[name]

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.subscription.flow(consumer, permits)
        self.clock.pump()

    def ack(
        self, consumer: Consumer, *offsets: int, cumulative: bool = False,
        ack_set: tuple[int, ...] = (), answered: bool = True,
    ) -> list[BaseException | None]:  # fmt: skip
        """Acknowledge entries; return the outcome, once it is durable, if an answer is wanted."""
        outcome: list[BaseException | None] = []
        ids = [(*self.topic.log.position(offset), ack_set) for offset in offsets]
        ack = Ack(consumer.id, int(cumulative), ids)
        done = outcome.append if answered else None
        consumer.subscription.acks.acknowledge(consumer, ack, done)
        self.clock.pump()
        return outcome

    def nack(self, consumer: Consumer, *offsets: int, epoch: int | None = None) -> None:
        """Request entries again; all of them if none is named."""
        ids = [self.topic.log.position(offset) for offset in offsets]
        consumer.subscription.redeliver(consumer, ids, epoch)
        self.clock.pump()

    def got(self, consumer: Consumer) -> list[Got]:
        """Return the messages that the consumer was sent since the last call."""
        connection = consumer.connection
        assert isinstance(connection, RecordingConnection)
        return connection.take(consumer.id)

    def offsets(self, consumer: Consumer) -> list[int]:
        """Return the offsets of the messages that the consumer was sent since the last call."""
        return [self.offset(message) for message in self.got(consumer)]

    def offset(self, message: Got) -> int:
        offset = self.topic.log.offset_of(message.ledger, message.entry)
        assert offset is not None
        return offset
