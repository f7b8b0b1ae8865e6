"""Conversion of the arguments of a client's methods to options of a subscription."""

import uuid
from dataclasses import replace
from typing import Any

from magnetar.schema.base import Schema
from magnetar.subscription import Subscription
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, MessageId

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
