"""REST steps of a trace: a request, and its answer in a form in which two brokers can be compared.

A refusal is recorded as its status and whether there is a reason (a `reason` or a page); its text
is not.  Of an answer the status and the JSON, without nulls, keys and lists of names in order;
ledgers, names and addresses have the same roles as on the wire, times are `<time>`.
"""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from conformance.transcript import NO_LEDGERS, Roles

TIMEOUT_SECONDS = 60.0
JSON = "application/json"
LEDGERS = {"ledgerId"}
TIMES = {"timestamp"}
TIME_HEADERS = {"X-Pulsar-publish-time", "X-Pulsar-Broker-Entry-METADATA-timestamp"}


class Answer(NamedTuple):
    """What came back."""

    status: int
    media: str
    """The content type without its parameters; empty if there is none."""
    body: bytes
    headers: Mapping[str, str] = {}
    """Where it leads to, and those of messages."""

    @property
    def value(self) -> Any:
        """The JSON, or None if it is none."""
        try:
            return json.loads(self.body) if self.media == JSON else None
        except ValueError:
            return None


def ask(
    port: int,
    method: str,
    path: str,
    body: bytes | None,
    media: str = JSON,
    accept: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a request; redirections are not followed."""
    sent = {"Accept": accept, "Content-Type": media, **(headers or {})}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)) as web:
        web.request(method, path, body, sent)
        answer = web.getresponse()
        kind = answer.headers.get("Content-Type", "").partition(";")[0]
        shown = {name: value for name, value in answer.headers.items() if _is_shown(name)}
        return Answer(answer.status, kind, answer.read(), shown)


def _is_shown(name: str) -> bool:
    return name == "Location" or name.startswith("X-Pulsar-")


def described(answer: Answer, roles: Roles) -> str:
    """One line about it."""
    if answer.status >= 400:
        return f"{answer.status} reason" if answer.body else str(answer.status)
    if not answer.body:
        return str(answer.status)
    if answer.value is not None:
        return f"{answer.status} {shown(answer.value, roles)}"
    return f"{answer.status} {answer.media} {roles.plain(answer.body.decode())!r}"


def described_fully(answer: Answer, roles: Roles, types: bool) -> str:
    """One line about it: of a success also the content type and headers, of a refusal the status.

    With `types`, JSON is the names of members and the types of values.
    """
    if answer.status >= 400:
        return str(answer.status)
    headers = [f"{name}: {_header(name, text, roles)}" for name, text in answer.headers.items()]
    words = [str(answer.status), *sorted(headers)]
    if answer.body:
        words.append(answer.media)
    if answer.value is not None and types:
        words.append(json.dumps(_types_of(answer.value, roles), sort_keys=True))
    elif answer.value is not None:
        words.append(shown(answer.value, roles))
    elif answer.body:
        words.append(roles.plain(repr(answer.body)[1:]))
    return " ".join(words)


def _header(name: str, text: str, roles: Roles) -> str:
    if name == "X-Pulsar-Message-ID":
        ledger, _, rest = text.partition(":")
        return f"{roles.ledger(int(ledger))}:{rest}"
    if name in TIME_HEADERS:
        return "<time>"
    return "<generated>" if name == "X-Pulsar-producer-name" else roles.plain(text)


def _types_of(value: Any, roles: Roles) -> Any:
    if isinstance(value, dict):
        return {
            roles.plain(name): _types_of(part, roles)
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        return [_types_of(part, roles) for part in value[:1]]
    names = {bool: "boolean", int: "number", float: "number", str: "string"}
    return names[type(value)]


def shown(value: Any, roles: Roles) -> str:
    """JSON in roles."""
    return json.dumps(_in_roles("", value, roles), sort_keys=True)


def _in_roles(key: str, value: Any, roles: Roles) -> Any:
    if isinstance(value, dict):
        return {
            roles.plain(name): _in_roles(name, part, roles)
            for name, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        parts = [_in_roles(key, part, roles) for part in value]
        return sorted(parts) if all(isinstance(part, str) for part in parts) else parts
    if isinstance(value, str):
        return roles.plain(value)
    if key in LEDGERS and value not in NO_LEDGERS:
        return roles.ledger(value)
    return "<time>" if key in TIMES else value


# Large answers: what they consist of ----------------------------------------------------------


def kinds(value: Any, roles: Roles) -> Any:
    """JSON with the kind of every value in its place; of a list only that of its first element."""
    if isinstance(value, dict):
        return {roles.plain(name): kinds(part, roles) for name, part in value.items()}
    if isinstance(value, list):
        return [kinds(part, roles) for part in value[:1]]
    if isinstance(value, bool):
        return "flag"
    return "number" if isinstance(value, int | float) else "text"


def field_of(value: Any, path: str) -> Any:
    """A part of JSON by names, and numbers of elements, with slashes between; None if it is not
    there."""
    for name in path.split("/"):
        if isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value
