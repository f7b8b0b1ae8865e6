"""What an HTTP handler is given, and what it gives back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request."""

    method: str
    path: str
    """As it was sent, percent-encoded, without the query."""
    query: Mapping[str, str]
    """Decoded; the first value of each name."""
    headers: Mapping[str, str]
    """By lower-case name; several of a name are joined by commas."""
    body: bytes
    port: int
    """Of ours, that it came to."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What stands in the places that the route's pattern names, percent-encoded."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; 204 has no body."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def text_response(text: str) -> Response:
    """Plain text."""
    return Response(text.encode())


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A value as JSON."""
    body = json.dumps(value).encode()
    return Response(body, "application/json; charset=utf-8", status, headers or {})
