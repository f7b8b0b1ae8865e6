"""Record batches equal the client's messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.client_entries import TOPIC, entry_of
from magnetar.base.errors import Unreadable
from magnetar.messages import Entry, Outgoing
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from magnetar_proto.ids import MessageId
from pyspark_magnetar.rows.batches import arrow_schema, record_batches
from pyspark_magnetar.rows.source_schema import METADATA, source_schema

TIMES = ("__publishTime", "__eventTime")

LAST_YEAR_MS = 253_402_300_799_999
"""Python's datetime ends here; Arrow and Spark support later times."""

texts = st.text(max_size=10)
outgoing = st.builds(
    Outgoing,
    st.binary(max_size=50),
    key=st.none() | texts | st.binary(max_size=10),
    properties=st.dictionaries(texts, texts, max_size=2),
    event_time_ms=st.integers(0, LAST_YEAR_MS),
)
entries = st.lists(st.lists(st.binary(max_size=50) | outgoing, min_size=1, max_size=5), max_size=6)


def expected_row(message: Any) -> dict[str, Any]:
    key = message.key.encode() if isinstance(message.key, str) else message.key
    return {
        "value": None if message.is_null else message.value,
        "__key": key,
        "__topic": message.topic,
        "__publishTime": message.publish_time_ms * 1000,
        "__eventTime": message.event_time_ms * 1000 or None,
        "__messageProperties": list(message.properties.items()),
        "__partition": message.id.partition,
        "__ledger": message.id.ledger,
        "__entry": message.id.entry,
        "__batchIndex": message.id.batch_index,
        "__producer": message.producer_name,
        "__sequenceId": message.sequence_id,
        "__orderingKey": message.ordering_key or None,
        "__redeliveryCount": message.redelivery_count,
        "__schemaVersion": message.schema_version or None,
    }


def table(received: list[Entry]) -> list[dict[str, Any]]:
    """All rows; times as numbers, and message ids checked on the way."""
    found = []
    for batch in record_batches(received, METADATA):
        batch.validate(full=True)
        assert batch.schema == arrow_schema(source_schema(METADATA))
        times = {name: batch.column(name).cast("int64").to_pylist() for name in TIMES}
        for index, row in enumerate(batch.to_pylist()):
            row.update({name: times[name][index] for name in TIMES})
            message_id = MessageId.from_pb(pb.MessageIdData.FromString(row.pop("__messageId")))
            place = (row["__ledger"], row["__entry"], row["__batchIndex"], row["__partition"])
            assert message_id == place
            found.append(row)
    return found


@given(entries, st.sampled_from(range(5)))
def test_rows_are_the_messages(sent: list[list[bytes | Outgoing]], compression: int) -> None:
    received = [
        entry_of(messages, position=(3, index, 7), compression=compression)
        for index, messages in enumerate(sent)
    ]
    messages = [message for entry in received for message in entry.messages()]
    assert table(received) == [expected_row(m) for m in messages]


def test_record_batches_are_bounded_by_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_magnetar.rows.batches.MAX_ROWS", 4)
    monkeypatch.setattr("pyspark_magnetar.rows.batches.MAX_BYTES", 100)
    small = [entry_of([b"x"] * 3, position=(1, index, -1)) for index in range(3)]
    assert [batch.num_rows for batch in record_batches(small, METADATA)] == [6, 3]
    large = [entry_of([bytes(100)], position=(1, index, -1)) for index in range(2)]
    assert [batch.num_rows for batch in record_batches(large, METADATA)] == [1, 1]
    assert list(record_batches([], METADATA)) == []


def made(metadata: pb.MessageMetadata, payload: bytes) -> Entry:
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", 0, 5
    return Entry(TOPIC, (1, 2, -1), encode_entry(metadata, payload))


def batch_body(*messages: tuple[pb.SingleMessageMetadata, bytes]) -> bytes:
    return b"".join(
        len(about.SerializeToString()).to_bytes(4, "big") + about.SerializeToString() + value
        for about, value in messages
    )


