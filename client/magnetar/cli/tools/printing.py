"""Received messages as lines of text."""

import json
import sys
import time
from collections.abc import Callable, Iterable

from magnetar.messages import Message

Form = Callable[[Message], str]
HEX_ROW = 16


def form_of(as_json: bool, as_hex: bool, hides_content: bool) -> Form:
    """Return the format of messages; it returns "" for a message that is not shown."""
    if hides_content:
        return _nothing
    if as_json:
        return _json_hex_line if as_hex else _json_line
    return _hex_lines if as_hex else _text_line


def show(messages: Iterable[Message], form: Form) -> None:
    """Print messages with a single write, and flush."""
    lines = [line for line in map(form, messages) if line]
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


def _nothing(message: Message) -> str:
    return ""


def _head(message: Message) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(message.publish_time_ms / 1000))
    key = f" key={message.key!r}" if message.key is not None else ""
    properties = "".join(f" {name}={text}" for name, text in message.properties.items())
    identity = f"{message.id.ledger}:{message.id.entry}"
    if message.batch_index >= 0:
        identity += f":{message.batch_index}"
    return f"{moment} {identity:<14}{key}{properties}"


def _text_line(message: Message) -> str:
    return f"{_head(message)} {message.data.decode(errors='replace')}"


def _hex_lines(message: Message) -> str:
    """Return the value as rows of offset, bytes and printable characters."""
    rows = [_head(message)]
    for at in range(0, len(message.data), HEX_ROW):
        row = message.data[at : at + HEX_ROW]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"  {at:08x}  {row.hex(' '):<{3 * HEX_ROW}} {text}")
    return "\n".join(rows)


def _json_line(message: Message) -> str:
    try:
        return _json({"value": message.data.decode()}, message)
    except UnicodeDecodeError:
        return _json_hex_line(message)


def _json_hex_line(message: Message) -> str:
    return _json({"value_hex": message.data.hex()}, message)


def _json(value: dict[str, str], message: Message) -> str:
    key = message.key
    return json.dumps(
        {
            **value,
            "key": key.hex() if isinstance(key, bytes) else key,
            "properties": message.properties,
            "topic": message.topic,
            "ledger": message.id.ledger,
            "entry": message.id.entry,
            "batch_index": message.batch_index,
            "publish_time_ms": message.publish_time_ms,
            "event_time_ms": message.event_time_ms,
            "producer": message.producer_name,
            "redelivery_count": message.redelivery_count,
            **_added(message),
        },
        ensure_ascii=False,
    )


def _added(message: Message) -> dict[str, int]:
    """Return the broker's metadata of a message, as far as the broker sends it."""
    added = {"index": message.index, "broker_publish_time_ms": message.broker_publish_time_ms}
    return {name: value for name, value in added.items() if value is not None}
