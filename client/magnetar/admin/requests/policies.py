"""Requests about policies of namespaces and topics (docs/policies.md): each is a `Policy`.

admin(policies.RETENTION.set("shop/orders", Retention(minutes=60, megabytes=-1)))
admin(policies.MESSAGE_TTL.get("persistent://shop/orders/paid", applied=True))

A name of two parts such as `shop/orders` is a namespace; every other name is a topic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from magnetar.admin.requests.request import (
    Figures,
    Query,
    Request,
    given,
    namespace_path,
    nothing,
    topic_path,
)

T = TypeVar("T")


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)  # not with slots: Policy[int](...) would fail
class Policy(Generic[T]):
    """A policy, with the requests that get, set and remove its value."""

    of_namespace: str | None
    """The path segment of the policy of a namespace; None if namespaces do not have the policy."""
    of_topic: str | None
    body: Callable[[T], Any] = _as_it_is
    value: Callable[[Any], T] = _as_it_is
    verbs: tuple[str, str] = ("POST", "POST")
    """The HTTP methods that set the policy of a namespace and of a topic."""
    in_query: bool = False
    """Whether the value for a topic is sent in the query."""
    kind: str = ""
    """The type of a backlog quota; empty for other policies."""
    removable: tuple[bool, bool] = (True, True)
    """Whether the policy of a namespace and of a topic can be removed."""
    has_applied: bool = False
    """Whether a namespace, as any topic, can be asked for the value in effect."""

    def get(self, of: str, *, applied: bool = False) -> Request[T | None]:
        """Get the value that is set, or with `applied` the one in effect, set here or elsewhere.

        For a namespace, `applied` is supported by BACKLOG_QUOTA and BACKLOG_AGE only.
        """
        if applied and _is_namespace(of) and not self.has_applied:
            raise ValueError(
                f"{of} is a namespace, of which the broker answers what is set: "
                "use namespaces.explain_policies"
            )
        path = self._path(of) + ("Map" if self.kind else "")
        return Request("GET", path, query=given(applied=applied), result=self._found)

    def set(self, of: str, value: T) -> Request[None]:
        """Set the policy of a namespace or topic to this value."""
        query = self._kind()
        body = self.body(value)
        # promise: the value of a topic's policy is sent in the body
        if self.in_query and not _is_namespace(of):
            query, body = {**query, str(self.of_topic): str(body)}, None
        verb = self.verbs[0 if _is_namespace(of) else 1]
        return Request(verb, self._path(of), body, query, result=nothing)

    def remove(self, of: str) -> Request[None]:
        """Remove the value, so that the value of the namespace, or of the broker, applies."""
        if not self.removable[0 if _is_namespace(of) else 1]:
            raise ValueError(f"the policy {self.of_namespace} of {of} cannot be removed: set it")
        return Request("DELETE", self._path(of), query=self._kind(), result=nothing)

    def _kind(self) -> Query:
        return given(backlogQuotaType=self.kind or None)

    def _path(self, of: str) -> str:
        is_namespace = _is_namespace(of)
        segment = self.of_namespace if is_namespace else self.of_topic
        if segment is None:
            kind, known = (
                ("namespaces", self.of_topic) if is_namespace else ("topics", self.of_namespace)
            )
            raise ValueError(f"{of}: {kind} have no policy {known}")
        return f"{namespace_path(of) if is_namespace else topic_path(of)}/{segment}"

    def _found(self, found: Any) -> T | None:
        if self.kind:
            found = (found or {}).get(self.kind)
        return None if found is None or found == "" else self.value(found)


def _is_namespace(name: str) -> bool:
    return "://" not in name and name.count("/") == 1


@dataclass(frozen=True, slots=True)
class Retention:
    """The time and size limits of keeping acknowledged messages; -1 means no limit."""

    minutes: int
    megabytes: int


@dataclass(frozen=True, slots=True)
class Quota:
    """The limit of a backlog in bytes, or for BACKLOG_AGE in seconds; and the action at the limit.

    Actions are `producer_request_hold`, `producer_exception` and `consumer_backlog_eviction`.
    """

    limit: int
    action: str = "producer_request_hold"


@dataclass(frozen=True, slots=True)
class Rate:
    """The numbers of messages and bytes allowed in a period; -1 means no limit."""

    messages: int = -1
    bytes: int = -1
    period_s: int = 1
    """The period of a delivery rate; publishing is limited per second."""


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """The number of times a consumer may subscribe in a period; -1 means no limit."""

    times: int
    period_s: int = 30


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """The conditions under which unused topics are deleted."""

    delete: bool
    after_s: int = 60
    mode: str = "delete_when_no_subscriptions"
    """Or `delete_when_subscriptions_caught_up`."""


@dataclass(frozen=True, slots=True)
class DelayedDelivery:
    """Whether messages may be delayed, with which precision, and for how long; 0 means no limit."""

    active: bool
    tick_ms: int = 1000
    most_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """Whether a topic is created on first use, and its number of partitions; 0: not partitioned."""

    allowed: bool
    partitions: int = 0


def _quota(kind: str) -> Policy[Quota]:
    member = "limitTime" if kind == "message_age" else "limitSize"
    other = "limitSize" if kind == "message_age" else "limitTime"

    def body(quota: Quota) -> Figures:
        return {member: quota.limit, other: -1, "policy": quota.action}

    def value(found: Any) -> Quota:
        return Quota(int(found[member]), found["policy"])

    return Policy("backlogQuota", "backlogQuota", body, value, kind=kind, has_applied=True)


def _delivery_body(rate: Rate) -> Figures:
    return {
        "dispatchThrottlingRateInMsg": rate.messages,
        "dispatchThrottlingRateInByte": rate.bytes,
        "ratePeriodInSecond": rate.period_s,
    }


def _delivery_rate(found: Any) -> Rate:
    return Rate(
        found["dispatchThrottlingRateInMsg"],
        found["dispatchThrottlingRateInByte"],
        found["ratePeriodInSecond"],
    )


def _inactive_body(rule: InactiveTopics) -> Figures:
    return {
        "inactiveTopicDeleteMode": rule.mode,
        "maxInactiveDurationSeconds": rule.after_s,
        "deleteWhileInactive": rule.delete,
    }


def _inactive(found: Any) -> InactiveTopics:
    return InactiveTopics(
        found["deleteWhileInactive"],
        found["maxInactiveDurationSeconds"],
        found["inactiveTopicDeleteMode"],
    )


def _delays_body(rule: DelayedDelivery) -> Figures:
    most = rule.most_ms
    return {"active": rule.active, "tickTime": rule.tick_ms, "maxDeliveryDelayInMillis": most}


def _delays(found: Any) -> DelayedDelivery:
    return DelayedDelivery(
        found["active"], found["tickTime"], found.get("maxDeliveryDelayInMillis") or 0
    )


def _creation_body(rule: TopicCreation) -> Figures:
    if not rule.allowed or not rule.partitions:
        kind = {"topicType": "non-partitioned"} if rule.allowed else {}
        return {"allowAutoTopicCreation": rule.allowed, **kind}
    return {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": rule.partitions,
    }


def _creation(found: Any) -> TopicCreation:
    is_partitioned = found.get("topicType") == "partitioned"
    count = found.get("defaultNumPartitions") or 0 if is_partitioned else 0
    return TopicCreation(found["allowAutoTopicCreation"], count)


def _number(segment: str) -> Policy[int]:
    return Policy(segment, segment, value=int)


# Time and size ----------------------------------------------------------------------------

RETENTION: Final = Policy(
    "retention",
    "retention",
    lambda one: {"retentionTimeInMinutes": one.minutes, "retentionSizeInMB": one.megabytes},
    lambda found: Retention(found["retentionTimeInMinutes"], found["retentionSizeInMB"]),
)
MESSAGE_TTL: Final = Policy[int]("messageTTL", "messageTTL", value=int, in_query=True)
"""The time to live, in seconds: older messages count as acknowledged; 0: never."""
BACKLOG_QUOTA: Final = _quota("destination_storage")
"""The limit of the backlog's size, in bytes."""
BACKLOG_AGE: Final = _quota("message_age")
"""The limit of the backlog's age, in seconds."""
SUBSCRIPTION_EXPIRATION: Final = Policy[int](
    "subscriptionExpirationTime", "subscriptionExpirationTime", value=int, in_query=True
)
"""The age, in minutes, at which subscriptions without consumers are deleted; 0: never."""
INACTIVE_TOPICS: Final = Policy(
    "inactiveTopicPolicies", "inactiveTopicPolicies", _inactive_body, _inactive
)
COMPACTION_THRESHOLD: Final = Policy[int](
    "compactionThreshold", "compactionThreshold", value=int, verbs=("PUT", "POST")
)
"""The number of new bytes at which a compaction starts; 0: never automatically."""
DELAYED_DELIVERY: Final = Policy("delayedDelivery", "delayedDelivery", _delays_body, _delays)
MAX_MESSAGE_SIZE: Final = Policy[int](None, "maxMessageSize", value=int)
"""The size limit of a message, in bytes; 0: the limit of the broker."""

