"""Every policy of a topic over REST: unset, what applies, set, set to what it may not be, unset."""

from collections.abc import Sequence
from typing import Any

from conformance.differences import Difference, differs
from conformance.trace import Trace


def _goes_round(
    t: Trace,
    policy: str,
    *values: Any,
    refused: Sequence[Any] = (),
    verb: str = "POST",
    applied: bool = True,
) -> None:
    """`applied`: whether the policy may be asked for as it applies."""
    path = t.path
    t.rest("PUT", path)
    asked = [f"{path}/{policy}", *([f"{path}/{policy}?applied=true"] if applied else [])]
    _asks(t, asked)
    for value in values:
        t.rest(verb, f"{path}/{policy}", value)
        t.rest("GET", asked[0])
    for value in refused:
        t.rest(verb, f"{path}/{policy}", value)
    _asks(t, asked)
    t.rest("DELETE", f"{path}/{policy}")
    _asks(t, asked)


def _asks(t: Trace, paths: Sequence[str]) -> None:
    for path in paths:
        t.rest("GET", path)


def _from_above(t: Trace, segment: str, policy: str, value: Any, own: Any) -> None:
    """A value set at the namespace, then overridden and removed at the topic."""
    namespace = f"namespaces/public/{t.token}"
    path = f"persistent/public/{t.token}/topic"
    asked = [f"{path}/{policy}", f"{path}/{policy}?applied=true"]
    t.rest("PUT", namespace, {"bundles": {"numBundles": 1}})
    t.rest("PUT", path)
    t.rest("POST", f"{namespace}/{segment}", value)
    _asks(t, asked)
    t.rest("POST", f"{path}/{policy}", own)
    _asks(t, asked)
    t.rest("DELETE", f"{path}/{policy}")
    _asks(t, asked)
    t.rest("DELETE", f"{namespace}/{segment}")
    _asks(t, asked)


def policies_of_a_topic_that_is_not_there(t: Trace) -> None:
    t.rest("GET", f"{t.path}/maxProducers")
    t.rest("POST", f"{t.path}/maxProducers", 5)
    t.rest("DELETE", f"{t.path}/maxProducers")


def policies_in_a_namespace_that_is_not_there(t: Trace) -> None:
    path = f"persistent/public/{t.token}/topic/maxProducers"
    t.rest("GET", path)
    t.rest("POST", path, 5)


def policies_of_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("POST", f"{t.path}/maxProducers", 5)
    t.rest("GET", f"{t.path}/maxProducers")
    t.rest("GET", f"{t.path}-partition-0/maxProducers")
    t.rest("POST", f"{t.path}-partition-0/maxProducers", 6)
    t.rest("DELETE", f"{t.path}-partition-0/maxProducers")


def policies_of_a_topic_go_with_it(t: Trace) -> None:
    path = t.path
    t.rest("PUT", path)
    t.rest("POST", f"{path}/maxProducers", 5)
    t.rest("DELETE", path)
    t.rest("PUT", path)
    t.rest("GET", f"{path}/maxProducers")


def policies_of_a_non_persistent_topic(t: Trace) -> None:
    path = f"non-persistent/public/default/{t.token}"
    t.connects().produces(f"non-persistent://public/default/{t.token}")
    t.rest("POST", f"{path}/maxProducers", 5)
    t.rest("GET", f"{path}/maxProducers")


def retention(t: Trace) -> None:
    values = [
        {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        for minutes, megabytes in [(10, 20000), (-1, -1), (0, 0)]
    ]
    below_the_quota = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}
    mixed = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 20000}
    _goes_round(t, "retention", *values, refused=[below_the_quota, mixed])


def retention_from_above(t: Trace) -> None:
    above = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}
    own = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    _from_above(t, "retention", "retention", above, own)


def message_ttl(t: Trace) -> None:
    path = t.path
    t.rest("PUT", path)
    asked = [f"{path}/messageTTL", f"{path}/messageTTL?applied=true"]
    _asks(t, asked)
    for value in (60, 0, -1, "soon"):
        t.rest("POST", f"{path}/messageTTL?messageTTL={value}")
        _asks(t, asked)
    t.rest("DELETE", f"{path}/messageTTL")
    _asks(t, asked)


def backlog_quotas(t: Trace) -> None:
    path = t.path
    t.rest("PUT", path)
    asked = [f"{path}/backlogQuotaMap", f"{path}/backlogQuotaMap?applied=true"]
    _asks(t, asked)
    t.rest("POST", f"{path}/backlogQuota", {"limitSize": 1000, "policy": "producer_exception"})
    _asks(t, asked)
    t.rest(
        "POST",
        f"{path}/backlogQuota?backlogQuotaType=message_age",
        {"limitTime": 60, "policy": "consumer_backlog_eviction"},
    )
    _asks(t, asked)
    t.rest("DELETE", f"{path}/backlogQuota")
    t.rest("DELETE", f"{path}/backlogQuota?backlogQuotaType=message_age")
    _asks(t, asked)


