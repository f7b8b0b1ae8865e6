"""The limits of a topic, its subscriptions and dispatchers, from settings and policies."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from magnetar_broker.base.connection import host_of
from magnetar_broker.base.errors import ConsumerBusy, NotAllowed
from magnetar_broker.base.networks import network_of
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import MetadataInterceptor, QuotaAction, SubscriptionType
from magnetar_broker.dispatch.base import DispatchLimits
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.policies.compaction_rules import CompactionRules
from magnetar_broker.policies.effective import EffectivePolicies
from magnetar_broker.policies.policy import Origin, Policy
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import (
    AUTO_SUBSCRIPTION_CREATION,
    BACKLOG_QUOTA_AGE,
    BACKLOG_QUOTA_SIZE,
    DEDUPLICATION_SNAPSHOT_INTERVAL,
    MESSAGE_TTL,
    SUBSCRIPTION_EXPIRATION,
    TABLE,
)
from magnetar_broker.policies.values import BacklogQuota
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.producers.deduplication import DeduplicationRules
from magnetar_proto.names import TopicName

NO_QUOTA = BacklogQuota(-1, QuotaAction.PRODUCER_REQUEST_HOLD)


@dataclass(frozen=True)
class TopicLimits(DispatchLimits):
    """The limits of one topic: values only; 0 means no limit."""

    max_producers: int = 10_000
    max_consumers: int = 10_000
    max_consumers_per_subscription: int = 5_000
    max_subscriptions: int = 10_000
    max_message_size: int = 0
    max_producers_of_address: int = 0
    max_consumers_of_address: int = 0
    subscription_types: frozenset[SubscriptionType] = frozenset(SubscriptionType)
    batch_index_acks: bool = True
    transactions: bool = True
    """Whether messages may be published and acknowledged in transactions."""
    metadata_interceptors: frozenset[MetadataInterceptor] = frozenset()
    auto_subscription: bool = True
    strict_delays: bool = True
    retention: Retention = field(default_factory=Retention)
    unread: Retention = field(default_factory=Retention)
    """The time and the size up to which unacknowledged messages are kept."""
    compaction: CompactionRules = field(default_factory=CompactionRules)
    message_ttl_seconds: int = 0
    subscription_expiration_minutes: int = 0
    size_quota: BacklogQuota = NO_QUOTA
    """The quota of the backlog's size, in bytes."""
    age_quota: BacklogQuota = NO_QUOTA
    """The quota of the backlog's age, in seconds; 0 means no limit, as without a quota."""
    keeps_quotas: bool = True
    precise_ages: bool = False
    """Whether a message's age is exact; else it counts from the closing of its segment."""
    deduplication: DeduplicationRules = field(default_factory=DeduplicationRules)
    throttle_entries: bool = False
    """Whether rates of delivery count a batch as one message."""
    throttle_caught_up: bool = True
    """Whether rates of delivery apply to subscriptions that are caught up, too."""

    def check_consumers(self, topic: TopicName, present: int) -> None:
        """Raise `ConsumerBusy` if the limit of consumers is reached."""
        if 0 < self.max_consumers <= present:
            raise ConsumerBusy(
                f"{topic} has {present} consumers and the limit is {self.max_consumers}: close "
                "one, or raise maxConsumersPerTopic"
            )

    def check_address(self, topic: TopicName, address: str, present: Iterable[Consumer]) -> None:
        """Raise `ConsumerBusy` if the limit of consumers from the address's host is reached."""
        limit = self.max_consumers_of_address
        if limit <= 0:
            return
        host = network_of(host_of(address))
        hosts = [network_of(host_of(one.connection.address)) for one in present]
        if hosts.count(host) >= limit:
            raise ConsumerBusy(
                f"{topic} has {limit} consumers from {host}, the limit of an address: close one, "
                "or raise maxSameAddressConsumersPerTopic"
            )

    def check_type(self, topic: TopicName, kind: str) -> None:
        """Raise `NotAllowed` unless this type of subscription is enabled."""
        if kind not in self.subscription_types:
            raise NotAllowed(
                f"subscriptions of type {kind} are disabled on {topic}: use another type, or "
                "add it to subscriptionTypesEnabled"
            )

    def check_subscriptions(self, topic: TopicName, present: int) -> None:
        """Raise `NotAllowed` if the limit of subscriptions is reached."""
        if 0 < self.max_subscriptions <= present:
            raise NotAllowed(
                f"{topic} has {present} subscriptions and the limit is {self.max_subscriptions}: "
                "delete one, or raise maxSubscriptionsPerTopic"
            )


SAME_NAMES = (
    "max_producers",
    "max_consumers",
    "max_consumers_per_subscription",
    "max_subscriptions",
    "max_message_size",
    "max_unacked_per_consumer",
    "max_unacked_per_subscription",
    "subscription_types",
    "retention",
)
BY_POLICY: dict[str, Policy[Any]] = {
    **{name: TABLE[name] for name in SAME_NAMES},
    "auto_subscription": AUTO_SUBSCRIPTION_CREATION,
    "message_ttl_seconds": MESSAGE_TTL,
    "subscription_expiration_minutes": SUBSCRIPTION_EXPIRATION,
    "size_quota": BACKLOG_QUOTA_SIZE,
    "age_quota": BACKLOG_QUOTA_AGE,
}
"""The limits that are policies, by the names of the fields; settings are their defaults."""


