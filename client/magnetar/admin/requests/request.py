"""What a request is, and the paths in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from magnetar_proto.names import NamespaceName, TopicName

T = TypeVar("T")

ROOT: Final = "/admin/v2"


def _as_it_is(found: Any) -> Any:
    return found


@dataclass(frozen=True)  # not with slots: Request[int](...) would fail
class Request(Generic[T]):
    """One question to the broker, and what makes the result of its answer."""

    method: str
    path: str
    body: object = None
    query: dict[str, str | list[str]] = field(default_factory=dict)
    result: Callable[[Any], T] = _as_it_is
    """Is given the answer as JSON, or its text if it is none; None: it is empty."""


def names_of(found: Any) -> list[str]:
    """A list of names."""
    return [str(name) for name in found]


def nothing(found: Any) -> None:
    """The answer has no result."""


def quoted(name: str) -> str:
    """A name in a path."""
    return quote(name, safe="")


def forced(force: bool) -> dict[str, str | list[str]]:
    """The query of a request that may be forced."""
    return {"force": "true"} if force else {}


def namespace_path(name: str) -> str:
    """Of a namespace, tenant/namespace."""
    return f"{ROOT}/namespaces/{NamespaceName.parse(name)}"


def topic_path(name: str) -> str:
    """Of a topic, named in full or not."""
    topic = TopicName.parse(name)
    return f"{ROOT}/{topic.domain}/{topic.namespace_name}/{quoted(topic.local)}"


def subscription_path(topic: str, name: str) -> str:
    """Of a subscription of a topic."""
    return f"{topic_path(topic)}/subscription/{quoted(name)}"
