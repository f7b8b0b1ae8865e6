"""How the text of a parameter is parsed, by its kind."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from magnetar.cli import units
from magnetar_proto.admin.kinds import Kind
from magnetar_proto.names import NamespaceName, TopicName

SIGNED_LONG: Final = 1 << 63
ENDS: Final = {
    "earliest": {"ledgerId": -1, "entryId": -1},
    "latest": {"ledgerId": SIGNED_LONG - 1, "entryId": SIGNED_LONG - 1},
}
_MESSAGE: Final = re.compile(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})(?::(-?[0-9]{1,9}))?")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


def _pairs(text: str) -> list[tuple[str, str]]:
    return [_pair(part) for part in _names(text)]


def _position(text: str) -> dict[str, int]:
    """Parse a message id into the form of the admin API."""
    if text in ENDS:
        return dict(ENDS[text])
    match = _MESSAGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not earliest, latest or a message as LEDGER:ENTRY")
    position = {"ledgerId": int(match[1]), "entryId": int(match[2])}
    return position if match[3] is None else {**position, "batchIndex": int(match[3])}


def _moment(text: str) -> int:
    """Parse a time into milliseconds since the epoch."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T16:53:08Z") from None
    return round(moment.timestamp() * 1000)


def _json_file(path: str) -> Any:
    """Return the JSON content of a file; `-` is standard input."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def _schema_file(path: str) -> Any:
    """Return the description of a schema; an Avro schema by itself gets one."""
    found = _json_file(path)
    if isinstance(found, dict) and "schema" not in found and found.get("type") == "record":
        return {"type": "AVRO", "schema": json.dumps(found), "properties": {}}
    return found


def _mode(kind: Kind, text: str) -> str:
    mode = text.upper().replace("-", "_")
    if mode not in kind.choices:
        raise ValueError(f"{text!r} is not one of {', '.join(kind.metavar.split('|'))}")
    return mode


def _one_of(kind: Kind, text: str) -> str:
    if text not in kind.choices:
        raise ValueError(f"{text!r} is not one of {', '.join(kind.choices)}")
    return text


def _some_of(kind: Kind, text: str) -> list[str]:
    return [_one_of(kind, name) for name in _names(text)]


def joined(pairs: Iterable[Iterable[tuple[str, str]]]) -> dict[str, str]:
    """Merge the values of a repeated parameter of kind PAIRS into one mapping."""
    return dict(pair for some in pairs for pair in some)


def parse(kind: Kind, text: str) -> Any:
    """Return the value of a parameter of this kind; ValueError says what is expected."""
    if kind.choices:
        return _CHOICES[kind.name](kind, text)
    return _PARSERS[kind.name](text)


_CHOICES: Final = {"MODE": _mode, "ONE_OF": _one_of, "SOME_OF": _some_of}
_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "TEXT": str,
    "NUMBER": _whole,
    "RATE": float,
    "SIZE": units.parse_size,
    "SECONDS": units.parse_seconds,
    "MILLISECONDS": lambda text: units.parse_seconds(text) * 1000,
    "MINUTES": units.parse_minutes,
    "MEGABYTES": lambda text: units.whole(units.parse_size(text), 1 << 20, text, "megabytes"),
    "MINUTES_OF_SECONDS": lambda text: units.whole(units.parse_seconds(text), 60, text, "minutes"),
    "NAMES": _names,
    "CSV": lambda text: ",".join(_names(text)),
    "PAIRS": _pairs,
    "POSITION": _position,
    "MOMENT": _moment,
    "SCHEMA_FILE": _schema_file,
    "TOPIC": TopicName.parse,
    "NAMESPACE": NamespaceName.parse,
}
