"""Entries: metadata, checksums, damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import (
    COPY_LIMIT,
    deliver_at_ms,
    encode_entry,
    parse_metadata,
    publish_time,
    verify_checksum,
)
from magnetar_proto.errors import BadMetadata, LocalError

u64 = st.integers(0, 2**64 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
metadatas = st.builds(
    pb.MessageMetadata,
    producer_name=text,
    sequence_id=u64,
    publish_time=u64,
    partition_key=text,
    properties=st.lists(st.builds(pb.KeyValue, key=text, value=text), max_size=2),
)
METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)


def with_broker_metadata(entry: bytes) -> bytes:
    extra = pb.BrokerEntryMetadata(broker_timestamp=5, index=6).SerializeToString()
    return b"\x0e\x02" + len(extra).to_bytes(4, "big") + extra + entry


@given(metadatas, st.binary(max_size=100), st.booleans(), st.booleans())
def test_an_entry_comes_back(
    metadata: pb.MessageMetadata, payload: bytes, checksum: bool, broker: bool
) -> None:
    entry = encode_entry(metadata, payload, checksum)
    entry = with_broker_metadata(entry) if broker else entry
    found, offset = parse_metadata(entry)
    assert found == metadata
    assert entry[offset:] == payload
    assert publish_time(entry) == metadata.publish_time
    framed = b"\x0e\x01" + entry + b"\x0e\x01"
    assert verify_checksum(framed, 2, 2 + len(entry))


@pytest.mark.parametrize("size", [0, 100, COPY_LIMIT, COPY_LIMIT * 3])
@pytest.mark.parametrize("broker", [False, True])
def test_one_flipped_bit_is_found(size: int, broker: bool) -> None:
    plain = encode_entry(METADATA, bytes(size))
    entry = with_broker_metadata(plain) if broker else plain
    first = len(entry) - len(plain) + 2
    for place in {first, first + 3, first + 4, first + 9, len(entry) - 1}:
        damaged = bytearray(entry)
        damaged[place] ^= 0x10
        assert not verify_checksum(bytes(damaged), 0, len(damaged))


def test_an_entry_without_checksum_passes() -> None:
    entry = encode_entry(METADATA, b"payload", checksum=False)
    assert entry[:2] != b"\x0e\x01"
    assert verify_checksum(entry, 0, len(entry))


def test_a_checksum_cut_short_does_not_match() -> None:
    assert not verify_checksum(b"\x0e\x01\x00\x00\x00\x00", 0, 5)
    assert verify_checksum(b"\x0e\x01\x00\x00\x00\x00", 0, 6)


@pytest.mark.parametrize("end", [0, 1])
def test_the_magic_of_what_follows_does_not_count(end: int) -> None:
    assert verify_checksum(b"\x0e\x01\x00\x00\x00\x01", 0, end)


def test_required_metadata_is_required_in_both_directions() -> None:
    with pytest.raises(LocalError):
        encode_entry(pb.MessageMetadata(producer_name="p"), b"")
    partial = pb.MessageMetadata(producer_name="p").SerializePartialToString()
    with pytest.raises(BadMetadata):
        parse_metadata(len(partial).to_bytes(4, "big") + partial)


def test_metadata_cut_short_is_refused_at_every_byte() -> None:
    entry = with_broker_metadata(encode_entry(METADATA, b""))
    for size in range(len(entry)):
        with pytest.raises(BadMetadata):
            parse_metadata(entry[:size])


def test_metadata_that_claims_a_byte_too_many_is_refused() -> None:
    encoded = METADATA.SerializeToString()
    with pytest.raises(BadMetadata):
        parse_metadata((len(encoded) + 1).to_bytes(4, "big") + encoded)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("prefixed", [True, False])
def test_the_due_time_of_a_delayed_entry(checksum: bool, prefixed: bool) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)
    metadata.deliver_at_time = 1_700_000_000_123
    entry = encode_entry(metadata, b"x" * 5000, checksum)
    found = deliver_at_ms(with_broker_metadata(entry) if prefixed else entry)
    assert found == 1_700_000_000_123


times = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**42) | st.integers(2**34, 2**36)


@given(metadatas, times, st.binary(max_size=30), st.booleans(), st.integers(0, 2**32 - 1))
def test_when_an_entry_is_due_is_read_as_the_generated_class_reads_it(
    metadata: pb.MessageMetadata, at_ms: int, payload: bytes, checksum: bool, size: int
) -> None:
    metadata.deliver_at_time = at_ms
    metadata.uncompressed_size = size
    found = deliver_at_ms(encode_entry(metadata, payload, checksum))
    assert found == (at_ms if at_ms > 0 else None)


def test_an_entry_without_a_delay_has_no_due_time() -> None:
    tag = b"\x98\x01"
    assert deliver_at_ms(encode_entry(METADATA, b"")) is None
    assert deliver_at_ms(encode_entry(METADATA, b"a payload with " + tag)) is None
    assert deliver_at_ms(encode_entry(METADATA, tag, checksum=False)) is None
    named = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    named.partition_key = "\u0018\x01"
    named.ordering_key = tag
    assert deliver_at_ms(encode_entry(named, b"")) is None


@pytest.mark.parametrize("at_ms", [0, -1])
def test_a_time_that_is_none_delays_nothing(at_ms: int) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)
    metadata.deliver_at_time = at_ms
    assert deliver_at_ms(encode_entry(metadata, b"")) is None


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x0e\x01", b"\x0e\x02", b"\x00\x00\x00"]))
def test_noise_is_an_entry_or_refused(noise: bytes, head: bytes) -> None:
    entry = head + noise
    verify_checksum(entry, 0, len(entry))
    try:
        metadata, offset = parse_metadata(entry)
    except BadMetadata:
        return
    assert metadata.IsInitialized()
    assert 4 <= offset <= len(entry)
