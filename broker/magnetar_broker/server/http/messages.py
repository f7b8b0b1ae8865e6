"""Requests and responses, as handlers see them."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from magnetar_broker.authentication.identity import Roles

BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


class Refused(Exception):
    """A refusal of a request, with its HTTP status.

    The request changed nothing, unless it makes several changes one after the other: then the
    changes before the refusal are made, and repeating the request continues.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Redirected(Refused):
    """The request is to be sent again, as it is, to another broker."""

    def __init__(self, location: str) -> None:
        super().__init__(307, f"another broker answers this: send it to {location}")
        self.location = location


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request."""

    method: str
    path: str
    """The path as sent: percent-encoded, without the query."""
    query: Mapping[str, str]
    """The query, decoded; the first value of each name."""
    headers: Mapping[str, str]
    """The headers by lower-case name; repeated headers are joined by commas."""
    body: bytes
    port: int
    """The local port that received the request."""
    address: str = ""
    """The client's address, `host:port`; empty if it is not known."""
    is_tls: bool = False
    """Whether the request came over TLS."""
    certificate: bytes = b""
    """The client's TLS certificate, which was verified, as DER; empty if it showed none."""
    roles: Roles | None = None
    """The roles of the client; None while authentication is off."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The parameters of the route's pattern, percent-encoded."""
    pairs: Sequence[tuple[str, str]] = ()
    """The whole query, decoded: every name and value as sent."""
    is_given_up: Callable[[], bool] = field(default=lambda: False, compare=False)
    """Returns whether the client has closed the connection, or its sending side."""

    def values_of(self, name: str) -> list[str]:
        """Return all values that the query gives a parameter."""
        return [value for other, value in self.pairs if other == name]

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is `true`."""
        return self.query.get(name, "").lower() == "true"

    def part(self, name: str) -> str:
        """Return a parameter of the path, decoded; 400 if malformed. `+` is a blank."""
        try:
            return decoded_part(self.parameters[name])
        except ValueError as error:
            raise Refused(
                400, f"{self.path}: a % must be followed by two hex digits, and all be UTF-8"
            ) from error

    def json(self) -> Any:
        """Return the body as JSON; 400 if it is not."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the body is not valid JSON: {error}") from error

    def json_or_none(self) -> Any:
        """Return the body as JSON; None for an empty body or null, 400 if it is not JSON."""
        return self.json() if self.body.strip() else None


def decoded_part(part: str) -> str:
    """Decode a part of a path; ValueError if it is malformed."""
    if BROKEN_ESCAPE.search(part):
        raise ValueError(part)
    return unquote_plus(part, errors="strict")


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response; one with status 204 is sent without a body."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: Sequence[bytes] = ()
    """The parts after `body`; a large body is sent in parts that are never joined."""
    lines: Sequence[tuple[str, str]] = ()
    """Additional headers, whose names may be repeated."""


NO_CONTENT = Response(status=204)


def text_response(text: str) -> Response:
    """Return plain text, labelled as JSON because existing clients expect that content type."""
    return Response(text.encode(), "application/json; charset=utf-8")


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a value as JSON."""
    body = json.dumps(value).encode()
    return Response(body, "application/json; charset=utf-8", status, headers or {})