# Rates ------------------------------------------------------------------------------------

DISPATCH_RATE: Final = Policy("dispatchRate", "dispatchRate", _delivery_body, _delivery_rate)
SUBSCRIPTION_DISPATCH_RATE: Final = Policy(
    "subscriptionDispatchRate", "subscriptionDispatchRate", _delivery_body, _delivery_rate
)
PUBLISH_RATE: Final = Policy(
    "publishRate",
    "publishRate",
    lambda one: {
        "publishThrottlingRateInMsg": one.messages,
        "publishThrottlingRateInByte": one.bytes,
    },
    lambda found: Rate(found["publishThrottlingRateInMsg"], found["publishThrottlingRateInByte"]),
)
SUBSCRIBE_RATE: Final = Policy(
    "subscribeRate",
    "subscribeRate",
    lambda one: {
        "subscribeThrottlingRatePerConsumer": one.times,
        "ratePeriodInSecond": one.period_s,
    },
    lambda found: SubscribeRate(
        found["subscribeThrottlingRatePerConsumer"], found["ratePeriodInSecond"]
    ),
)

# Limits; 0 means no limit -----------------------------------------------------------------

MAX_TOPICS: Final = Policy[int]("maxTopicsPerNamespace", None, value=int)
MAX_PRODUCERS: Final = Policy[int]("maxProducersPerTopic", "maxProducers", value=int)
MAX_CONSUMERS: Final = Policy[int]("maxConsumersPerTopic", "maxConsumers", value=int)
MAX_CONSUMERS_PER_SUBSCRIPTION: Final = _number("maxConsumersPerSubscription")
MAX_SUBSCRIPTIONS: Final = _number("maxSubscriptionsPerTopic")
MAX_UNACKED_PER_CONSUMER: Final = Policy[int](
    "maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", value=int
)
MAX_UNACKED_PER_SUBSCRIPTION: Final = Policy[int](
    "maxUnackedMessagesPerSubscription", "maxUnackedMessagesOnSubscription", value=int
)

