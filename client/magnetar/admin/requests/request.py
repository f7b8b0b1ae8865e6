"""A request to the admin API, and the paths in it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from magnetar_proto.admin.endpoint import Endpoint
from magnetar_proto.admin.table import endpoints_named
from magnetar_proto.ids import MessageId
from magnetar_proto.names import NamespaceName, TopicName

if TYPE_CHECKING:
    from magnetar.admin.client import Answer

T = TypeVar("T")
Query = dict[str, str | list[str]]
Figures = dict[str, Any]
"""Figures by their names in the REST API (GET /admin/v2/openapi.json)."""


def _as_it_is(found: Any) -> Any:
    return found


@dataclass(frozen=True)  # not with slots: Request[int](...) would fail
class Request(Generic[T]):
    """One request to the broker, and the function that converts its answer."""

    method: str
    path: str
    body: object = None
    query: Query = field(default_factory=dict)
    result: Callable[[Any], T] = _as_it_is
    """Converts the answer: its JSON value, its text if it is not JSON, or None if it is empty."""
    reads: "Callable[[Answer], T] | None" = None
    """Converts the whole answer, in place of `result`."""

    def result_of(self, answer: "Answer") -> T:
        """Return the result of an answer."""
        return self.result(answer.value) if self.reads is None else self.reads(answer)


def names_of(found: Any) -> list[str]:
    """Convert an answer to a list of names."""
    return [str(name) for name in found]


def nothing(found: Any) -> None:
    """Ignore an answer that has no result."""


def forced(force: bool) -> Query:
    """Return the query of a request that may be forced."""
    return {"force": "true"} if force else {}


def given(**values: object) -> Query:
    """Return a query of all values that are not None; a flag is included if it is true."""
    return {
        name: "true" if value is True else str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }


def message_id_of(found: Any) -> MessageId:
    """Convert a message id of an answer."""
    return MessageId(
        int(found["ledgerId"]),
        int(found["entryId"]),
        int(found.get("batchIndex", -1)),
        int(found.get("partitionIndex", -1)),
    )


def message_id_body(message_id: MessageId) -> Figures:
    """Convert a message id for the body of a request."""
    ledger, entry, batch_index, _ = message_id
    body = {"ledgerId": ledger, "entryId": entry}
    return body if batch_index < 0 else {**body, "batchIndex": batch_index}


def ask(
    name: str,
    *parts: object,
    body: object = None,
    query: Query | None = None,
    result: Callable[[Any], T] = _as_it_is,
    reads: "Callable[[Answer], T] | None" = None,
) -> Request[T]:
    """Return a request to the endpoint of this name whose path has this number of parts.

    A topic is named in full or not, a namespace as tenant/namespace.
    """
    endpoint = next(one for one in endpoints_named(name) if len(one.in_path) == len(parts))
    return request_to(endpoint, parts, body, query, result, reads)


def request_to(
    endpoint: Endpoint,
    parts: Iterable[object],
    body: object = None,
    query: Query | None = None,
    result: Callable[[Any], T] = _as_it_is,
    reads: "Callable[[Answer], T] | None" = None,
) -> Request[T]:
    """Return a request to an endpoint, with these parts of its path."""
    values = {
        part: _NAMES[part](str(value)) if part in _NAMES else value
        for part, value in zip(endpoint.in_path, parts, strict=True)
    }
    return Request(endpoint.method, endpoint.url(values), body, query or {}, result, reads)


_NAMES: Final[dict[str, Callable[[str], object]]] = {
    "topic": TopicName.parse,
    "namespace": NamespaceName.parse,
}
