"""Bounds of topics, subscriptions and dispatchers, out of the settings."""

from dataclasses import dataclass, field

from magnetar_broker.dispatch.base import DispatchLimits
from magnetar_broker.retention import Retention


@dataclass(frozen=True)
class TopicLimits(DispatchLimits):
    """Bounds of one topic; 0 is no limit."""

    max_producers: int = 10_000
    max_consumers: int = 10_000
    max_consumers_per_subscription: int = 5_000
    max_subscriptions: int = 10_000
    batch_index_acks: bool = True
    auto_subscription: bool = True
    retention: Retention = field(default_factory=Retention)
