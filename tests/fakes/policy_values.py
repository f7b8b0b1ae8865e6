"""A strategy for the values of every policy: those that REST can set."""

from typing import Any

from hypothesis import strategies as st

from magnetar_broker import policies
from magnetar_broker.policies import (
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveMode,
    InactiveTopics,
    Policy,
    PublishRate,
    QuotaAction,
    Retention,
    SchemaCompatibility,
    SubscribeRate,
    SubscriptionType,
)

COUNT = st.integers(0, 2**31 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
RATE = st.builds(DispatchRate, INT, LONG, INT, st.booleans())
QUOTA = st.builds(BacklogQuota, LONG, st.sampled_from(QuotaAction), LONG)
AMOUNT = st.integers(1, 2**31 - 1) | st.just(-1)

STRATEGIES: dict[Policy[Any], st.SearchStrategy[Any]] = {
    policies.RETENTION: st.just(Retention()) | st.builds(Retention, AMOUNT, AMOUNT),
    policies.MESSAGE_TTL: COUNT,
    policies.SUBSCRIPTION_EXPIRATION: COUNT,
    policies.INACTIVE_TOPICS: st.builds(
        InactiveTopics, st.booleans(), st.sampled_from(InactiveMode), COUNT
    ),
    policies.COMPACTION_THRESHOLD: st.integers(0, 2**63 - 1),
    policies.BACKLOG_QUOTA_SIZE: QUOTA,
    policies.BACKLOG_QUOTA_AGE: QUOTA,
    policies.AUTO_TOPIC_CREATION: st.sampled_from(
        [AutoTopicCreation(False, False, 1), AutoTopicCreation(True, False, 1)]
    )
    | st.builds(AutoTopicCreation, st.just(True), st.just(True), st.integers(1, 10_000)),
    policies.AUTO_SUBSCRIPTION_CREATION: st.booleans(),
    policies.PUBLISH_RATE: st.builds(PublishRate, INT, LONG),
    policies.DISPATCH_RATE: RATE,
    policies.SUBSCRIPTION_DISPATCH_RATE: RATE,
    policies.SUBSCRIPTION_DISPATCH_RATES: st.dictionaries(st.text(), RATE, max_size=3),
    policies.SUBSCRIBE_RATE: st.builds(SubscribeRate, INT, INT),
    policies.MAX_PRODUCERS: COUNT,
    policies.MAX_CONSUMERS: COUNT,
    policies.MAX_CONSUMERS_PER_SUBSCRIPTION: COUNT,
    policies.MAX_SUBSCRIPTIONS: COUNT,
    policies.MAX_UNACKED_PER_CONSUMER: COUNT,
    policies.MAX_UNACKED_PER_SUBSCRIPTION: COUNT,
    policies.MAX_MESSAGE_SIZE: COUNT,
    policies.MAX_TOPICS: COUNT,
    policies.SUBSCRIPTION_TYPES: st.frozensets(st.sampled_from(SubscriptionType)),
    policies.SCHEMA_COMPATIBILITY: st.sampled_from(SchemaCompatibility),
    policies.SCHEMA_AUTO_UPDATE: st.booleans(),
    policies.SCHEMA_VALIDATION_ENFORCED: st.booleans(),
    policies.ENCRYPTION_REQUIRED: st.booleans(),
    policies.DEDUPLICATION: st.booleans(),
    policies.DEDUPLICATION_SNAPSHOT_INTERVAL: COUNT,
    policies.DELAYED_DELIVERY: st.builds(DelayedDelivery, st.booleans(), LONG, LONG),
}


@st.composite
def sayings(draw: st.DrawFn) -> tuple[Policy[Any], Any]:
    """A policy and a value of it, or None."""
    policy = draw(st.sampled_from(list(STRATEGIES)))
    return policy, draw(st.none() | STRATEGIES[policy])
