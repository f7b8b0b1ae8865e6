"""Requests that show stored messages without delivering them."""

import json
from base64 import b64decode
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from magnetar.admin.requests.request import (
    Request,
    ask,
    given,
    message_id_body,
    message_id_of,
)
from magnetar_proto.batch import decode_batch
from magnetar_proto.ids import EARLIEST, MessageId

if TYPE_CHECKING:
    from magnetar.admin.client import Answer

_PREFIX = "x-pulsar-"


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in its stored form; times are in milliseconds, 0 if they are not set."""

    id: MessageId
    value: bytes
    """The decompressed payload; for an encrypted message, the payload as it is stored."""
    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    publish_time_ms: int = 0
    event_time_ms: int = 0
    producer: str = ""
    sequence_id: int = 0
    is_encrypted: bool = False
    is_null: bool = False
    index: int | None = None
    """The number of messages in the topic before this one; None if the broker did not add it."""
    broker_publish_time_ms: int | None = None
    """The time at which the broker stored the message; None if the broker did not add it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The messages that a search has found, and the place where it continues."""

    messages: list[StoredMessage]
    next: str | None
    """The `start` of the next request; None if everything has been read."""
    entries_scanned: int


def get(topic: str, ledger: int, entry: int) -> Request[list[StoredMessage]]:
    """Get the message of an entry, or all messages of its batch."""
    return ask("messages.reading.by_id", topic, ledger, entry, reads=messages_of)


def peek(topic: str, subscription: str, position: int = 1) -> Request[list[StoredMessage]]:
    """Get the messages of an unacknowledged entry: the first one, or the one at `position`."""
    return ask("messages.reading.peek", topic, subscription, position, reads=messages_of)


def examine(
    topic: str, position: int = 1, *, from_end: bool = False
) -> Request[list[StoredMessage]]:
    """Get the messages of the entry at a position, counted from 1, from either end of a topic."""
    start = "latest" if from_end else "earliest"
    query = given(initialPosition=start, messagePosition=position)
    return ask("messages.reading.examine", topic, query=query, reads=messages_of)


def last_id(topic: str) -> Request[MessageId]:
    """Get the id of the last message."""
    return ask("messages.reading.last_id", topic, result=message_id_of)


def id_at(topic: str, time_ms: int) -> Request[MessageId]:
    """Get the id of the first message that was published at this time or later."""
    return ask("messages.reading.id_since", topic, time_ms, result=message_id_of)


def id_of_index(topic: str, index: int) -> Request[MessageId]:
    """Get the id of the message with an index, on brokers that assign indexes."""
    return ask(
        "messages.reading.id_of_index", topic, query=given(index=index), result=message_id_of
    )


def bytes_from(topic: str, message_id: MessageId = EARLIEST) -> Request[int]:
    """Get the number of bytes stored from a message on."""
    return ask("messages.reading.backlog_size", topic, body=message_id_body(message_id), result=int)


def search(
    topic: str,
    *,
    key: str | None = None,
    property: str | None = None,
    start: str | None = None,
    limit: int = 100,
    scan: int = 10_000,
    payload: int = 1024,
) -> Request[Found]:
    """Find at most `limit` messages with a key or a property, NAME or NAME=VALUE.

    At most `scan` entries are read, from `start`, the `next` of the former request.  Each value is
    cut at `payload` bytes.
    """
    query = given(
        **{"from": start}, key=key, property=property, limit=limit, scan=scan, payload=payload
    )
    return ask("messages.searches.search", topic, query=query, result=found_of)


def messages_of(answer: "Answer") -> list[StoredMessage]:
    """Return the messages of an answer: the entry is the body, and its metadata are headers."""
    about = {
        name.lower().removeprefix(_PREFIX): text
        for name, text in answer.headers.items()
        if name.lower().startswith(_PREFIX)
    }
    ledger, entry = map(int, about["message-id"].split(":")[:2])
    is_encrypted = about.get("is-encrypted") == "true"
    publish_time_ms = _ms(about.get("publish-time"))
    producer = about.get("producer-name", "")
    sequence_id = int(about.get("sequence-id", 0))
    last_index = _number(about.get("broker-entry-metadata-index"))
    stored_at = about.get("broker-entry-metadata-timestamp")
    broker_publish_time_ms = None if stored_at is None else _ms(stored_at)
    # promise[always]: messages of a batch are shown one by one
    if is_encrypted or "num-batch-message" not in about:
        return [
            StoredMessage(
                MessageId(ledger, entry),
                answer.body,
                about.get("partition-key"),
                json.loads(about.get("property", "{}")),
                publish_time_ms,
                _ms(about.get("event-time")),
                producer,
                sequence_id,
                is_encrypted,
                about.get("null-value") == "true",
                last_index,
                broker_publish_time_ms,
            )
        ]
    parts = decode_batch(answer.body, int(about["num-batch-message"]))
    return [
        StoredMessage(
            MessageId(ledger, entry, index),
            payload,
            one.partition_key if one.HasField("partition_key") else None,
            {pair.key: pair.value for pair in one.properties},
            publish_time_ms,
            one.event_time,
            producer,
            one.sequence_id if one.HasField("sequence_id") else sequence_id,
            is_null=one.null_value,
            index=None if last_index is None else last_index - len(parts) + index + 1,
            broker_publish_time_ms=broker_publish_time_ms,
        )
        for index, (one, payload) in enumerate(parts)
    ]


def found_of(answer: Any) -> Found:
    """Return the result of a search from its answer."""
    messages = [_found(one) for one in answer["messages"]]
    return Found(messages, answer["next"], int(answer["entriesScanned"]))


def _found(about: Any) -> StoredMessage:
    ledger, entry, *index = map(int, about["id"].split(":"))
    return StoredMessage(
        MessageId(ledger, entry, *index),
        b64decode(about["payload"]),
        about.get("key"),
        about["properties"],
        _ms(about["publishTime"]),
        _ms(about.get("eventTime")),
        about["producerName"],
        int(about["sequenceId"]),
        about["encrypted"],
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _ms(text: str | None) -> int:
    if text is None:
        return 0
    return int(text) if text.isdigit() else round(datetime.fromisoformat(text).timestamp() * 1000)
