"""A topic, as its subscriptions see it."""

from typing import TYPE_CHECKING, Protocol

from magnetar_broker.compaction.topic_compaction import TopicCompaction
from magnetar_broker.dispatch.base import Delays
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.lifetime.idleness import Idleness
from magnetar_broker.limits import TopicLimits
from magnetar_broker.rates.topic_rates import TopicRates
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.cursor_log import CursorLog
from magnetar_storage.log import Log

if TYPE_CHECKING:
    from magnetar_broker.subscribing.subscription import Subscription


class Siblings(Protocol):
    """The subscriptions of a topic, as one that ends sees them."""

    async def remove(self, subscription: "Subscription") -> None:
        """Delete a subscription; durable on return."""

    def forget(self, subscription: "Subscription") -> bool:
        """A subscription ended; False if it had done so before."""


class SubscribedTopic(Protocol):
    """A topic, as its subscriptions see it."""

    name: TopicName
    log: Log
    frames: FrameCache
    cursors: CursorLog
    limits: TopicLimits
    idleness: Idleness | None
    rates: TopicRates | None

    @property
    def delays(self) -> Delays:
        """What of it is to be delivered later."""

    async def first_since(self, timestamp_ms: int) -> int:
        """The offset of the first entry published at or after a time."""

    async def last_message_id(self) -> MessageId:
        """The last entry's id, with the index of its last message if it is a batch."""

    @property
    def compaction(self) -> TopicCompaction:
        """Its compacted data."""

    @property
    def subscriptions(self) -> Siblings:
        """All that it has."""
