"""Policies: what holds for a topic, said by the topic itself, its namespace, or the settings.

A policy is a line in this file: a name, how its value is written as JSON, and what the broker's
settings say.  Values are kept in the metadata store, one JSON object for each namespace or topic
that has any; those of loaded topics are in memory, so that asking for one waits for nothing.
The partitions of a topic share its policies.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.metadata_keys import namespace_policies_key, topic_policies_key
from magnetar_proto.names import TopicName
from magnetar_storage.errors import BadVersion
from magnetar_storage.interfaces import ABSENT, MetadataStore, Version

T = TypeVar("T")
Values = dict[str, Any]
"""JSON values by the names of policies; other names are kept as they are."""


class Origin(StrEnum):
    """Who says what holds; the first one that says anything is heard."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    BROKER = "broker"


class Resolved(NamedTuple, Generic[T]):
    """What holds, and who says so."""

    value: T
    origin: Origin


@dataclass(frozen=True)
class Policy(Generic[T]):
    """One thing that can be said of a topic."""

    name: str
    """In the metadata store."""
    encode: Callable[[T], Any]
    decode: Callable[[Any], T]
    """From JSON; ValueError if it is no such value."""
    default: Callable[[Settings], T]


@dataclass(frozen=True)
class DelayedDelivery:
    """Whether messages wait for the time that they bring, and for how long they may."""

    active: bool
    tick_ms: int
    max_delay_ms: int
    """0 is no limit."""


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | int) and value not in ("true", "false"):
        raise ValueError("expected true or false")
    return bool(value) and value != "false"


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("expected a whole number")
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("expected a number of 64 bits")
    return number


def _decode_delays(value: Any) -> DelayedDelivery:
    if not isinstance(value, dict):
        raise ValueError("expected an object with active, tickTime and maxDeliveryDelayInMillis")
    longest = value.get("maxDeliveryDelayInMillis", value.get("maxDelayInMillis", 0))
    return DelayedDelivery(
        _flag(value.get("active", False)), _number(value.get("tickTime", 0)), _number(longest)
    )


def _encode_delays(value: DelayedDelivery) -> Any:
    return {
        "tickTime": value.tick_ms,
        "active": value.active,
        "maxDeliveryDelayInMillis": value.max_delay_ms,
    }


DEDUPLICATION: Policy[bool] = Policy(
    "deduplication", bool, _flag, lambda settings: settings.broker_deduplication_enabled
)
ENCRYPTION_REQUIRED: Policy[bool] = Policy(
    "encryption_required", bool, _flag, lambda settings: settings.encryption_require_on_producer
)
DELAYED_DELIVERY: Policy[DelayedDelivery] = Policy(
    "delayed_delivery",
    _encode_delays,
    _decode_delays,
    lambda settings: DelayedDelivery(
        settings.delayed_delivery_enabled,
        settings.delayed_delivery_tick_time_millis,
        settings.delayed_delivery_max_delay_in_millis,
    ),
)


class _Stored(NamedTuple):
    values: Values
    version: Version
    """0 if nothing is stored."""


class Policies:
    """What was said of namespaces and topics; `load` a topic's before asking for them."""

    def __init__(self, metadata: MetadataStore, settings: Settings) -> None:
        self.settings = settings
        self._metadata = metadata
        self._known: dict[str, _Stored] = {}

    @property
    def known(self) -> int:
        """How many namespaces and topics there are in memory: those that said something."""
        return len(self._known)

    async def load(self, topic: TopicName) -> None:
        """Have the policies of a topic and its namespace in memory."""
        for key in (namespace_policies_key(topic.namespace_name), topic_policies_key(topic)):
            if key not in self._known and (stored := await self._read(key)).version:
                self._learn(key, stored)

    def resolve(self, policy: Policy[T], topic: TopicName) -> Resolved[T]:
        """What holds for a topic whose policies are loaded."""
        for origin, key in (
            (Origin.TOPIC, topic_policies_key(topic)),
            (Origin.NAMESPACE, namespace_policies_key(topic.namespace_name)),
        ):
            stored = self._known.get(key)
            if stored is not None and policy.name in stored.values:
                return Resolved(policy.decode(stored.values[policy.name]), origin)
        return Resolved(policy.default(self.settings), Origin.BROKER)

    def deduplication(self, topic: TopicName) -> bool:
        """Whether messages that a producer sends again are dropped."""
        return self.resolve(DEDUPLICATION, topic).value

    def delayed_delivery(self, topic: TopicName) -> DelayedDelivery:
        """Whether and how messages are delayed."""
        return self.resolve(DELAYED_DELIVERY, topic).value

    def encryption_required(self, topic: TopicName) -> bool:
        """Whether producers must encrypt."""
        return self.resolve(ENCRYPTION_REQUIRED, topic).value

    # What a namespace or a topic itself says -----------------------------------------------

    async def of_namespace(self, policy: Policy[T], namespace: str) -> T | None:
        """What a namespace says; None if nothing."""
        return await self._said(policy, namespace_policies_key(namespace))

    async def of_topic(self, policy: Policy[T], topic: TopicName) -> T | None:
        """What a topic says; None if nothing."""
        return await self._said(policy, topic_policies_key(topic))

    async def set_of_namespace(self, policy: Policy[T], namespace: str, value: T | None) -> None:
        """Store what a namespace says, None for nothing; durable on return."""
        await self._store(policy, namespace_policies_key(namespace), value)

    async def set_of_topic(self, policy: Policy[T], topic: TopicName, value: T | None) -> None:
        """Store what a topic says, None for nothing; durable on return."""
        await self._store(policy, topic_policies_key(topic), value)

    async def _said(self, policy: Policy[T], key: str) -> T | None:
        values = (await self._read(key)).values
        return policy.decode(values[policy.name]) if policy.name in values else None

    async def _store(self, policy: Policy[T], key: str, value: T | None) -> None:
        while True:
            stored = await self._read(key)
            values = {name: said for name, said in stored.values.items() if name != policy.name}
            if value is not None:
                values[policy.name] = policy.encode(value)
            expected = stored.version or ABSENT
            try:
                version = await self._metadata.put(key, json.dumps(values).encode(), expected)
            except BadVersion:
                continue  # somebody else said something meanwhile
            self._learn(key, _Stored(values, version))
            return

    async def _read(self, key: str) -> _Stored:
        found = await self._metadata.get(key)
        if found is None:
            return _Stored({}, 0)
        return _Stored(json.loads(found.value), found.version)

    def _learn(self, key: str, stored: _Stored) -> None:
        """Answers of the store may overtake each other: the newest counts."""
        known = self._known.get(key)
        if known is None or known.version <= stored.version:
            self._known[key] = stored