@differs(
    Difference(
        "backlog quotas that apply to a topic",
        "the namespace's are missing if the topic has a quota of another type",
        "each type comes from the topic, the namespace or the broker",
    )
)
def backlog_quotas_from_above(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    path = f"persistent/public/{t.token}/topic"
    t.rest("PUT", namespace)
    t.rest("PUT", path)
    t.rest("POST", f"{namespace}/backlogQuota", {"limitSize": 9, "policy": "producer_exception"})
    t.rest("GET", f"{path}/backlogQuotaMap?applied=true")
    t.rest(
        "POST",
        f"{path}/backlogQuota?backlogQuotaType=message_age",
        {"limitTime": 60, "policy": "consumer_backlog_eviction"},
    )
    t.rest("GET", f"{path}/backlogQuotaMap?applied=true")


def deduplication(t: Trace) -> None:
    _goes_round(t, "deduplicationEnabled", True, False)


def deduplication_from_above(t: Trace) -> None:
    _from_above(t, "deduplication", "deduplicationEnabled", True, False)


def delayed_delivery(t: Trace) -> None:
    full = {"tickTime": 500, "active": False, "maxDeliveryDelayInMillis": 60000}
    _goes_round(t, "delayedDelivery", full, {"tickTime": 1000, "active": True})


def publish_rate(t: Trace) -> None:
    full = {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 2000}
    _goes_round(t, "publishRate", full, {"publishThrottlingRateInMsg": 5}, {}, applied=False)


def _dispatch_rates(t: Trace, policy: str) -> None:
    full = {
        "dispatchThrottlingRateInMsg": 10,
        "dispatchThrottlingRateInByte": 2000,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }
    part = {"dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 2}
    _goes_round(t, policy, full, part, full | {"relativeToPublishRate": True})


def dispatch_rate(t: Trace) -> None:
    _dispatch_rates(t, "dispatchRate")


def subscription_dispatch_rate(t: Trace) -> None:
    _dispatch_rates(t, "subscriptionDispatchRate")


def dispatch_rate_of_one_subscription(t: Trace) -> None:
    _dispatch_rates(t, "sub/dispatchRate")


def subscription_dispatch_rate_from_above(t: Trace) -> None:
    above = {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 1}
    policy = "subscriptionDispatchRate"
    _from_above(t, policy, policy, above, above | {"dispatchThrottlingRateInMsg": 20})


def subscribe_rate(t: Trace) -> None:
    full = {"subscribeThrottlingRatePerConsumer": 3, "ratePeriodInSecond": 5}
    _goes_round(t, "subscribeRate", full, {"subscribeThrottlingRatePerConsumer": 2})


def max_producers(t: Trace) -> None:
    _goes_round(t, "maxProducers", 5, 0, refused=[-1])


def max_producers_from_above(t: Trace) -> None:
    _from_above(t, "maxProducersPerTopic", "maxProducers", 5, 7)


def max_consumers(t: Trace) -> None:
    _goes_round(t, "maxConsumers", 5, 0, refused=[-1])


def max_consumers_per_subscription(t: Trace) -> None:
    _goes_round(t, "maxConsumersPerSubscription", 5, 0, refused=[-1], applied=False)


def max_subscriptions_per_topic(t: Trace) -> None:
    _goes_round(t, "maxSubscriptionsPerTopic", 5, 0, refused=[-1], applied=False)


def max_message_size(t: Trace) -> None:
    _goes_round(t, "maxMessageSize", 5000, 0, refused=[-1, 6 << 20], applied=False)


def max_unacked_messages_on_consumer(t: Trace) -> None:
    _goes_round(t, "maxUnackedMessagesOnConsumer", 5, 0, refused=[-1])


def max_unacked_messages_on_subscription(t: Trace) -> None:
    _goes_round(t, "maxUnackedMessagesOnSubscription", 5, 0, refused=[-1])


def compaction_threshold(t: Trace) -> None:
    _goes_round(t, "compactionThreshold", 100000, 0, refused=[-1])


def inactive_topics(t: Trace) -> None:
    full = {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 30,
        "deleteWhileInactive": True,
    }
    _goes_round(t, "inactiveTopicPolicies", full)


def schema_validation_enforced(t: Trace) -> None:
    path = t.path
    t.rest("PUT", path)
    asked = [f"{path}/schemaValidationEnforced", f"{path}/schemaValidationEnforced?applied=true"]
    _asks(t, asked)
    for value in (True, False):
        t.rest("POST", asked[0], value)
        _asks(t, asked)


def schema_compatibility_strategy(t: Trace) -> None:
    _goes_round(t, "schemaCompatibilityStrategy", "BACKWARD", "FULL", verb="PUT")


@differs(
    Difference(
        "effective subscription types of a topic without a value of its own",
        "an empty response, or an empty list",
        "all that are allowed; the topic's own list is empty",
    )
)
def subscription_types_enabled(t: Trace) -> None:
    _goes_round(t, "subscriptionTypesEnabled", ["Shared"], ["Failover", "Key_Shared"], [])


def auto_subscription_creation(t: Trace) -> None:
    values = [{"allowAutoSubscriptionCreation": value} for value in (False, True)]
    _goes_round(t, "autoSubscriptionCreation", *values)


def subscription_expiration_time(t: Trace) -> None:
    path = t.path
    t.rest("PUT", path)
    asked = f"{path}/subscriptionExpirationTime"
    for value in (60, 0):
        t.rest("POST", f"{asked}?subscriptionExpirationTime={value}")
        _asks(t, [asked, f"{asked}?applied=true"])
    t.rest("DELETE", asked)
    _asks(t, [asked, f"{asked}?applied=true"])


def deduplication_snapshot_interval(t: Trace) -> None:
    _goes_round(t, "deduplicationSnapshotInterval", 10, 0, refused=[-1], applied=False)
