"""What sessions, producers and consumers may ask of any topic, stored or not."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from magnetar_broker.connection import Connection
from magnetar_proto.commands import Ack
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.world import Done

if TYPE_CHECKING:
    from magnetar_broker.consumer import Consumer
    from magnetar_broker.producer import Producer, Sends


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


@dataclass(frozen=True)
class Backlog:
    """What a subscription has not acknowledged, in messages (batches unfolded)."""

    messages: int
    entries: int


class AnySubscription(Protocol):
    """A subscription as its consumers' connections see it."""

    name: str
    type: int

    @property
    def topic(self) -> "AnyTopic": ...

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

    async def unsubscribe(self, consumer: "Consumer", force: bool) -> None:
        """Remove the subscription; `force` disconnects its other consumers."""

    async def backlog(self) -> Backlog:
        """What is not acknowledged."""

    def mark_delete_id(self) -> MessageId:
        """Where the cursor is."""


class AnyTopic(Protocol):
    """A loaded topic."""

    name: TopicName

    async def add_producer(
        self, connection: Connection, producer_id: int, name: str, epoch: int
    ) -> "Producer":
        """A producer, when its name is free or can be taken over."""

    def remove_producer(self, producer: "Producer") -> None:
        """A producer left."""

    def publish(self, sends: "Sends") -> None:
        """Take a run of entries; it is answered when it is as safe as the topic promises."""

    async def subscribe(self, connection: Connection, request: SubscribeRequest) -> "Consumer":
        """Join a subscription, creating it if need be."""

    async def ensure_subscription(self, name: str) -> None:
        """A producer names a subscription that must exist: at the start, if it is new."""

    async def last_message_id(self) -> MessageId:
        """The last entry's id, with the index of its last message if it is a batch."""

    async def close(self) -> None:
        """Send every client away and make everything durable."""
