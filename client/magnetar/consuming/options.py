"""The options of a consumer for its subscription, and their names as arguments."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from magnetar.base.unreadable import FAIL, ON_UNDECRYPTABLE, ON_UNREADABLE
from magnetar.consuming.due_entries import RedeliveryBackoff
from magnetar.consuming.interceptors import ConsumerInterceptor
from magnetar.encryption.keys import KeyReader
from magnetar.schema.auto import AutoProduce
from magnetar.schema.base import Schema
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, MessageId

MAX_SLOT = 65535

SUBSCRIPTION_TYPES: dict[str, int] = {
    "exclusive": pb.CommandSubscribe.Exclusive,
    "shared": pb.CommandSubscribe.Shared,
    "failover": pb.CommandSubscribe.Failover,
    "key_shared": pb.CommandSubscribe.Key_Shared,
}
INITIAL_POSITIONS: dict[str, int] = {
    "latest": pb.CommandSubscribe.Latest,
    "earliest": pb.CommandSubscribe.Earliest,
}


@dataclass(frozen=True, slots=True)
class KeyShared:
    """The division of keys among the consumers of a Key_Shared subscription; may raise ValueError.

    All consumers of a subscription must agree on whether they have ranges, and on `out_of_order`.
    """

    ranges: Sequence[tuple[int, int]] = ()
    """The hash slots of this consumer, (first, last) in 0 to 65535; empty: the broker divides."""
    out_of_order: bool = False
    """Whether a key may move to another consumer before the former one has acknowledged it."""

    def __post_init__(self) -> None:
        last = -1
        for start, end in sorted(self.ranges):
            if not 0 <= start <= end <= MAX_SLOT or start <= last:
                raise ValueError(
                    f"the range {start} to {end} of hash slots is not possible: ranges lie in 0 to "
                    f"{MAX_SLOT}, do not end before they start, and do not overlap"
                )
            last = end

    def to_pb(self) -> pb.KeySharedMeta:
        """Return the policy in the form that is sent to the broker."""
        return pb.KeySharedMeta(
            keySharedMode=pb.STICKY if self.ranges else pb.AUTO_SPLIT,
            hashRanges=[pb.IntRange(start=start, end=end) for start, end in self.ranges],
            allowOutOfOrderDelivery=self.out_of_order,
        )


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """The limit of deliveries, and the destination of dead letters; ValueError if invalid.

    A message becomes a dead letter when `max_redeliveries` redeliveries, or rounds of
    `reconsume_later`, have failed.
    """

    max_redeliveries: int = 16
    dead_letter_topic: str | None = None
    """The topic; None: `<topic>-<subscription>-DLQ`, or `<subscription>-DLQ` if that exists."""
    retry_topic: str | None = None
    """The topic; None: `<topic>-<subscription>-RETRY`, or `<subscription>-RETRY` if that exists."""
    initial_subscription: str | None = None
    """The subscription created with the dead letter topic, so that its messages are retained."""
    dead_letter_producer: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `Client.producer`; by default chunking is on and batching off."""
    retry_producer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_redeliveries < 1:
            raise ValueError(f"max_redeliveries must be at least 1, but is {self.max_redeliveries}")


