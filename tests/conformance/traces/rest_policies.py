"""Policies over REST: what is unset, set, shown and deleted, and values that are none."""

from typing import Any

from conformance.differences import differs
from conformance.rest_differences import CONVERTED, NO_DELETE
from conformance.trace import Trace

NUMBERS = {
    "messageTTL": 60,
    "subscriptionExpirationTime": 5,
    "maxProducersPerTopic": 3,
    "maxConsumersPerTopic": 3,
    "maxConsumersPerSubscription": 3,
    "maxSubscriptionsPerTopic": 3,
    "maxTopicsPerNamespace": 3,
    "maxUnackedMessagesPerConsumer": 3,
    "maxUnackedMessagesPerSubscription": 3,
}
OBJECTS: dict[str, Any] = {
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10},
    "dispatchRate": {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 1},
    "subscriptionDispatchRate": {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 1},
    "publishRate": {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 100},
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 10, "ratePeriodInSecond": 30},
    "delayedDelivery": {"tickTime": 1000, "active": True},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": True,
    },
    "autoTopicCreation": {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": True},
    "subscriptionTypesEnabled": ["Shared", "Failover"],
}
NO_EFFECT: dict[str, Any] = {
    "replicatorDispatchRate": {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 1},
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 1.0,
    },
}
UNDELETED: dict[str, Any] = {
    "deduplicationSnapshotInterval": 10,
    "encryptionRequired": True,
}
OF_TOPICS: dict[str, Any] = {
    "maxProducers": 3,
    "maxConsumers": 3,
    "maxConsumersPerSubscription": 3,
    "maxSubscriptionsPerTopic": 3,
    "maxMessageSize": 1000,
    "maxUnackedMessagesOnConsumer": 3,
    "maxUnackedMessagesOnSubscription": 3,
    "deduplicationEnabled": True,
    "compactionThreshold": 1000,
    "dispatchRate": OBJECTS["dispatchRate"],
    "subscriptionDispatchRate": OBJECTS["subscriptionDispatchRate"],
    "publishRate": OBJECTS["publishRate"],
    "subscribeRate": OBJECTS["subscribeRate"],
    "delayedDelivery": OBJECTS["delayedDelivery"],
    "inactiveTopicPolicies": OBJECTS["inactiveTopicPolicies"],
    "subscriptionTypesEnabled": OBJECTS["subscriptionTypesEnabled"],
}
OF_TOPICS_WITHOUT_EFFECT: dict[str, Any] = {
    "persistence": NO_EFFECT["persistence"],
    "replicatorDispatchRate": NO_EFFECT["replicatorDispatchRate"],
    "deduplicationSnapshotInterval": 10,
}


def _namespace(t: Trace) -> str:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, {"bundles": {"numBundles": 2}})
    return path


def _goes_round(t: Trace, subject: str, policies: dict[str, Any]) -> None:
    for policy, value in policies.items():
        t.web("GET", f"{subject}/{policy}")
        t.web("POST", f"{subject}/{policy}", value)
        t.web("GET", f"{subject}/{policy}")
        t.web("DELETE", f"{subject}/{policy}")
        t.web("GET", f"{subject}/{policy}")


def numbers_of_a_namespace(t: Trace) -> None:
    _goes_round(t, _namespace(t), NUMBERS)


def objects_of_a_namespace(t: Trace) -> None:
    _goes_round(t, _namespace(t), OBJECTS)


def policies_of_a_namespace_without_effect(t: Trace) -> None:
    _goes_round(t, _namespace(t), NO_EFFECT)


def policies_that_are_not_deleted(t: Trace) -> None:
    path = _namespace(t)
    for policy, value in UNDELETED.items():
        t.web("GET", f"{path}/{policy}")
        t.web("POST", f"{path}/{policy}", value)
        t.web("GET", f"{path}/{policy}")


def who_may_use_a_subscription(t: Trace) -> None:
    path = _namespace(t)
    t.web("GET", f"{path}/subscriptionAuthMode")
    t.web("POST", f"{path}/subscriptionAuthMode", "Prefix")
    t.web("GET", f"{path}/subscriptionAuthMode")


@differs(NO_DELETE)
def policies_that_cannot_be_deleted(t: Trace) -> None:
    path = _namespace(t)
    for policy in (*UNDELETED, "subscriptionAuthMode"):
        t.web("DELETE", f"{path}/{policy}")


def policies_of_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    _goes_round(t, t.path, OF_TOPICS)


def policies_of_a_topic_without_effect(t: Trace) -> None:
    t.web("PUT", t.path)
    _goes_round(t, t.path, OF_TOPICS_WITHOUT_EFFECT)


def limits_below_zero(t: Trace) -> None:
    path = _namespace(t)
    for policy in NUMBERS:
        t.web("POST", f"{path}/{policy}", -1)


def limits_of_topics_below_zero(t: Trace) -> None:
    t.web("PUT", t.path)
    for policy in list(OF_TOPICS)[:7]:
        t.web("POST", f"{t.path}/{policy}", -1)


def objects_that_are_numbers(t: Trace) -> None:
    path = _namespace(t)
    for policy in OBJECTS:
        t.web("POST", f"{path}/{policy}", 7)


def objects_that_are_broken(t: Trace) -> None:
    path = _namespace(t)
    for policy in ("retention", "messageTTL", "dispatchRate", "autoTopicCreation", "publishRate"):
        t.web("POST", f"{path}/{policy}", b"{")


def objects_without_members(t: Trace) -> None:
    path = _namespace(t)
    for policy in ("retention", "dispatchRate", "publishRate", "subscribeRate", "delayedDelivery"):
        t.web("POST", f"{path}/{policy}", {})
        t.web("GET", f"{path}/{policy}")


