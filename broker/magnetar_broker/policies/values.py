"""The values of policies, and their forms in REST and in the metadata store."""

from typing import Any, NamedTuple

from magnetar_broker.config.domains import InactiveMode, QuotaAction, TopicType
from magnetar_broker.policies.codecs import (
    ANY_INT,
    ANY_LONG,
    Field,
    Flag,
    OneOf,
    OutOfRange,
    Record,
    Refined,
    Text,
    WholeNumber,
)
from magnetar_broker.policies.retention import Retention


class DelayedDelivery(NamedTuple):
    """The rule whether messages are delivered at their delivery time, and the longest delay."""

    active: bool
    tick_ms: int
    max_delay_ms: int
    """The longest delay in ms; 0 means no limit."""


class BacklogQuota(NamedTuple):
    """The largest size (bytes) or age (seconds) of a backlog, and what happens at the limit."""

    limit: int
    """The limit of the backlog; below 0 means no quota."""
    action: QuotaAction
    other: int = 0
    """The limit of the other type that the request contained, too: shown again, without effect."""


class AutoTopicCreation(NamedTuple):
    """The rule whether using a topic creates it, and with how many partitions."""

    allowed: bool
    partitioned: bool
    partitions: int


class PublishRate(NamedTuple):
    """The most that can be published to a topic per second; 0 or less means no limit."""

    messages: int
    bytes: int


class DispatchRate(NamedTuple):
    """The most that can be delivered in a period; 0 or less means no limit."""

    messages: int
    bytes: int
    period_seconds: int
    """The period in seconds; 0 or less means 1."""
    relative_to_publish: bool
    """Whether the current rate of publishing is added to the limits."""


class SubscribeRate(NamedTuple):
    """The rate at which a consumer may subscribe, per period; 0 or less means no limit."""

    per_consumer: int
    period_seconds: int
    """The period in seconds; 0 or less means 1."""


class InactiveTopics(NamedTuple):
    """The rule whether unused topics are deleted, and after how long."""

    delete: bool
    mode: InactiveMode
    seconds: int


class _AutoTopicCreationCodec(Refined):
    """A codec that leaves out members without a meaning, because clients compare the objects."""

    def encode(self, value: AutoTopicCreation) -> dict[str, Any]:
        if not value.allowed:
            return {"allowAutoTopicCreation": False}
        if not value.partitioned:
            return {"allowAutoTopicCreation": True, "topicType": str(TopicType.NON_PARTITIONED)}
        return {
            "allowAutoTopicCreation": True,
            "topicType": str(TopicType.PARTITIONED),
            "defaultNumPartitions": value.partitions,
        }

    def decode(self, value: Any) -> AutoTopicCreation:
        found = self.record.decode(value)
        if not found["allowed"]:
            return AutoTopicCreation(False, False, 1)
        kind, partitions = found["kind"], found["partitions"]
        if kind not in list(TopicType):
            raise OutOfRange(f"topicType: expected {' or '.join(TopicType)}, got {kind!r}")
        if kind == TopicType.NON_PARTITIONED and partitions is not None:
            raise OutOfRange("defaultNumPartitions: expected only with topicType partitioned")
        if kind == TopicType.PARTITIONED and partitions is None:
            raise OutOfRange("defaultNumPartitions is missing: topicType partitioned needs it")
        return AutoTopicCreation(True, kind == TopicType.PARTITIONED, partitions or 1)


class _AutoSubscriptionCreationCodec(Refined):
    """The codec of an object whose only member is the flag."""

    def encode(self, value: bool) -> dict[str, bool]:
        return {"allowAutoSubscriptionCreation": value}

    def decode(self, value: Any) -> bool:
        return bool(self.record.decode(value)["allowed"])


def _check_retention(retention: Retention) -> None:
    if min(retention.minutes, retention.megabytes) < -1:
        raise ValueError("expected retentionTimeInMinutes and retentionSizeInMB of -1 or more")
    if (retention.minutes == 0) != (retention.megabytes == 0):
        raise ValueError(
            "retentionTimeInMinutes and retentionSizeInMB: expected both or none of them to be 0; "
            "use -1 for no limit"
        )


def _quota(own: str, other: str) -> Record[BacklogQuota]:
    alias = {"limitSize": "limit"}
    return Record(
        BacklogQuota,
        Field(own, "limit", ANY_LONG, 0, alias.get(own, "")),
        Field(other, "other", ANY_LONG, 0, alias.get(other, "")),
        Field("policy", "action", OneOf(QuotaAction), None, required=True),
    )


RETENTION = Record(
    Retention,
    Field("retentionTimeInMinutes", "minutes", ANY_INT, 0),
    Field("retentionSizeInMB", "megabytes", ANY_LONG, 0),
    check=_check_retention,
)
QUOTA_SIZE = _quota("limitSize", "limitTime")
QUOTA_AGE = _quota("limitTime", "limitSize")
_AUTO_TOPIC_CREATION: Record[dict[str, Any]] = Record(
    dict,
    Field("allowAutoTopicCreation", "allowed", Flag(), False),
    Field("topicType", "kind", Text(), None),
    Field("defaultNumPartitions", "partitions", WholeNumber(1, 10_000), None),
)
_AUTO_SUBSCRIPTION_CREATION: Record[dict[str, Any]] = Record(
    dict, Field("allowAutoSubscriptionCreation", "allowed", Flag(), False)
)
AUTO_TOPIC_CREATION = _AutoTopicCreationCodec(_AUTO_TOPIC_CREATION)
AUTO_SUBSCRIPTION_CREATION = _AutoSubscriptionCreationCodec(_AUTO_SUBSCRIPTION_CREATION)
PUBLISH_RATE = Record(
    PublishRate,
    Field("publishThrottlingRateInMsg", "messages", ANY_INT, -1),
    Field("publishThrottlingRateInByte", "bytes", ANY_LONG, -1),
)
DISPATCH_RATE = Record(
    DispatchRate,
    Field("dispatchThrottlingRateInMsg", "messages", ANY_INT, 0),
    Field("dispatchThrottlingRateInByte", "bytes", ANY_LONG, 0),
    Field("relativeToPublishRate", "relative_to_publish", Flag(), False),
    Field("ratePeriodInSecond", "period_seconds", ANY_INT, 0),
)
SUBSCRIBE_RATE = Record(
    SubscribeRate,
    Field("subscribeThrottlingRatePerConsumer", "per_consumer", ANY_INT, -1),
    Field("ratePeriodInSecond", "period_seconds", ANY_INT, 30),
)
INACTIVE_TOPICS = Record(
    InactiveTopics,
    Field("inactiveTopicDeleteMode", "mode", OneOf(InactiveMode), InactiveMode.NO_SUBSCRIPTIONS),
    Field("maxInactiveDurationSeconds", "seconds", WholeNumber(), 0),
    Field("deleteWhileInactive", "delete", Flag(), False),
)
DELAYED_DELIVERY = Record(
    DelayedDelivery,
    Field("tickTime", "tick_ms", ANY_LONG, 0),
    Field("active", "active", Flag(), False),
    Field("maxDeliveryDelayInMillis", "max_delay_ms", ANY_LONG, 0, "maxDelayInMillis"),
)
