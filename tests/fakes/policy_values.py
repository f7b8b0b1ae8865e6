"""A strategy for the values of every policy: those that REST can set."""

from typing import Any

from hypothesis import strategies as st

from magnetar_broker.config.domains import (
    InactiveMode,
    QuotaAction,
    ReadPriority,
    SchemaCompatibility,
    SubscriptionType,
)
from magnetar_broker.policies import table, without_effect
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.values import (
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
    PublishRate,
    SubscribeRate,
)
from magnetar_proto.admin.offload_flags import DRIVERS

COUNT = st.integers(0, 2**31 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
RATE = st.builds(DispatchRate, INT, LONG, INT, st.booleans())
QUOTA = st.builds(BacklogQuota, LONG, st.sampled_from(QuotaAction), LONG)
NAMES = st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True).map(tuple)
AMOUNT = st.integers(1, 2**31 - 1) | st.just(-1)

STRATEGIES: dict[Policy[Any], st.SearchStrategy[Any]] = {
    table.RETENTION: st.just(Retention()) | st.builds(Retention, AMOUNT, AMOUNT),
    table.MESSAGE_TTL: COUNT,
    table.SUBSCRIPTION_EXPIRATION: COUNT,
    table.INACTIVE_TOPICS: st.builds(
        InactiveTopics, st.booleans(), st.sampled_from(InactiveMode), COUNT
    ),
    table.COMPACTION_THRESHOLD: st.integers(0, 2**63 - 1),
    table.BACKLOG_QUOTA_SIZE: QUOTA,
    table.BACKLOG_QUOTA_AGE: QUOTA,
    table.AUTO_TOPIC_CREATION: st.sampled_from(
        [AutoTopicCreation(False, False, 1), AutoTopicCreation(True, False, 1)]
    )
    | st.builds(AutoTopicCreation, st.just(True), st.just(True), st.integers(1, 10_000)),
    table.AUTO_SUBSCRIPTION_CREATION: st.booleans(),
    table.PUBLISH_RATE: st.builds(PublishRate, INT, LONG),
    table.DISPATCH_RATE: RATE,
    table.SUBSCRIPTION_DISPATCH_RATE: RATE,
    table.SUBSCRIPTION_DISPATCH_RATES: st.dictionaries(st.text(), RATE, max_size=3),
    table.SUBSCRIBE_RATE: st.builds(SubscribeRate, INT, INT),
    table.MAX_PRODUCERS: COUNT,
    table.MAX_CONSUMERS: COUNT,
    table.MAX_CONSUMERS_PER_SUBSCRIPTION: COUNT,
    table.MAX_SUBSCRIPTIONS: COUNT,
    table.MAX_UNACKED_PER_CONSUMER: COUNT,
    table.MAX_UNACKED_PER_SUBSCRIPTION: COUNT,
    table.MAX_MESSAGE_SIZE: COUNT,
    table.MAX_TOPICS: COUNT,
    table.SUBSCRIPTION_TYPES: st.frozensets(st.sampled_from(SubscriptionType)),
    table.SCHEMA_COMPATIBILITY: st.sampled_from(SchemaCompatibility),
    table.SCHEMA_AUTO_UPDATE: st.booleans(),
    table.SCHEMA_VALIDATION_ENFORCED: st.booleans(),
    table.ENCRYPTION_REQUIRED: st.booleans(),
    table.DEDUPLICATION: st.booleans(),
    table.DEDUPLICATION_SNAPSHOT_INTERVAL: COUNT,
    table.DELAYED_DELIVERY: st.builds(DelayedDelivery, st.booleans(), LONG, LONG),
    without_effect.PERSISTENCE: st.builds(
        lambda copies, rate: (
            dict.fromkeys(without_effect.QUORUMS, copies) | {"managedLedgerMaxMarkDeleteRate": rate}
        ),
        st.integers(1, 5),
        st.floats(-1, 1e9),
    ),
    without_effect.BOOKIE_AFFINITY: st.fixed_dictionaries(
        {}, optional={"bookkeeperAffinityGroupPrimary": st.text(max_size=5)}
    ),
    table.OFFLOAD: st.fixed_dictionaries(
        {"managedLedgerOffloadDriver": st.sampled_from(DRIVERS)},
        optional={
            "managedLedgerOffloadBucket": st.text(max_size=5),
            "s3ManagedLedgerOffloadBucket": st.text(max_size=5),
            "managedLedgerOffloadThresholdInBytes": LONG,
            "managedLedgerOffloadedReadPriority": st.sampled_from(ReadPriority),
        },
    ),
    table.OFFLOAD_THRESHOLD: LONG,
    table.OFFLOAD_THRESHOLD_SECONDS: LONG,
    table.OFFLOAD_DELETION_LAG: LONG,
    without_effect.REPLICATION_CLUSTERS: NAMES,
    without_effect.ALLOWED_CLUSTERS: NAMES,
    without_effect.REPLICATOR_DISPATCH_RATE: RATE,
    without_effect.MIGRATED: st.booleans(),
    without_effect.ANTI_AFFINITY: st.text(max_size=5),
    without_effect.RESOURCE_GROUP: st.text(min_size=1, max_size=5),
    without_effect.PAUSE_ON_UNSTORED_ACKS: st.booleans(),
    without_effect.METRICS_PROPERTIES: NAMES,
    table.SUBSCRIPTION_AUTH_MODE: st.sampled_from(table.SubscriptionAuthMode),
    without_effect.FORMER_SCHEMA_COMPATIBILITY: st.sampled_from(without_effect.FormerCompatibility),
}


@st.composite
def policy_values(draw: st.DrawFn) -> tuple[Policy[Any], Any]:
    """Draw a policy and a value of it, or None."""
    policy = draw(st.sampled_from(list(STRATEGIES)))
    return policy, draw(st.none() | STRATEGIES[policy])
