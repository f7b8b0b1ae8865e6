"""Broker entry metadata: what is put before an entry, and that everything reads past it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import (
    broker_metadata_of,
    encode_broker_metadata,
    stored_time,
    without_broker_metadata,
)
from magnetar_proto.chunks import chunk_of, chunks_among
from magnetar_proto.entries import (
    deliver_at_ms,
    encode_entry,
    metadata_range,
    parse_metadata,
    verify_checksum,
)
from magnetar_proto.sticky_key import sticky_key
from magnetar_proto.transactions import may_have_transaction, membership_of

TIME_MS = 1_800_000_000_000


def entry_of(payload: bytes = b"payload", **fields: object) -> bytes:
    usual = {"producer_name": "p", "sequence_id": 7, "publish_time": 1_700_000_000_000}
    return encode_entry(pb.MessageMetadata(**usual | fields), payload)  # type: ignore[arg-type]


def added_to(entry: bytes, time_ms: int = TIME_MS, index: int = 5) -> bytes:
    return encode_broker_metadata(time_ms, [index])[0] + entry


@given(st.integers(0, 1 << 63), st.lists(st.integers(-1, 1 << 63), max_size=5))
def test_it_is_what_the_protocol_defines(time_ms: int, indexes: list[int]) -> None:
    encoded = encode_broker_metadata(time_ms, indexes)
    assert len(encoded) == len(indexes)
    for index, head in zip(indexes, encoded, strict=True):
        expected = pb.BrokerEntryMetadata()
        if time_ms:
            expected.broker_timestamp = time_ms
        if index >= 0:
            expected.index = index
        fields = expected.SerializeToString()
        assert head == b"\x0e\x02" + len(fields).to_bytes(4, "big") + fields
        assert broker_metadata_of(head + entry_of()) == expected


@given(st.binary(max_size=40))
def test_bytes_of_any_kind_are_read_without_an_error(data: bytes) -> None:
    for entry in (data, b"\x0e\x02" + data):
        broker_metadata_of(entry)
        assert entry.endswith(without_broker_metadata(entry))
        start, stop = metadata_range(entry)
        assert 0 <= start <= stop


def test_an_entry_without_it_is_left_as_it_is() -> None:
    entry = entry_of()
    assert without_broker_metadata(entry) is entry
    assert broker_metadata_of(entry) is None
    assert without_broker_metadata(added_to(entry)) == entry


def test_the_time_of_an_entry_is_the_brokers_if_it_is_there() -> None:
    assert stored_time(entry_of()) == 1_700_000_000_000
    assert stored_time(added_to(entry_of())) == TIME_MS
    assert stored_time(added_to(entry_of(), time_ms=0)) == 1_700_000_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"partition_key": "k"},
        {"partition_key": "k", "ordering_key": b"o"},
        {"partition_key": "AP8=", "partition_key_b64_encoded": True},
        {"deliver_at_time": 1_900_000_000_000},
        {"txnid_most_bits": 1, "txnid_least_bits": 2},
        {"uuid": "u", "num_chunks_from_msg": 3, "chunk_id": 1},
        {"num_messages_in_batch": 3},
    ],
)
def test_what_entries_are_asked_is_answered_as_without_it(fields: dict[str, object]) -> None:
    # What looks like the tags of rare fields is in the payload, which nothing may search.
    payload = b"\x98\x01\xa0\x01\xb0\x01\xd8\x01" * 100
    plain = entry_of(payload, **fields)
    entry = added_to(plain)
    assert verify_checksum(entry, 0, len(entry))
    assert parse_metadata(entry)[0] == parse_metadata(plain)[0]
    for ask in (sticky_key, deliver_at_ms, membership_of, may_have_transaction, chunk_of):
        assert ask(entry) == ask(plain)
    assert chunks_among([entry, plain]).keys() == ({0, 1} if "uuid" in fields else set())
    start, stop = metadata_range(entry)
    assert pb.MessageMetadata.FromString(entry[start:stop]) == parse_metadata(plain)[0]
