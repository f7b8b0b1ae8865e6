"""The declaration of a policy, and the levels at which it can be set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.policies.codecs import Codec
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


@dataclass(frozen=True, kw_only=True)
class RestPath(Generic[T]):
    """A policy on a path of its own, of namespaces or of topics: GET, a verb that sets, DELETE."""

    segment: str
    """The last segment of the path."""
    verb: str = "POST"
    when_unset: T | None = None
    """The value that GET answers if the policy is unset; None is an empty body."""
    unset_status: int = 200
    """The status with that empty body."""
    set_status: int = 204
    """The status of the answer to a change."""
    empty_deletes: bool = False
    """Whether an empty body, or null, deletes the policy instead of being refused."""
    removable: bool = True
    """Whether there is a DELETE."""
    removed_at: str = ""
    """The last segment of the path of DELETE, if it is another one."""
    shows_default: bool = False
    """Whether GET answers the default if the policy is unset."""
    implied: T | None = None
    """The value that a request without a value sets."""
    parameter: str = ""
    """The query parameter that holds the value, if the body does not."""
    refused: int = 0
    """The status without permission; 0 for the usual one."""
    raw: bool = False
    """Whether GET answers the text without quotes, and a body that is not JSON is the text."""


class SpecialPath(NamedTuple):
    """A policy on a path that it shares with others; its handlers are written by hand."""

    documented: str
    """The verbs and the path, for the documentation."""


class Member(NamedTuple):
    """A policy in the JSON object with all policies of a namespace."""

    name: str
    by_cluster: bool = False
    """Whether it is an object with the value under the name of the cluster."""
    when_unset: Any = None
    """The value that is written if the policy is unset; None leaves the member out."""


def no_default(settings: Settings) -> Any:
    """Return None: the policy has no value unless it is set."""
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Policy(Generic[T]):
    """The declaration of one policy; REST, documents and documentation follow from it."""

    name: str
    """The name of the policy in the metadata store."""
    codec: Codec[T]
    meaning: str
    """The meaning for the documentation, with special values."""
    default: Callable[[Settings], T] = no_default
    """Returns the value if it is unset; None only where the policy then has no effect."""
    settings: tuple[str, ...] = ()
    """The fields of `Settings` that the default comes from."""
    unset: T | None = None
    """A value that, when set, means the same as deleting the policy."""
    namespace: RestPath[T] | SpecialPath | None = None
    """The REST path for namespaces; None if namespaces do not have the policy."""
    topic: RestPath[T] | SpecialPath | None = None
    """The REST path for topics; None if topics do not have the policy."""
    member: Member | None = None
    check: Callable[[Settings, T], None] | None = None
    """Raises `OutOfRange` for a value that contradicts the settings."""
    no_effect: str = ""
    """The reason why it is only stored and shown; empty if it has an effect."""
    takes_effect: Callable[[Settings], bool] = lambda settings: False
    """Whether it has an effect with these settings in spite of `no_effect`."""

    def no_effect_with(self, settings: Settings) -> str:
        """Return why it is only stored and shown with these settings; "" if it has an effect."""
        return "" if self.takes_effect(settings) else self.no_effect


PolicyValues = Mapping[Policy[Any], Any]
"""Explicit values by policy; None deletes one."""