@dataclass(frozen=True, slots=True)
class Subscription:
    """The options of a subscription; ValueError names the value that is invalid."""

    name: str
    type: int = pb.CommandSubscribe.Exclusive
    consumer_name: str | None = None
    initial_position: int = pb.CommandSubscribe.Latest
    """The position at which a new durable subscription starts."""
    start: MessageId | None = None
    """The position at which a reader starts, each time; None for a durable subscription."""
    start_inclusive: bool = False
    start_time_ms: int | None = None
    """With `start`: start instead with messages published at this time or later."""
    schema: Schema[Any] | None = None
    """The schema of the values, from `magnetar.schema`; None means bytes. The broker refuses a
    schema that cannot read the topic's.
    """
    queue_size: int = 1000
    """The limit of messages received ahead of the application.

    0 requests one message from each partition when `receive` finds none, and never before.
    """
    auto_scale_queue: bool = False
    """Whether the limit starts at 1, and doubles up to `queue_size` while the application waits."""
    on_unreadable: str = FAIL
    """The action for an entry that cannot be decoded; see `ON_UNREADABLE`."""
    key_reader: KeyReader | None = None
    """The source of the private keys for encrypted messages."""
    on_undecryptable: str = FAIL
    """The action for an entry that no key decrypts; see `ON_UNDECRYPTABLE`."""
    interceptors: Sequence[ConsumerInterceptor] = ()
    """The interceptors, called in this order for every message."""
    ack_delay_ms: float = 100.0
    """The milliseconds that an acknowledgement waits to be sent with others in one command."""
    ack_resend_s: float = 5.0
    """The time after which an unconfirmed acknowledgement is sent again."""
    batch_index_acks: bool = True
    """Whether the broker is told which messages of a batch are acknowledged; if not, a batch is
    acknowledged once all its messages are."""
    redeliver_on_reconnect: bool = False
    """Whether an exclusive or failover consumer receives the application's unacknowledged messages
    again after a reconnect, as consumers of other types always do.
    """
    ack_timeout_s: float | None = None
    """The age at which unacknowledged messages are redelivered; None: never."""
    ack_timeout_backoff: RedeliveryBackoff | None = None
    """The pauses to use instead, by the number of redeliveries."""
    ack_timeout_tick_s: float = 1.0
    """The precision of the timeout: the coarser, the cheaper."""
    nack_delay_s: float = 60.0
    """The pause between `nack` and the redelivery."""
    nack_backoff: RedeliveryBackoff | None = None
    """The pauses to use instead, by the number of redeliveries."""
    dead_letter: DeadLetterPolicy | None = None
    """The dead letter policy; None: messages are redelivered without limit."""
    retry: bool = False
    """Whether the retry topic is consumed as well, as `reconsume_later` requires."""
    priority: int = 0
    """The priority among shared consumers; 0 is served first, others when those have no room."""
    key_shared: KeyShared | None = None
    read_compacted: bool = False
    """Whether to receive only the last value of each compacted key; not for shared types."""
    start_paused: bool = False
    """Whether nothing is received before `resume`."""
    max_pending_chunked: int = 10
    """The limit of incomplete chunked messages; beyond it, the oldest is unreadable."""
    ack_oldest_chunked: bool = False
    """Whether that message is left out and acknowledged, whatever `on_unreadable` is."""
    chunk_expiry_s: float = 60.0
    """The time after which an incomplete chunked message is unreadable."""
    on_active_change: Callable[[str, bool], None] | None = None
    """Called with the partition and whether this consumer of a failover subscription is active."""
    create_topic: bool = True
    """Whether the broker may create a missing topic; without it NotFound is raised."""
    properties: dict[str, str] = field(default_factory=dict)
    """The properties that are stored with a new subscription."""
    consumer_properties: dict[str, str] = field(default_factory=dict)
    """Properties of the consumer that the broker shows in its statistics."""

    def __post_init__(self) -> None:
        if isinstance(self.schema, AutoProduce):
            raise ValueError("AutoProduce is for producers: consumers and readers take AutoConsume")
        if self.queue_size < 0:
            raise ValueError(f"queue_size is {self.queue_size}: it must not be negative")
        if self.on_unreadable not in ON_UNREADABLE:
            raise ValueError(
                f"on_unreadable {self.on_unreadable!r} is unknown; "
                f"known are {', '.join(ON_UNREADABLE)}"
            )
        if self.on_undecryptable not in ON_UNDECRYPTABLE:
            raise ValueError(
                f"on_undecryptable {self.on_undecryptable!r} is unknown; "
                f"known are {', '.join(ON_UNDECRYPTABLE)}"
            )
        if self.ack_timeout_s is not None and self.ack_timeout_s <= 0:
            raise ValueError(f"ack_timeout_s must be above 0, but is {self.ack_timeout_s}")
        if self.ack_resend_s <= 0:
            raise ValueError(f"ack_resend_s must be above 0, but is {self.ack_resend_s}")
        if self.ack_timeout_tick_s <= 0 or self.nack_delay_s < 0:
            raise ValueError(
                "ack_timeout_tick_s must be above 0 and nack_delay_s not negative, but are "
                f"{self.ack_timeout_tick_s} and {self.nack_delay_s}"
            )
        if self.max_pending_chunked < 1 or self.chunk_expiry_s <= 0:
            raise ValueError(
                "max_pending_chunked must be at least 1 and chunk_expiry_s above 0, but are "
                f"{self.max_pending_chunked} and {self.chunk_expiry_s}"
            )
        comes_again = (self.dead_letter, self.ack_timeout_s)
        if self.start is not None and (self.retry or comes_again != (None, None)):
            raise ValueError(
                "dead_letter, retry and ack_timeout_s need a durable subscription, without `start`"
            )

    def to_pb(self, topic: str, consumer_id: int) -> pb.CommandSubscribe:
        """Return the command that subscribes, without the start of a reader."""
        command = pb.CommandSubscribe(
            topic=topic,
            subscription=self.name,
            subType=self.type,  # type: ignore[arg-type]
            consumer_id=consumer_id,
            consumer_name=self.consumer_name,
            durable=self.start is None,
            initialPosition=self.initial_position,  # type: ignore[arg-type]
        )
        if self.priority:
            command.priority_level = self.priority
        if self.read_compacted:
            command.read_compacted = True
        if self.key_shared is not None:
            command.keySharedMeta.CopyFrom(self.key_shared.to_pb())
        if self.schema is not None and self.schema.info.is_registered:
            command.schema.CopyFrom(self.schema.info.to_pb())
        if not self.create_topic:
            command.force_topic_creation = False
        for name, text in self.properties.items():
            command.subscription_properties.add(key=name, value=text)
        for name, text in self.consumer_properties.items():
            command.metadata.add(key=name, value=text)
        return command

    @property
    def is_shared(self) -> bool:
        """Whether several consumers receive at a time, so that messages are redelivered singly."""
        return self.type in (pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared)

    @property
    def has_epochs(self) -> bool:
        """Whether the broker reports the epoch of each message."""
        return not self.is_shared and not self.read_compacted

    @property
    def holds(self) -> bool:
        """Whether the client drops redelivered messages that the application still has."""
        return not (self.is_shared or self.redeliver_on_reconnect)


