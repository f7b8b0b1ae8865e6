"""Places of the options."""

import json

import pytest

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, LATEST, MessageId
from pyspark_magnetar.options.places import Place, parse_offsets, parse_times

TOPIC = "persistent://public/default/t"


def of_pulsar_spark(message_id: pb.MessageIdData) -> list[int]:
    """As Java prints its bytes, which have signs."""
    return [byte - 256 if byte > 127 else byte for byte in message_id.SerializeToString()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("earliest", EARLIEST),
        ("Latest", LATEST),
        ("-2", EARLIEST),
        ("-1", LATEST),
        ("12:87", MessageId(12, 87)),
        ("12:87:3", MessageId(12, 87, 3)),
    ],
)
def test_one_for_all(given: str, expected: MessageId) -> None:
    assert parse_offsets(given).of(TOPIC) == Place(expected)
    assert parse_offsets(json.dumps({"t": given})).of(f"{TOPIC}-partition-3") == Place(expected)
    assert parse_offsets(json.dumps({TOPIC: given})).of(f"{TOPIC}2") is None


def test_those_of_pulsar_spark() -> None:
    stored = {
        "a": of_pulsar_spark(pb.MessageIdData(ledgerId=300, entryId=200, partition=1)),
        "b": of_pulsar_spark(MessageId(3, 4, 5).to_pb()),
        "c": of_pulsar_spark(pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)),
        "d": of_pulsar_spark(pb.MessageIdData(ledgerId=2**63 - 1, entryId=2**63 - 1)),
    }
    places = parse_offsets(json.dumps(stored))
    found = [places.of(f"persistent://public/default/{name}") for name in "abcd"]
    assert found == [
        Place(MessageId(300, 200)),
        Place(MessageId(3, 4, 5)),
        Place(EARLIEST),
        Place(LATEST),
    ]


def test_a_partition_comes_before_its_topic() -> None:
    places = parse_offsets('{"t": "earliest", "t-partition-1": "3:4"}')
    assert places.of(f"{TOPIC}-partition-0") == Place(EARLIEST)
    assert places.of(f"{TOPIC}-partition-1") == Place(MessageId(3, 4))


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("1700000000123", 1700000000123),
        ("2026-01-31T12:00:00Z", 1769860800000),
        ("2026-01-31 12:00", 1769860800000),
        ("2026-01-31T13:00:00+01:00", 1769860800000),
    ],
)
def test_times(given: str, ms: int) -> None:
    assert parse_times(given).of(TOPIC) == Place(ms)


@pytest.mark.parametrize("given", ["", "12", "a:b", "1:2:3:4", "1:-2", '{"t": [300]}', '{"t": []}'])
def test_what_is_no_place(given: str) -> None:
    with pytest.raises(ValueError, match="expected "):
        parse_offsets(given)
