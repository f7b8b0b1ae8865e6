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
    nothing,
    request_to,
)
from magnetar_proto.admin.endpoint import Endpoint
from magnetar_proto.admin.table import endpoints_named

T = TypeVar("T")


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)  # not with slots: Policy[int](...) would fail
class Policy(Generic[T]):
    """A policy, with the requests that get, set and remove its value."""

    name: str
    """The name of the policy's declaration in `magnetar_proto.admin.policies`."""
    body: Callable[[T], Any] = _as_it_is
    value: Callable[[Any], T] = _as_it_is
    kind: str = ""
    """The type of a backlog quota; empty for other policies."""

    @property
    def of_namespace(self) -> str | None:
        """The path segment of the policy of a namespace; None if namespaces do not have it."""
        return self._segment("namespace")

    @property
    def of_topic(self) -> str | None:
        """The path segment of the policy of a topic; None if topics do not have it."""
        return self._segment("topic")

    @property
    def removable(self) -> tuple[bool, bool]:
        """Whether the policy of a namespace and of a topic can be removed."""
        return bool(self._endpoint("remove", "namespace")), bool(self._endpoint("remove", "topic"))

    @property
    def has_applied(self) -> bool:
        """Whether a namespace, as any topic, can be asked for the value in effect."""
        return bool(self.kind)

    def get(self, of: str, *, applied: bool = False) -> Request[T | None]:
        """Get the value that is set, or with `applied` the one in effect, set here or elsewhere.

        For a namespace, `applied` is supported by BACKLOG_QUOTA and BACKLOG_AGE only.
        """
        if applied and _is_namespace(of) and not self.has_applied:
            raise ValueError(
                f"{of} is a namespace, of which the broker answers what is set: "
                "use namespaces.explain_policies"
            )
        endpoint = self._of(of, "get")
        return request_to(endpoint, (of,), query=given(applied=applied), result=self._found)

    def set(self, of: str, value: T) -> Request[None]:
        """Set the policy of a namespace or topic to this value."""
        query, body, endpoint = self._kind(), self.body(value), self._of(of, "set")
        # promise: the value of a topic's policy is sent in the body
        if not self.kind and endpoint.query and endpoint.query[0].required:
            query, body = {endpoint.query[0].name: str(body)}, None
        return request_to(endpoint, (of,), body, query, nothing)

    def remove(self, of: str) -> Request[None]:
        """Remove the value, so that the value of the namespace, or of the broker, applies."""
        return request_to(self._of(of, "remove"), (of,), None, self._kind(), nothing)

    def _kind(self) -> Query:
        return given(backlogQuotaType=self.kind or None)

    def _segment(self, level: str) -> str | None:
        endpoint = self._endpoint("set", level)
        return None if endpoint is None else endpoint.path.rpartition("}/")[2]

    def _endpoint(self, action: str, level: str) -> Endpoint | None:
        name = f"policies.quotas.on_{action}" if self.kind else f"policies.{self.name}.{action}"
        found = (one for one in endpoints_named(name) if one.in_path == [level])
        return next(found, None)

    def _of(self, of: str, action: str) -> Endpoint:
        is_namespace = _is_namespace(of)
        endpoint = self._endpoint(action, "namespace" if is_namespace else "topic")
        if endpoint is not None:
            return endpoint
        own = self.of_namespace if is_namespace else self.of_topic
        if own is not None:
            raise ValueError(f"the policy {own} of {of} cannot be removed: set it")
        kind, known = (
            ("namespaces", self.of_topic) if is_namespace else ("topics", self.of_namespace)
        )
        raise ValueError(f"{of}: {kind} have no policy {known}")

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


def _record(name: str, make: Callable[..., T], **members: str) -> Policy[T]:
    """Return a policy whose value has these attributes, under these names in the JSON object."""

    def body(value: T) -> Figures:
        return {member: getattr(value, attribute) for attribute, member in members.items()}

    def value(found: Any) -> T:
        given = {attribute: found.get(member) for attribute, member in members.items()}
        return make(**{attribute: one for attribute, one in given.items() if one is not None})

    return Policy(name, body, value)


def _quota(name: str, kind: str, member: str, other: str) -> Policy[Quota]:
    def body(quota: Quota) -> Figures:
        return {member: quota.limit, other: -1, "policy": quota.action}

    def value(found: Any) -> Quota:
        return Quota(int(found[member]), found["policy"])

    return Policy(name, body, value, kind)


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


