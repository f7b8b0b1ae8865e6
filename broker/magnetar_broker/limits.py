"""Bounds of topics, subscriptions and dispatchers, out of the settings."""

from dataclasses import dataclass, field

from magnetar_broker.deduplication import DeduplicationRules
from magnetar_broker.dispatch.base import DispatchLimits
from magnetar_broker.errors import ConsumerBusy, NotAllowed
from magnetar_broker.retention import Retention
from magnetar_proto.names import TopicName


@dataclass(frozen=True)
class TopicLimits(DispatchLimits):
    """Bounds of one topic; 0 is no limit."""

    max_producers: int = 10_000
    max_consumers: int = 10_000
    max_consumers_per_subscription: int = 5_000
    max_subscriptions: int = 10_000
    batch_index_acks: bool = True
    auto_subscription: bool = True
    strict_delays: bool = False
    retention: Retention = field(default_factory=Retention)
    deduplication: DeduplicationRules = field(default_factory=DeduplicationRules)

    def check_consumers(self, topic: TopicName, present: int) -> None:
        """`ConsumerBusy` unless one more consumer may join."""
        if 0 < self.max_consumers <= present:
            raise ConsumerBusy(
                f"{topic} has its {self.max_consumers} consumers (maxConsumersPerTopic)"
            )

    def check_subscriptions(self, topic: TopicName, present: int) -> None:
        """`NotAllowed` unless there may be one more subscription."""
        if 0 < self.max_subscriptions <= present:
            raise NotAllowed(
                f"{topic} has its {self.max_subscriptions} subscriptions (maxSubscriptionsPerTopic)"
            )
