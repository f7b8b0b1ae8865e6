"""The declaration of a policy, and the levels at which it can be set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.policies.codecs import Codec
from magnetar_proto.admin.policies import TABLE
from magnetar_proto.admin.policy import Declared
from magnetar_proto.names import TopicName

T = TypeVar("T")
Subject = str | TopicName
"""The subject of a policy: a namespace, by name, or a topic (partitions share their topic's)."""


def subject_named(text: str) -> Subject:
    """Return the subject whose `str` this is."""
    return TopicName.parse(text) if "://" in text else text


class Origin(StrEnum):
    """The level that an effective value comes from, in the order of precedence."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    BROKER = "broker"


class Resolved(NamedTuple, Generic[T]):
    """An effective value, and the level that it comes from."""

    value: T
    origin: Origin


class Part(NamedTuple):
    """A member of a policy's JSON object that is also a policy of its own, with its own path."""

    of: "Policy[dict[str, Any]]"
    member: str


@dataclass(frozen=True, eq=False)
class Policy(Generic[T]):
    """A declared policy with its values; REST, documents and documentation follow from it."""

    name: str
    """The name in the declaration and in the metadata store."""
    codec: Codec[T]
    default: Callable[[Settings], T]
    """Returns the value if it is unset; None only where the policy then has no effect."""
    unset: T | None = None
    """A value that, when set, means the same as deleting the policy."""
    check: Callable[[Settings, T], None] | None = None
    """Raises `OutOfRange` for a value that contradicts the settings."""
    merge: Callable[[T, T], T] | None = None
    """Returns a value of a level over one of the level below; without it the first counts alone."""
    part: Part | None = None
    """The member of another policy that holds the value; None if the policy is stored by itself."""
    warning: Callable[[Settings, T], str] | None = None
    """Returns the parts of a value without effect with these settings, and why; "" without any."""
    takes_effect: Callable[[Settings], bool] = lambda settings: False
    """Returns whether the policy has an effect with these settings in spite of its declaration."""

    @property
    def declared(self) -> Declared:
        """The declaration of the policy."""
        return TABLE[self.name]

    def no_effect_with(self, settings: Settings) -> str:
        """Return why the policy has no effect with these settings; "" if it has one."""
        return "" if self.takes_effect(settings) else self.declared.no_effect


def policy(
    name: str, codec: Codec[T], default: Callable[..., T] | None = None, **more: Any
) -> Policy[T]:
    """Return the policy with a declaration.

    `default` makes the default of its declared settings, in their order. Without it, the default is
    the value of the only setting, or None.
    """
    fields = TABLE[name].settings
    make = default or (_the_only_one if fields else _none)

    def from_settings(settings: Settings) -> Any:
        return make(*(getattr(settings, field) for field in fields))

    return Policy(name, codec, from_settings, **more)


def _the_only_one(value: T) -> T:
    return value


def _none() -> Any:
    return None


PolicyValues = Mapping[Policy[Any], Any]
"""Explicit values by policy; None deletes one."""
