"""What a policy is, and who may say what holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.policies.forms import Form
from magnetar_proto.names import TopicName

T = TypeVar("T")
Subject = str | TopicName
"""Who says something: a namespace by its name, or a topic (partitions are their topic)."""


class Origin(StrEnum):
    """Who says what holds; the first one that says anything is heard."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    BROKER = "broker"


class Resolved(NamedTuple, Generic[T]):
    """What holds, and who says so."""

    value: T
    origin: Origin


@dataclass(frozen=True, eq=False)
class Policy(Generic[T]):
    """One thing that can be said of a topic."""

    name: str
    """In the metadata store."""
    form: Form[T]
    meaning: str
    """For people, with the values that are special."""
    default: Callable[[Settings], T]
    settings: tuple[str, ...] = ()
    """The fields of `Settings` that the default comes from."""
    unsaid: T | None = None
    """A value that is the same as saying nothing."""
    of_namespace: bool = True
    """Whether namespaces can say it."""
    of_topic: bool = True
    """Whether topics can say it."""


Said = Mapping[Policy[Any], Any]
"""What somebody says, by policy; None unsays."""
