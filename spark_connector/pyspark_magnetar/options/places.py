"""The start and end positions in the options. Pure.

Words (earliest, latest), "ledger:entry" or "ledger:entry:message", and JSON with one of these for
each topic or partition, -2 and -1 as in Kafka, or a serialized message id as a list of bytes as
in pulsar-spark.  Times are ms since 1970 or ISO 8601, or JSON with one for each.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.message import DecodeError

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from magnetar_proto.names import TopicName

WORDS: Final = {"earliest": EARLIEST, "latest": LATEST, "-2": EARLIEST, "-1": LATEST}
EXPECTED: Final = (
    'expected earliest, latest, "ledger:entry", "ledger:entry:message" or JSON with one of these '
    "for each topic"
)
EXPECTED_TIME: Final = (
    'expected milliseconds since 1970, a time such as "2026-01-31T12:00:00Z" or JSON with one of '
    "these for each topic"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A position: an id, or a time in ms."""

    at: MessageId | int


@dataclass(frozen=True, slots=True)
class Places:
    """The start or end positions of all partitions."""

    default: Place | None = None
    by_topic: Mapping[str, Place] = field(default_factory=dict)

    def of(self, partition: str) -> Place | None:
        """Return the position given for the partition, its topic or all; None if none is given."""
        found = self.by_topic.get(partition)
        if found is None:
            found = self.by_topic.get(str(TopicName.parse(partition).base))
        return found or self.default


def parse_offsets(text: str) -> Places:
    """Parse positions; ValueError says what is expected."""
    return _places(text, _offset, EXPECTED)


def parse_times(text: str) -> Places:
    """Parse times; ValueError says what is expected."""
    return _places(text, _time, EXPECTED_TIME)


def _places(text: str, parse: Callable[[Any], Place | None], expected: str) -> Places:
    trimmed = text.strip()
    if not trimmed.startswith("{"):
        place = parse(trimmed)
        if place is None:
            raise ValueError(expected)
        return Places(place)
    try:
        stored = json.loads(trimmed)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    found = {}
    for topic, one in stored.items():
        place = parse(one)
        if place is None:
            raise ValueError(f"the position of {topic} is {one!r}: {expected}")
        found[str(TopicName.parse(topic))] = place
    return Places(None, found)


def _offset(stored: Any) -> Place | None:
    if isinstance(stored, list):
        return _serialized(stored)
    word = str(stored).strip().lower()
    if word in WORDS:
        return Place(WORDS[word])
    parts = word.split(":")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        return None
    return Place(MessageId(*map(int, parts)))


def _serialized(stored: list[Any]) -> Place | None:
    """Parse a MessageIdData; Java's bytes may be negative."""
    try:
        data = pb.MessageIdData.FromString(bytes(byte & 255 for byte in stored))
    except (TypeError, DecodeError):
        return None
    if not data.IsInitialized():
        return None
    found = MessageId.from_pb(data)
    if found.is_earliest or found.is_latest:
        return Place(EARLIEST if found.is_earliest else LATEST)
    return Place(MessageId(*found.begins_at, found.batch_index))


def _time(stored: Any) -> Place | None:
    text = str(stored).strip()
    if text.isdecimal():
        return Place(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A time without zone is in UTC: the machines of a cluster may have different zones.
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Place(int(moment.timestamp() * 1000))