# Permitted uses ---------------------------------------------------------------------------

DEDUPLICATION: Final = Policy[bool]("deduplication", "deduplicationEnabled")
AUTO_TOPIC_CREATION: Final = Policy("autoTopicCreation", None, _creation_body, _creation)
AUTO_SUBSCRIPTION_CREATION: Final = Policy[bool](
    "autoSubscriptionCreation",
    "autoSubscriptionCreation",
    lambda allowed: {"allowAutoSubscriptionCreation": allowed},
    lambda found: bool(found["allowAutoSubscriptionCreation"]),
)
SUBSCRIPTION_TYPES: Final = Policy[list[str]](
    "subscriptionTypesEnabled", "subscriptionTypesEnabled", value=sorted
)
"""The subscription types allowed: Exclusive, Shared, Failover, Key_Shared."""
SCHEMA_COMPATIBILITY: Final = Policy[str](
    "schemaCompatibilityStrategy",
    "schemaCompatibilityStrategy",
    verbs=("PUT", "PUT"),
    removable=(False, True),
)
"""The compatibility strategy, such as FULL (docs/schemas.md)."""
SCHEMA_VALIDATION: Final = Policy[bool](
    "schemaValidationEnforced", "schemaValidationEnforced", removable=(False, False)
)
"""Whether producers without a schema are refused on topics that have one."""
ENCRYPTION_REQUIRED: Final = Policy[bool]("encryptionRequired", None, removable=(False, False))
"""Whether producers that do not encrypt are refused."""
