"""A scanned batch is a decoded batch, by column."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import decode_batch, encode_batch
from magnetar_proto.batch_scan import scan_batch
from magnetar_proto.errors import BadBatch
from proto.test_batch import batches as described

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
usual = st.builds(
    pb.SingleMessageMetadata,
    partition_key=st.none() | text,
    event_time=st.none() | st.integers(0, 2**64 - 1),
    sequence_id=st.none() | st.integers(0, 2**64 - 1),
    partition_key_b64_encoded=st.none() | st.booleans(),
    ordering_key=st.none() | st.binary(max_size=5),
    compacted_out=st.none() | st.booleans(),
    null_value=st.none() | st.booleans(),
)
batches = described | st.lists(st.tuples(usual, st.binary(max_size=300)), max_size=5)
Row = tuple[bytes, str, int, int, pb.SingleMessageMetadata | None]


def rows(body: bytes, count: int) -> list[Row]:
    scan = scan_batch(body, count)
    found = []
    for index, value in enumerate(scan.values):
        other = scan.others.get(index)
        key = (scan.keys[index] or b"").decode() if scan.keys else ""
        time = scan.event_times_ms[index] if scan.event_times_ms else 0
        sequence_id = scan.sequence_ids[index] if scan.sequence_ids else -1
        if other is not None:
            assert (key, time) == ("", 0)
            key, time = other.partition_key, other.event_time
        found.append((value, key, time, sequence_id, other))
    return found


@given(batches)
def test_a_scan_is_what_decoding_finds(
    messages: list[tuple[pb.SingleMessageMetadata, bytes]],
) -> None:
    body = encode_batch(messages)
    for (about, value), row in zip(messages, rows(body, len(messages)), strict=True):
        sequence_id = about.sequence_id if about.HasField("sequence_id") else -1
        assert row[:4] == (value, about.partition_key, about.event_time, sequence_id)
        is_rare = about.properties or any(
            about.HasField(name)
            for name in ("partition_key_b64_encoded", "ordering_key", "compacted_out", "null_value")
        )
        assert row[4] == about if is_rare else row[4] in (None, about)


@given(st.binary(max_size=60), st.integers(-1, 4))
def test_noise_is_refused_as_decoding_refuses_it(noise: bytes, count: int) -> None:
    def outcome(decode: Callable[[bytes, int], object]) -> object:
        try:
            return decode(noise, count)
        except BadBatch:
            return BadBatch

    decoded = outcome(lambda body, count: [value for _, value in decode_batch(body, count)])
    assert outcome(lambda body, count: scan_batch(body, count).values) == decoded


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_batch_cut_short_is_refused(cut: int) -> None:
    body = encode_batch([(pb.SingleMessageMetadata(partition_key="k"), b"one")] * 2)
    with pytest.raises(BadBatch):
        scan_batch(body[:-cut], 2)