def subscription_of(
    name: str,
    type: str,
    initial_position: str,
    options: dict[str, Any],
    schema: Schema[Any] | None = None,
) -> Subscription:
    """Return the options of a consumer; ValueError names the choice that is unknown."""
    return Subscription(
        name,
        type=_choice(SUBSCRIPTION_TYPES, type, "subscription type"),
        initial_position=_choice(INITIAL_POSITIONS, initial_position, "initial position"),
        schema=schema,
        **options,
    )


def reading_of(
    start: MessageId | int,
    inclusive: bool,
    queue_size: int,
    on_unreadable: str,
    read_compacted: bool = False,
    name: str | None = None,
) -> Subscription:
    """Return the options of a reader that starts at an id or at a time in ms."""
    is_time = isinstance(start, int)
    return Subscription(
        name or f"reader-{uuid.uuid4().hex[:10]}",
        start=EARLIEST if isinstance(start, int) else start,
        start_time_ms=start if isinstance(start, int) else None,
        start_inclusive=inclusive and not is_time,
        queue_size=queue_size,
        on_unreadable=on_unreadable,
        read_compacted=read_compacted,
    )


def from_start(chosen: Subscription) -> Subscription:
    """Return the options with the beginning as start, for new topics and partitions."""
    if chosen.start is not None:
        return replace(chosen, start=EARLIEST, start_time_ms=None)
    return replace(chosen, initial_position=pb.CommandSubscribe.Earliest)


def _choice(known: dict[str, int], name: str, what: str) -> int:
    if name not in known:
        raise ValueError(f"{what} {name!r} is unknown; known are {', '.join(known)}")
    return known[name]
