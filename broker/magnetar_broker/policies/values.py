"""The values that policies have, and how REST and the metadata store write them."""

from dataclasses import dataclass

from magnetar_broker.config.domains import InactiveMode, QuotaAction, TopicType
from magnetar_broker.policies.forms import INT, LONG, Field, Flag, OneOf, Record, Whole
from magnetar_broker.retention import Retention


@dataclass(frozen=True, slots=True)
class DelayedDelivery:
    """Whether messages wait for the time that they bring, and for how long they may."""

    active: bool
    tick_ms: int
    max_delay_ms: int
    """0 is no limit."""


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """How large (bytes) or old (seconds) a backlog may get, and what happens then."""

    limit: int
    """Below 0 there is none."""
    action: QuotaAction


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether using a topic creates it, and with how many partitions."""

    allowed: bool
    partitioned: bool
    partitions: int


@dataclass(frozen=True, slots=True)
class PublishRate:
    """What may be published to a topic in a second; 0 or less is no limit."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """What may be delivered in a period; 0 or less is no limit."""

    messages: int
    bytes: int
    period_seconds: int
    relative_to_publish: bool
    """Whether the limits come on top of the rate of publishing."""


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """How often a consumer may subscribe in a period; 0 or less is no limit."""

    per_consumer: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class InactiveTopics:
    """Whether topics that nobody uses are deleted, and after how long."""

    delete: bool
    mode: InactiveMode
    seconds: int


class _TopicTypeForm:
    """`partitioned` or `non-partitioned`, as a flag."""

    def encode(self, value: bool) -> str:
        return str(TopicType.PARTITIONED if value else TopicType.NON_PARTITIONED)

    def decode(self, value: object) -> bool:
        return OneOf(TopicType).decode(value) is TopicType.PARTITIONED


class _Wrapped:
    """A flag that is the only member of an object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._record: Record[dict[str, bool]] = Record(dict, Field(name, "flag", Flag(), False))

    def encode(self, value: bool) -> dict[str, bool]:
        return {self._name: value}

    def decode(self, value: object) -> bool:
        return bool(self._record.decode(value)["flag"])


def _quota(limit: str, alias: str, longest: int) -> Record[BacklogQuota]:
    return Record(
        BacklogQuota,
        Field(limit, "limit", Whole(-LONG - 1, longest), -1, alias),
        Field("policy", "action", OneOf(QuotaAction), QuotaAction.PRODUCER_REQUEST_HOLD),
    )


def _dispatch_rate() -> Record[DispatchRate]:
    return Record(
        DispatchRate,
        Field("dispatchThrottlingRateInMsg", "messages", Whole(-1), -1),
        Field("dispatchThrottlingRateInByte", "bytes", Whole(-1, LONG), -1),
        Field("relativeToPublishRate", "relative_to_publish", Flag(), False),
        Field("ratePeriodInSecond", "period_seconds", Whole(1), 1),
    )


RETENTION = Record(
    Retention,
    Field("retentionTimeInMinutes", "minutes", Whole(-1), 0),
    Field("retentionSizeInMB", "megabytes", Whole(-1, INT), 0),
)
QUOTA_SIZE = _quota("limitSize", "limit", LONG)
QUOTA_AGE = _quota("limitTime", "", INT)
AUTO_TOPIC_CREATION = Record(
    AutoTopicCreation,
    Field("allowAutoTopicCreation", "allowed", Flag(), False),
    Field("topicType", "partitioned", _TopicTypeForm(), False),
    Field("defaultNumPartitions", "partitions", Whole(1, 10_000), 1),
)
AUTO_SUBSCRIPTION_CREATION = _Wrapped("allowAutoSubscriptionCreation")
PUBLISH_RATE = Record(
    PublishRate,
    Field("publishThrottlingRateInMsg", "messages", Whole(-1), -1),
    Field("publishThrottlingRateInByte", "bytes", Whole(-1, LONG), -1),
)
DISPATCH_RATE = _dispatch_rate()
SUBSCRIBE_RATE = Record(
    SubscribeRate,
    Field("subscribeThrottlingRatePerConsumer", "per_consumer", Whole(-1), -1),
    Field("ratePeriodInSecond", "period_seconds", Whole(1), 30),
)
INACTIVE_TOPICS = Record(
    InactiveTopics,
    Field("inactiveTopicDeleteMode", "mode", OneOf(InactiveMode), InactiveMode.NO_SUBSCRIPTIONS),
    Field("maxInactiveDurationSeconds", "seconds", Whole(1), 60),
    Field("deleteWhileInactive", "delete", Flag(), False),
)
DELAYED_DELIVERY = Record(
    DelayedDelivery,
    Field("tickTime", "tick_ms", Whole(-LONG - 1, LONG), 0),
    Field("active", "active", Flag(), False),
    Field(
        "maxDeliveryDelayInMillis", "max_delay_ms", Whole(-LONG - 1, LONG), 0, "maxDelayInMillis"
    ),
)
