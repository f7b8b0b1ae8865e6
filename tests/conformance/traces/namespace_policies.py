"""Every policy of a namespace over REST: unset, set, set to what it may not be, unset again."""

from collections.abc import Sequence
from typing import Any

from conformance.trace import Trace


def _goes_round(
    t: Trace,
    policy: str,
    *values: Any,
    refused: Sequence[Any] = (),
    verb: str = "POST",
    removed: str | None = "",
) -> None:
    """`removed` is the path of DELETE if it is another; None if there is none."""
    namespace = f"namespaces/public/{t.token}"
    path = f"{namespace}/{policy}"
    t.rest("PUT", namespace, {"bundles": {"numBundles": 1}})
    t.rest("GET", path)
    for value in values:
        t.rest(verb, path, value)
        t.rest("GET", path)
    for value in refused:
        t.rest(verb, path, value)
    t.rest("GET", path)
    if removed is not None:
        t.rest("DELETE", f"{namespace}/{removed or policy}")
        t.rest("GET", path)
    t.rest("GET", f"{namespace}-absent/{policy}")
    t.rest(verb, f"{namespace}-absent/{policy}", values[0])


def retention(t: Trace) -> None:
    values = [
        {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        for minutes, megabytes in [(10, 20), (-1, -1), (0, 0), (-1, 5), (5, -1)]
    ]
    mixed = [
        {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5},
        {"retentionTimeInMinutes": 5, "retentionSizeInMB": 0},
    ]
    low = [{"retentionTimeInMinutes": -2, "retentionSizeInMB": -2}]
    _goes_round(t, "retention", *values, refused=[*mixed, *low, b"{nonsense"])


def retention_without_a_body(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    t.rest("PUT", namespace)
    t.rest("POST", f"{namespace}/retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})
    t.rest("POST", f"{namespace}/retention", {})
    t.rest("GET", f"{namespace}/retention")


def message_ttl(t: Trace) -> None:
    _goes_round(t, "messageTTL", 60, 0, "7", refused=[-1, "soon", {}])


def backlog_quotas(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    quota = f"{namespace}/backlogQuota"
    t.rest("PUT", namespace, {"bundles": {"numBundles": 1}})
    t.rest("GET", f"{namespace}/backlogQuotaMap")
    t.rest("POST", quota, {"limitSize": 1000, "policy": "producer_exception"})
    t.rest("GET", f"{namespace}/backlogQuotaMap")
    t.rest(
        "POST",
        f"{quota}?backlogQuotaType=message_age",
        {"limitTime": 60, "policy": "consumer_backlog_eviction"},
    )
    t.rest("GET", f"{namespace}/backlogQuotaMap")
    t.rest(
        "POST",
        f"{quota}?backlogQuotaType=destination_storage",
        {"limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"},
    )
    t.rest("GET", f"{namespace}/backlogQuotaMap")
    t.rest("DELETE", f"{quota}?backlogQuotaType=message_age")
    t.rest("GET", f"{namespace}/backlogQuotaMap")
    t.rest("DELETE", quota)
    t.rest("GET", f"{namespace}/backlogQuotaMap")
    t.rest("GET", f"{namespace}-absent/backlogQuotaMap")


def backlog_quotas_in_the_old_form(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    t.rest("PUT", namespace)
    t.rest("POST", f"{namespace}/backlogQuota", {"limit": 5000, "policy": "producer_request_hold"})
    t.rest("GET", f"{namespace}/backlogQuotaMap")


def backlog_quotas_that_are_none(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    quota = f"{namespace}/backlogQuota"
    t.rest("PUT", namespace)
    t.rest("POST", quota, {"limitSize": 1000, "policy": "nonsense"})
    t.rest("POST", f"{quota}?backlogQuotaType=nonsense", {"limitSize": 1})
    t.rest("POST", quota, b"{nonsense")
    t.rest("GET", f"{namespace}/backlogQuotaMap")


def a_backlog_quota_above_the_retention(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    t.rest("PUT", namespace)
    t.rest("POST", f"{namespace}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 1})
    t.rest(
        "POST",
        f"{namespace}/backlogQuota",
        {"limitSize": 2 << 20, "policy": "producer_exception"},
    )
    t.rest(
        "POST",
        f"{namespace}/backlogQuota",
        {"limitSize": 1000, "policy": "producer_exception"},
    )
    t.rest(
        "POST",
        f"{namespace}/backlogQuota?backlogQuotaType=message_age",
        {"limitTime": 3600, "policy": "producer_exception"},
    )


def deduplication(t: Trace) -> None:
    _goes_round(t, "deduplication", True, False, refused=["maybe"])


def auto_topic_creation(t: Trace) -> None:
    values = [
        {"allowAutoTopicCreation": False},
        {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
    ]
    refused = [
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 0},
        {"allowAutoTopicCreation": True, "topicType": "partitioned"},
        {"allowAutoTopicCreation": True, "topicType": "nonsense"},
        {"allowAutoTopicCreation": True},
        {"allowAutoTopicCreation": True, "topicType": "non-partitioned", "defaultNumPartitions": 3},
    ]
    _goes_round(t, "autoTopicCreation", *values, refused=refused)


def auto_subscription_creation(t: Trace) -> None:
    values = [{"allowAutoSubscriptionCreation": value} for value in (False, True)]
    _goes_round(t, "autoSubscriptionCreation", *values)


def subscription_expiration_time(t: Trace) -> None:
    _goes_round(t, "subscriptionExpirationTime", 60, 0, refused=[-1, "soon"])


def schema_compatibility_strategy(t: Trace) -> None:
    names = ("BACKWARD", "FULL_TRANSITIVE", "ALWAYS_INCOMPATIBLE", "UNDEFINED")
    _goes_round(t, "schemaCompatibilityStrategy", *names, verb="PUT", removed=None)


def schema_validation_enforced(t: Trace) -> None:
    _goes_round(t, "schemaValidationEnforced", True, False, removed=None)


def schema_auto_update(t: Trace) -> None:
    _goes_round(t, "isAllowAutoUpdateSchema", False, True, removed=None)


def _dispatch_rates(t: Trace, policy: str) -> None:
    full = {
        "dispatchThrottlingRateInMsg": 10,
        "dispatchThrottlingRateInByte": 2000,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }
    part = {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 2}
    _goes_round(t, policy, full, part, full | {"relativeToPublishRate": True}, {})


def dispatch_rate(t: Trace) -> None:
    _dispatch_rates(t, "dispatchRate")


def subscription_dispatch_rate(t: Trace) -> None:
    _dispatch_rates(t, "subscriptionDispatchRate")


def publish_rate(t: Trace) -> None:
    full = {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 2000}
    _goes_round(t, "publishRate", full, {"publishThrottlingRateInMsg": 5}, {})


def subscribe_rate(t: Trace) -> None:
    full = {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 5}
    _goes_round(t, "subscribeRate", full, {"subscribeThrottlingRatePerConsumer": 2}, {})


def max_producers_per_topic(t: Trace) -> None:
    _goes_round(t, "maxProducersPerTopic", 5, 0, "6", refused=[-1, "many"])


def max_consumers_per_topic(t: Trace) -> None:
    _goes_round(t, "maxConsumersPerTopic", 5, 0, refused=[-1])


def max_consumers_per_subscription(t: Trace) -> None:
    _goes_round(t, "maxConsumersPerSubscription", 5, 0, refused=[-1])


def max_subscriptions_per_topic(t: Trace) -> None:
    _goes_round(t, "maxSubscriptionsPerTopic", 5, 0, refused=[-1])


def max_topics_per_namespace(t: Trace) -> None:
    _goes_round(t, "maxTopicsPerNamespace", 5, 0, refused=[-1])


def max_unacked_messages_per_consumer(t: Trace) -> None:
    _goes_round(t, "maxUnackedMessagesPerConsumer", 5, 0, refused=[-1])


def max_unacked_messages_per_subscription(t: Trace) -> None:
    _goes_round(t, "maxUnackedMessagesPerSubscription", 5, 0, refused=[-1])


def delayed_delivery(t: Trace) -> None:
    full = {"tickTime": 500, "active": False, "maxDeliveryDelayInMillis": 60000}
    _goes_round(t, "delayedDelivery", full, {"tickTime": 1000, "active": True})


def inactive_topics(t: Trace) -> None:
    full = {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 30,
        "deleteWhileInactive": True,
    }
    other = full | {"inactiveTopicDeleteMode": "delete_when_no_subscriptions"}
    _goes_round(t, "inactiveTopicPolicies", full, other | {"deleteWhileInactive": False})


def compaction_threshold(t: Trace) -> None:
    _goes_round(t, "compactionThreshold", 100000, 0, refused=[-1], verb="PUT")


def deduplication_snapshot_interval(t: Trace) -> None:
    _goes_round(t, "deduplicationSnapshotInterval", 10, 0, refused=[-1], removed=None)


def encryption_required(t: Trace) -> None:
    _goes_round(t, "encryptionRequired", True, False, "true", removed=None)


def subscription_types_enabled(t: Trace) -> None:
    _goes_round(t, "subscriptionTypesEnabled", ["Shared"], ["Failover", "Key_Shared"], [])
