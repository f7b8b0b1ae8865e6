"""Transactions in the metadata of entries, and markers."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry, parse_metadata
from magnetar_proto.transactions import (
    ABORT_MARKER,
    COMMIT_MARKER,
    PRODUCER,
    Membership,
    encode_marker,
    may_have_transaction,
    membership_of,
)

BITS = st.integers(0, (1 << 64) - 1)


def entry(payload: bytes = b"", checksum: bool = True, **fields: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, **fields)  # type: ignore[arg-type]
    return encode_entry(metadata, payload, checksum)


@given(BITS, BITS, st.binary(max_size=20), st.booleans())
def test_the_transaction_of_a_message(
    most: int, least: int, payload: bytes, checksum: bool
) -> None:
    found = membership_of(entry(payload, checksum, txnid_most_bits=most, txnid_least_bits=least))
    assert found == Membership(most, least, 0)


@given(BITS, BITS, st.sampled_from((COMMIT_MARKER, ABORT_MARKER)))
def test_a_marker(most: int, least: int, kind: int) -> None:
    marker = encode_marker(most, least, kind, 5)
    assert membership_of(marker) == Membership(most, least, kind)
    metadata, at = parse_metadata(marker)
    assert (metadata.producer_name, marker[at:]) == (PRODUCER, b"")


def test_messages_without_a_transaction() -> None:
    tags = b"\xa0\x01\xb0\x01\xb8\x01"
    assert not may_have_transaction(entry(tags))  # only the metadata counts
    assert membership_of(entry(tags)) is None
    assert membership_of(entry(tags, checksum=False)) is None
    assert membership_of(entry(txnid_least_bits=1)) is None
    assert membership_of(entry(marker_type=21)) is None
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=2, partition_key=tags.decode("latin-1")
    )
    assert membership_of(encode_entry(metadata, b"")) is None


@given(st.binary(max_size=60))
def test_what_is_no_entry_has_none(data: bytes) -> None:
    assert membership_of(data) is None or len(data) > 8
