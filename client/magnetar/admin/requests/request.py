"""What a request is, and the paths in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from magnetar_proto.ids import MessageId
from magnetar_proto.names import NamespaceName, TopicName

if TYPE_CHECKING:
    from magnetar.admin.client import Answer

T = TypeVar("T")
Query = dict[str, str | list[str]]
Figures = dict[str, Any]
"""Figures by their names in the REST API (GET /admin/v2/openapi.json)."""

ROOT: Final = "/admin/v2"


def _as_it_is(found: Any) -> Any:
    return found


@dataclass(frozen=True)  # not with slots: Request[int](...) would fail
class Request(Generic[T]):
    """One question to the broker, and what makes the result of its answer."""

    method: str
    path: str
    body: object = None
    query: Query = field(default_factory=dict)
    result: Callable[[Any], T] = _as_it_is
    """Is given the answer as JSON, or its text if it is none; None: it is empty."""
    reads: "Callable[[Answer], T] | None" = None
    """Instead of `result`: is given the whole answer."""

    def result_of(self, answer: "Answer") -> T:
        """The result that an answer has."""
        return self.result(answer.value) if self.reads is None else self.reads(answer)


def names_of(found: Any) -> list[str]:
    """A list of names."""
    return [str(name) for name in found]


def nothing(found: Any) -> None:
    """The answer has no result."""


def quoted(name: str) -> str:
    """A name in a path."""
    return quote(name, safe="")


def forced(force: bool) -> Query:
    """The query of a request that may be forced."""
    return {"force": "true"} if force else {}


def given(**values: object) -> Query:
    """The query of what is not None; flags are there if they are true."""
    return {
        name: "true" if value is True else str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }


def message_id_of(found: Any) -> MessageId:
    """A message id of an answer."""
    return MessageId(
        int(found["ledgerId"]),
        int(found["entryId"]),
        int(found.get("batchIndex", -1)),
        int(found.get("partitionIndex", -1)),
    )


def message_id_body(message_id: MessageId) -> Figures:
    """A message id as a body has it."""
    ledger, entry, batch_index, _ = message_id
    body = {"ledgerId": ledger, "entryId": entry}
    return body if batch_index < 0 else {**body, "batchIndex": batch_index}


def namespace_path(name: str) -> str:
    """Of a namespace, tenant/namespace."""
    return f"{ROOT}/namespaces/{NamespaceName.parse(name)}"


def topic_path(name: str) -> str:
    """Of a topic, named in full or not."""
    return f"{ROOT}/{TopicName.parse(name).domain}/{topic_name(name)}"


def topic_name(name: str) -> str:
    """A topic in a path that has no domain."""
    topic = TopicName.parse(name)
    return f"{topic.namespace_name}/{quoted(topic.local)}"


def subscription_path(topic: str, name: str) -> str:
    """The path of a subscription of a topic; the broker decodes its name twice, as Pulsar does."""
    return f"{topic_path(topic)}/subscription/{quoted(quoted(name))}"
