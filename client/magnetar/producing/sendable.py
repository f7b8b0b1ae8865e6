"""The check of messages: one that cannot be encoded is refused before it is queued."""

from collections.abc import Mapping
from typing import Any

from magnetar.messages import Outgoing

MAX_INT64 = 2**63 - 1


def checked(message: Any) -> bytes | Outgoing:
    """Return the message; TypeError or ValueError names the part that cannot be sent.

    Messages are encoded a batch at a time, when it is too late to refuse a single one.
    """
    if isinstance(message, bytes):
        return message
    if not isinstance(message, Outgoing):
        raise _not_bytes(message)
    if not isinstance(message.value, bytes):
        raise _not_bytes(message.value)
    if message.key is not None and not isinstance(message.key, bytes):
        _check_text(message.key, "key")
    if not isinstance(message.ordering_key, bytes | None):
        raise TypeError(f"ordering_key must be bytes, but is {message.ordering_key!r}")
    if message.properties:
        _check_properties(message.properties)
    _check_number(message.event_time_ms, "event_time_ms")
    _check_number(message.deliver_at_ms, "deliver_at_ms")
    if message.sequence_id is not None:
        _check_number(message.sequence_id, "sequence_id")
    return message


def _not_bytes(value: Any) -> TypeError:
    if value is None:
        return TypeError(
            "the value is None: a message without value is Outgoing(b'', is_null=True), or None "
            "from a producer with a schema"
        )
    return TypeError(
        f"a value without schema must be bytes, but is {type(value).__name__}: encode it, or give "
        "the producer a schema"
    )


def _check_properties(properties: Any) -> None:
    if not isinstance(properties, Mapping):
        raise TypeError(f"properties must be a mapping of str to str, but are {properties!r}")
    for name, text in properties.items():
        _check_text(name, "the name of a property")
        _check_text(text, f"property {name!r}")


def _check_text(text: Any, what: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, but is {text!r}")
    if not text.isascii():
        text.encode()  # a lone surrogate is not text: UnicodeEncodeError


def _check_number(number: Any, what: str) -> None:
    if not isinstance(number, int):
        raise TypeError(f"{what} must be int, but is {number!r}")
    if not 0 <= number <= MAX_INT64:
        raise ValueError(f"{what} must be from 0 to {MAX_INT64}, but is {number}")