def topic_limits(settings: Settings) -> TopicLimits:
    """Return the limits that the settings define."""
    return TopicLimits(
        **{field: policy.default(settings) for field, policy in BY_POLICY.items()},
        max_read_entries=settings.dispatcher_max_read_batch_size,
        max_read_bytes=settings.dispatcher_max_read_size_bytes,
        max_round_robin_entries=settings.dispatcher_max_round_robin_batch_size,
        key_shared_ring=settings.subscription_key_shared_use_consistent_hashing,
        key_shared_ring_points=settings.subscription_key_shared_consistent_hashing_replica_points,
        key_shared_look_ahead_per_consumer=(
            settings.key_shared_look_ahead_msg_in_replay_threshold_per_consumer
        ),
        key_shared_look_ahead_per_subscription=(
            settings.key_shared_look_ahead_msg_in_replay_threshold_per_subscription
        ),
        count_lost_as_redelivery=settings.magnetar_count_lost_consumers_as_redelivery,
        failover_delay_ms=settings.active_consumer_failover_delay_time_millis,
        max_producers_of_address=settings.max_same_address_producers_per_topic,
        max_consumers_of_address=settings.max_same_address_consumers_per_topic,
        transactions=settings.transaction_coordinator_enabled,
        batch_index_acks=settings.acknowledgment_at_batch_index_level_enabled,
        metadata_interceptors=settings.broker_entry_metadata_interceptors,
        strict_delays=settings.is_delayed_delivery_deliver_at_time_strict,
        unread=unread_retention(settings),
        keeps_quotas=settings.backlog_quota_check_enabled,
        precise_ages=settings.precise_time_based_backlog_quota_check,
        throttle_entries=settings.dispatch_throttling_on_batch_message_enabled,
        throttle_caught_up=settings.dispatch_throttling_on_non_backlog_consumer_enabled,
        compaction=CompactionRules(
            retain_keyless=settings.topic_compaction_retain_null_key,
            bytes_per_second=settings.magnetar_compaction_read_mb_per_second << 20,
        ),
        deduplication=DeduplicationRules(
            max_names=settings.broker_deduplication_max_number_of_producers,
            idle_ms=settings.broker_deduplication_producer_inactivity_timeout_minutes * 60_000,
            snapshot_entries=settings.broker_deduplication_entries_interval,
            snapshot_seconds=settings.broker_deduplication_snapshot_interval_seconds,
        ),
    )


PULSAR_SETS = (
    "default_retention_time_in_minutes",
    "default_retention_size_in_mb",
    "broker_delete_inactive_topics_enabled",
    "broker_delete_inactive_topics_mode",
    "broker_delete_inactive_topics_max_inactive_duration_seconds",
)
"""Settings that say in a configuration of Pulsar when unread messages are deleted."""


def unread_retention(settings: Settings) -> Retention:
    """Return how long unread messages are kept; a configuration of Pulsar keeps its meaning."""
    own = "magnetar_unread_messages_retention_minutes" in settings.origins
    # promise: a configuration of Pulsar keeps its meaning
    if not own and any(field in settings.origins for field in PULSAR_SETS):
        return Retention()
    return Retention(
        settings.magnetar_unread_messages_retention_minutes,
        settings.magnetar_unread_messages_retention_size_in_mb,
    )


SYSTEM_TOPIC_LIMITS: dict[str, Any] = {
    "unread": Retention(),
    "max_producers": 0,
    "max_consumers": 0,
    "max_consumers_per_subscription": 0,
    "max_subscriptions": 0,
    "max_producers_of_address": 0,
    "max_consumers_of_address": 0,
    "message_ttl_seconds": 0,
    "subscription_expiration_minutes": 0,
    "size_quota": NO_QUOTA,
    "age_quota": NO_QUOTA,
}
"""Limits of the broker's own topics: its own clients are never refused or expired."""

LIMITS = "limits"
"""The key of limits among the values derived from policies."""
MAX_INTERNED = 1000
_interned: dict[TopicLimits, TopicLimits] = {}


def limits_of(base: TopicLimits, policies: PolicyView, topic: TopicName) -> TopicLimits:
    """Return the limits of a topic whose policies are loaded: `base` where they are unset.

    Topics with the same limits share them.
    """
    if topic.is_system:
        return _shared(base, SYSTEM_TOPIC_LIMITS)
    effective = policies.effective_policies(topic)
    found = effective.derived.get(LIMITS)
    if found is None or found[0] is not base:
        found = effective.derived[LIMITS] = (base, _with_policies(base, effective))
    limits: TopicLimits = found[1]
    return limits


def _with_policies(base: TopicLimits, effective: EffectivePolicies) -> TopicLimits:
    overrides: dict[str, Any] = {}
    for name, policy in BY_POLICY.items():
        resolved = effective.resolve(policy)
        if resolved.origin is not Origin.BROKER:
            overrides[name] = resolved.value
    if "retention" in overrides:
        overrides["unread"] = Retention()  # the policy says how long all messages stay
    snapshots = effective.resolve(DEDUPLICATION_SNAPSHOT_INTERVAL)
    if snapshots.origin is not Origin.BROKER:
        overrides["deduplication"] = replace(base.deduplication, snapshot_seconds=snapshots.value)
    return _shared(base, overrides) if overrides else base


def _shared(base: TopicLimits, overrides: dict[str, Any]) -> TopicLimits:
    if len(_interned) >= MAX_INTERNED:
        _interned.clear()
    limits = replace(base, **overrides)
    return _interned.setdefault(limits, limits)
