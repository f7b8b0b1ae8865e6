"""REST steps of a trace: a request, and its answer in a form in which two brokers can be compared.

A refusal is recorded as its status and whether there is a reason (a `reason` or a page); its text
is not.  Of an answer the status and the JSON, without nulls, keys and lists of names in order;
ledgers, names and addresses have the same roles as on the wire, times are `<time>`.
"""

import http.client
import json
from contextlib import closing
from typing import Any, NamedTuple

from conformance.transcript import NO_LEDGERS, Roles

TIMEOUT_SECONDS = 60.0
JSON = "application/json"
LEDGERS = {"ledgerId"}
TIMES = {"timestamp"}


class Answer(NamedTuple):
    """What came back."""

    status: int
    media: str
    """The content type without its parameters; empty if there is none."""
    body: bytes

    @property
    def value(self) -> Any:
        """The JSON, or None if it is none."""
        try:
            return json.loads(self.body) if self.media == JSON else None
        except ValueError:
            return None


def ask(port: int, method: str, path: str, body: bytes | None, media: str = JSON) -> Answer:
    """Send a request; redirections are not followed."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)) as web:
        web.request(method, path, body, {"Accept": JSON, "Content-Type": media})
        answer = web.getresponse()
        kind = answer.headers.get("Content-Type", "").partition(";")[0]
        return Answer(answer.status, kind, answer.read())


def described(answer: Answer, roles: Roles) -> str:
    """One line about it."""
    if answer.status >= 400:
        return f"{answer.status} reason" if answer.body else str(answer.status)
    if not answer.body:
        return str(answer.status)
    if answer.value is not None:
        return f"{answer.status} {shown(answer.value, roles)}"
    return f"{answer.status} {answer.media} {roles.plain(answer.body.decode())!r}"


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