def _number(name: str) -> Policy[int]:
    return Policy(name, value=int)


def _delivery_rate(name: str) -> Policy[Rate]:
    return _record(
        name,
        Rate,
        messages="dispatchThrottlingRateInMsg",
        bytes="dispatchThrottlingRateInByte",
        period_s="ratePeriodInSecond",
    )


# Time and size ----------------------------------------------------------------------------

RETENTION: Final = _record(
    "retention", Retention, minutes="retentionTimeInMinutes", megabytes="retentionSizeInMB"
)
MESSAGE_TTL: Final = _number("message_ttl")
"""The time to live, in seconds: older messages count as acknowledged; 0: never."""
BACKLOG_QUOTA: Final = _quota("backlog_quota_size", "destination_storage", "limitSize", "limitTime")
"""The limit of the backlog's size, in bytes."""
BACKLOG_AGE: Final = _quota("backlog_quota_age", "message_age", "limitTime", "limitSize")
"""The limit of the backlog's age, in seconds."""
SUBSCRIPTION_EXPIRATION: Final = _number("subscription_expiration")
"""The age, in minutes, at which subscriptions without consumers are deleted; 0: never."""
INACTIVE_TOPICS: Final = _record(
    "inactive_topics",
    InactiveTopics,
    delete="deleteWhileInactive",
    after_s="maxInactiveDurationSeconds",
    mode="inactiveTopicDeleteMode",
)
COMPACTION_THRESHOLD: Final = _number("compaction_threshold")
"""The number of new bytes at which a compaction starts; 0: never automatically."""
DELAYED_DELIVERY: Final = _record(
    "delayed_delivery",
    DelayedDelivery,
    active="active",
    tick_ms="tickTime",
    most_ms="maxDeliveryDelayInMillis",
)
MAX_MESSAGE_SIZE: Final = _number("max_message_size")
"""The size limit of a message, in bytes; 0: the limit of the broker."""

# Rates ------------------------------------------------------------------------------------

DISPATCH_RATE: Final = _delivery_rate("dispatch_rate")
SUBSCRIPTION_DISPATCH_RATE: Final = _delivery_rate("subscription_dispatch_rate")
PUBLISH_RATE: Final = _record(
    "publish_rate",
    Rate,
    messages="publishThrottlingRateInMsg",
    bytes="publishThrottlingRateInByte",
)
SUBSCRIBE_RATE: Final = _record(
    "subscribe_rate",
    SubscribeRate,
    times="subscribeThrottlingRatePerConsumer",
    period_s="ratePeriodInSecond",
)

# Limits; 0 means no limit -----------------------------------------------------------------

MAX_TOPICS: Final = _number("max_topics")
MAX_PRODUCERS: Final = _number("max_producers")
MAX_CONSUMERS: Final = _number("max_consumers")
MAX_CONSUMERS_PER_SUBSCRIPTION: Final = _number("max_consumers_per_subscription")
MAX_SUBSCRIPTIONS: Final = _number("max_subscriptions")
MAX_UNACKED_PER_CONSUMER: Final = _number("max_unacked_per_consumer")
MAX_UNACKED_PER_SUBSCRIPTION: Final = _number("max_unacked_per_subscription")

# Permitted uses ---------------------------------------------------------------------------

DEDUPLICATION: Final = Policy[bool]("deduplication")
AUTO_TOPIC_CREATION: Final = Policy("auto_topic_creation", _creation_body, _creation)
AUTO_SUBSCRIPTION_CREATION: Final = Policy[bool](
    "auto_subscription_creation",
    lambda allowed: {"allowAutoSubscriptionCreation": allowed},
    lambda found: bool(found["allowAutoSubscriptionCreation"]),
)
SUBSCRIPTION_TYPES: Final = Policy[list[str]]("subscription_types", value=sorted)
"""The subscription types allowed: Exclusive, Shared, Failover, Key_Shared."""
SCHEMA_COMPATIBILITY: Final = Policy[str]("schema_compatibility")
"""The compatibility strategy, such as FULL (docs/schemas.md)."""
SCHEMA_VALIDATION: Final = Policy[bool]("schema_validation_enforced")
"""Whether producers without a schema are refused on topics that have one."""
ENCRYPTION_REQUIRED: Final = Policy[bool]("encryption_required")
"""Whether producers that do not encrypt are refused."""