def flags_of_a_namespace(t: Trace) -> None:
    path = _namespace(t)
    t.web("GET", f"{path}/deduplication")
    t.web("POST", f"{path}/deduplication", True)
    t.web("GET", f"{path}/deduplication")
    t.web("DELETE", f"{path}/deduplication")
    t.web("GET", f"{path}/schemaValidationEnforced")
    t.web("POST", f"{path}/schemaValidationEnforced", True)
    t.web("GET", f"{path}/schemaValidationEnforced")
    t.web("GET", f"{path}/isAllowAutoUpdateSchema")
    t.web("POST", f"{path}/isAllowAutoUpdateSchema", False)
    t.web("GET", f"{path}/isAllowAutoUpdateSchema")


@differs(CONVERTED)
def numbers_in_place_of_names(t: Trace) -> None:
    path = _namespace(t)
    t.web("POST", f"{path}/deduplication", 7)
    t.web("PUT", f"{path}/schemaCompatibilityStrategy", 7)


def flags_that_are_none(t: Trace) -> None:
    path = _namespace(t)
    t.web("POST", f"{path}/deduplication", "perhaps")
    t.web("POST", f"{path}/schemaValidationEnforced", "perhaps")


def the_compatibility_of_schemas(t: Trace) -> None:
    path = _namespace(t)
    t.web("GET", f"{path}/schemaCompatibilityStrategy")
    t.web("PUT", f"{path}/schemaCompatibilityStrategy", "BACKWARD")
    t.web("GET", f"{path}/schemaCompatibilityStrategy")
    t.web("POST", f"{path}/schemaCompatibilityStrategy", "FORWARD")


def quotas_of_a_namespace(t: Trace) -> None:
    path = _namespace(t)
    quota = {"limitSize": 1000, "policy": "producer_exception"}
    age = {"limitTime": 1000, "policy": "consumer_backlog_eviction"}
    t.web("GET", f"{path}/backlogQuotaMap")
    t.web("POST", f"{path}/backlogQuota", quota)
    t.web("POST", f"{path}/backlogQuota?backlogQuotaType=message_age", age)
    t.web("GET", f"{path}/backlogQuotaMap")
    t.web("DELETE", f"{path}/backlogQuota?backlogQuotaType=message_age")
    t.web("DELETE", f"{path}/backlogQuota")
    t.web("GET", f"{path}/backlogQuotaMap")
    t.web("POST", f"{path}/backlogQuota?backlogQuotaType=other", quota)
    t.web("DELETE", f"{path}/backlogQuota?backlogQuotaType=other")
    t.web("POST", f"{path}/backlogQuota", 7)


def compaction_of_a_namespace(t: Trace) -> None:
    path = _namespace(t)
    t.web("GET", f"{path}/compactionThreshold")
    t.web("PUT", f"{path}/compactionThreshold", 1000)
    t.web("GET", f"{path}/compactionThreshold")
    t.web("PUT", f"{path}/compactionThreshold", -1)
    t.web("DELETE", f"{path}/compactionThreshold")


def values_of_topics_in_the_query(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/messageTTL")
    t.web("POST", f"{t.path}/messageTTL?messageTTL=60")
    t.web("GET", f"{t.path}/messageTTL")
    t.web("POST", f"{t.path}/messageTTL?messageTTL=-1")
    t.web("POST", f"{t.path}/messageTTL?messageTTL=soon")
    t.web("DELETE", f"{t.path}/messageTTL")


def what_applies_to_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/retention?applied=true")
    t.web("GET", f"{t.path}/messageTTL?applied=true")
    t.web("GET", f"{t.path}/maxProducers?applied=true")
    t.web("GET", f"{t.path}/deduplicationEnabled?applied=true")
    t.web("GET", f"{t.path}/delayedDelivery?applied=true")
    t.web("GET", f"{t.path}/dispatchRate?applied=true")
    t.web("GET", f"{t.path}/compactionThreshold?applied=true")


def policies_of_a_topic_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"{t.path}/retention")
    t.web("POST", f"{t.path}/maxProducers", 3)
    t.web("DELETE", f"{t.path}/maxProducers")


def policies_of_a_partition(t: Trace) -> None:
    t.web("PUT", f"{t.path}/partitions", 2)
    t.web("GET", f"{t.path}-partition-0/maxProducers")
    t.web("POST", f"{t.path}-partition-0/maxProducers", 3)
    t.web("DELETE", f"{t.path}-partition-0/maxProducers")
    t.web("POST", f"{t.path}/maxProducers", 3)
    t.web("GET", f"{t.path}/maxProducers")


def retention_of_a_topic(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("GET", f"{t.path}/retention")
    t.web("POST", f"{t.path}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20000})
    t.web("GET", f"{t.path}/retention")
    t.web("POST", f"{t.path}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10})
    t.web("POST", f"{t.path}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 10})
    t.web("POST", f"{t.path}/retention", "long")
    t.web("DELETE", f"{t.path}/retention")
    t.web("GET", f"{t.path}/retention")


def the_rate_of_one_subscription(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("PUT", f"{t.path}/subscription/sub")
    t.web("GET", f"{t.path}/sub/dispatchRate")
    t.web("POST", f"{t.path}/sub/dispatchRate", OBJECTS["dispatchRate"])
    t.web("GET", f"{t.path}/sub/dispatchRate")
    t.web("DELETE", f"{t.path}/sub/dispatchRate")
    t.web("GET", f"{t.path}/sub/dispatchRate")