def test_nulls_and_compacted_messages() -> None:
    body = batch_body(
        (pb.SingleMessageMetadata(payload_size=0, compacted_out=True), b""),
        (pb.SingleMessageMetadata(payload_size=0, null_value=True, partition_key="k"), b""),
        (pb.SingleMessageMetadata(payload_size=1), b"x"),
    )
    entry = made(pb.MessageMetadata(num_messages_in_batch=3), body)
    rows = table([entry])
    assert rows == [expected_row(message) for message in entry.messages()]
    assert [(row["value"], row["__key"], row["__batchIndex"]) for row in rows] == [
        (None, b"k", 1),
        (b"x", None, 2),
    ]


heads = st.tuples(
    st.sampled_from(["", "a", "b"]), st.none() | st.integers(0, 300), st.sampled_from([0, 1, 200])
)


alike = st.sampled_from([("a", 3, 1), ("b", 3, 1), ("a", 4, 1), ("a", 200, 1)])


equal = st.builds(lambda head, count: [head] * count, alike, st.integers(4, 12))
batches = st.tuples(
    st.lists(heads, min_size=1, max_size=12) | st.lists(alike, min_size=4, max_size=12) | equal,
    st.sampled_from([0, 2, 150]),
)


@given(st.lists(batches, min_size=1, max_size=4))
def test_batches_of_values_of_one_size(
    sent: list[tuple[list[tuple[str, int | None, int]], int]],
) -> None:
    """Those whose heads are all alike are cut by stride: others must not be taken for them."""
    received = [made_alike(*one) for one in sent]
    messages = [message for entry in received for message in entry.messages()]
    assert table(received) == [expected_row(message) for message in messages]


def made_alike(described: list[tuple[str, int | None, int]], size: int) -> Entry:
    """A batch of messages with these keys, sequence ids and event times, and values of one size."""
    messages = [
        (pb.SingleMessageMetadata(payload_size=size, sequence_id=sequence_id), bytes([at]) * size)
        for at, (_, sequence_id, _) in enumerate(described)
    ]
    for (about, _), (key, _, time_ms) in zip(messages, described, strict=True):
        if key:
            about.partition_key = key
        if time_ms:
            about.event_time = time_ms
    return made(pb.MessageMetadata(num_messages_in_batch=len(messages)), batch_body(*messages))


@pytest.mark.parametrize("first", [2**31 - 2, 2**31 - 1, 2**63 - 2, 2**64 - 1])
def test_sequence_ids_beyond_64_bits_are_held_back(first: int) -> None:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=first, publish_time=5, num_messages_in_batch=4
    )
    body = batch_body(*[(pb.SingleMessageMetadata(payload_size=1), b"x")] * 4)
    [batch] = record_batches([Entry(TOPIC, (1, 2, -1), encode_entry(metadata, body))], METADATA)
    expected = [min(first + index, 2**63 - 1) for index in range(4)]
    assert batch.column("__sequenceId").to_pylist() == expected


def test_times_beyond_all_calendars_are_held_back() -> None:
    entry = entry_of([Outgoing(b"x", event_time_ms=2**64 - 1)])
    [batch] = record_batches([entry], METADATA)
    assert batch.column("__eventTime").cast("int64").to_pylist() == [2**63 - 1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x00",
        batch_body((pb.SingleMessageMetadata(payload_size=5), b"abc")),
        batch_body((pb.SingleMessageMetadata(payload_size=-1), b"")),
        batch_body((pb.SingleMessageMetadata(payload_size=1), b"a")) + b"more",
        b"\x00\x00\x00\x02\xff\xff",
    ],
)
def test_a_broken_batch_is_named(body: bytes) -> None:
    entry = made(pb.MessageMetadata(num_messages_in_batch=1), body)
    with pytest.raises(Unreadable, match=r"entry 1:2 of .* is not a batch"):
        table([entry])
