"""The records of a coordinator: one for each step of a transaction.

record       u8 kind, u64 number of the transaction, body
BEGUN        u64 time in ms since 1970, u64 time to live in ms, the owner's role
ADDED        JSON: a list of [topic] and [topic, subscription]
CHANGED      u8 status
REMEMBERED   u8 status: the transaction has ended so (in snapshots only)
COUNTED      none: the number is the next transaction's, or a later one is
"""

import json
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

_HEAD = Struct("<BQ")
_BEGUN = Struct("<QQ")
PARTS_A_RECORD = 16
"""The most parts in a record, which keep it below 1 MiB even if names have the greatest length."""


class TransactionRecordKind(IntEnum):
    """The kinds of records."""

    BEGUN = 1
    ADDED = 2
    CHANGED = 3
    REMEMBERED = 4
    COUNTED = 5


class Status(IntEnum):
    """The status of a transaction."""

    OPEN = 1
    COMMITTING = 2
    ABORTING = 3
    COMMITTED = 4
    ABORTED = 5


class Participant(NamedTuple):
    """A participant: messages of a topic, or acknowledgements of a subscription."""

    topic: str
    subscription: str | None = None
    """The subscription; None for the messages of the topic."""

    def __str__(self) -> str:
        return self.topic if self.subscription is None else f"{self.topic}, {self.subscription}"


def begun(least: int, opened_ms: int, ttl_ms: int, owner: str) -> bytes:
    """Return the record that a transaction has begun."""
    return (
        _HEAD.pack(TransactionRecordKind.BEGUN, least)
        + _BEGUN.pack(opened_ms, ttl_ms)
        + owner.encode()
    )


def added(least: int, parts: Sequence[Participant]) -> list[bytes]:
    """Return the records of parts that were added to a transaction; none for no parts."""
    head = _HEAD.pack(TransactionRecordKind.ADDED, least)
    return [
        head + _text(parts[at : at + PARTS_A_RECORD]) for at in range(0, len(parts), PARTS_A_RECORD)
    ]


def changed(least: int, status: Status) -> bytes:
    """Return the record that a transaction has another status."""
    return _HEAD.pack(TransactionRecordKind.CHANGED, least) + bytes((status,))


def remembered(least: int, status: Status) -> bytes:
    """Return the record that a transaction had ended with this status."""
    return _HEAD.pack(TransactionRecordKind.REMEMBERED, least) + bytes((status,))


def counted(following: int) -> bytes:
    """Return the record of the number of the next transaction."""
    return _HEAD.pack(TransactionRecordKind.COUNTED, following)


def read(record: bytes) -> tuple[TransactionRecordKind, int, bytes]:
    """Return kind, number and body; ValueError or `struct.error` if it is not a record."""
    kind, least = _HEAD.unpack_from(record)
    return TransactionRecordKind(kind), least, record[_HEAD.size :]


def read_begun(body: bytes) -> tuple[int, int, str]:
    """Return time, time to live and owner."""
    opened_ms, ttl_ms = _BEGUN.unpack_from(body)
    return opened_ms, ttl_ms, body[_BEGUN.size :].decode()


def read_added(body: bytes) -> list[Participant]:
    """Return the parts in a record; ValueError if it is malformed."""
    try:
        return [Participant(*values) for values in json.loads(body)]
    except TypeError as error:
        raise ValueError(f"expected topics and subscriptions, got {body!r}") from error


def read_status(body: bytes) -> Status:
    """Return the status; ValueError if it is unknown."""
    return Status(body[0] if len(body) == 1 else 0)


def _text(parts: Sequence[Participant]) -> bytes:
    values = [part[:1] if part.subscription is None else part for part in parts]
    return json.dumps(values, ensure_ascii=False).encode()
