"""Requests and responses, as handlers see them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from magnetar_broker.authentication.identity import Roles


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request."""

    method: str
    path: str
    """As sent: percent-encoded, without the query."""
    query: Mapping[str, str]
    """Decoded; the first value of each name."""
    headers: Mapping[str, str]
    """By lower-case name; repeated headers are joined by commas."""
    body: bytes
    port: int
    """The local port that received it."""
    address: str = ""
    """The client's, `host:port`; empty if it is not known."""
    is_tls: bool = False
    """Whether it came over TLS."""
    certificate: bytes = b""
    """The client's TLS certificate, which was verified, as DER; empty if it showed none."""
    roles: Roles | None = None
    """Of the client; None while authentication is off."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The parameters of the route's pattern, percent-encoded."""
    pairs: Sequence[tuple[str, str]] = ()
    """The whole query, decoded: every name and value as sent."""
    is_given_up: Callable[[], bool] = field(default=lambda: False, compare=False)
    """Whether the client has closed the connection meanwhile, at least its side."""

    def values_of(self, name: str) -> list[str]:
        """All values that the query has for a name."""
        return [value for other, value in self.pairs if other == name]


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response; a 204 is sent without body."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: Sequence[bytes] = ()
    """What follows the body: a large one is never joined."""
    lines: Sequence[tuple[str, str]] = ()
    """Further headers, of which a name can come several times."""


def text_response(text: str) -> Response:
    """Text as it is, labelled as JSON: existing clients expect this content type."""
    return Response(text.encode(), "application/json; charset=utf-8")


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A value as JSON."""
    body = json.dumps(value).encode()
    return Response(body, "application/json; charset=utf-8", status, headers or {})
