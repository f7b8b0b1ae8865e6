"""Chunks are found wherever the metadata marks them; other entries are not parsed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.chunks import Chunk, chunk_of, chunks_among
from magnetar_proto.entries import BROKER_MAGIC, SIZE, encode_entry


def entry(checksum: bool = True, payload: bytes = b"hello", **fields: Any) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, **fields)
    return encode_entry(metadata, payload, checksum)


CHUNK: dict[str, Any] = {"uuid": "p-1", "num_chunks_from_msg": 3, "total_chunk_msg_size": 30}
FIRST = Chunk(b"p-1", 0, 3)


def test_a_chunk_names_its_message_and_its_place_in_it() -> None:
    last = chunk_of(entry(**CHUNK, chunk_id=2))
    assert last == Chunk(b"p-1", 2, 3)
    assert last.is_last
    first = chunk_of(entry(**CHUNK))
    assert first == FIRST
    assert not first.is_last


def test_a_message_of_one_chunk_or_without_a_name_is_none() -> None:
    assert chunk_of(entry(uuid="p-1", num_chunks_from_msg=1, chunk_id=0)) is None
    assert chunk_of(entry(num_chunks_from_msg=2, chunk_id=0)) is None


def test_the_name_need_not_be_utf_8() -> None:
    renamed = entry(**CHUNK).replace(b"p-1", b"\xff\xfe1")
    assert chunk_of(renamed) == Chunk(b"\xff\xfe1", 0, 3)


def test_only_chunks_are_found() -> None:
    chunk, usual = entry(**CHUNK), entry(payload=bytes(9000))
    none_here = entry(uuid="p-1", num_chunks_from_msg=1)
    assert chunks_among([usual, chunk, usual, chunk]) == {1: FIRST, 3: FIRST}
    assert chunks_among([chunk, b"", none_here, b"\xd8\x01", chunk]) == {0: FIRST, 4: FIRST}
    for size in (0, 2000):
        assert not chunks_among([entry(payload=bytes(size) + b"\xd8\x01")] * 3)


def test_broken_metadata_is_no_chunk() -> None:
    assert chunk_of(b"") is None
    assert chunk_of(entry(**CHUNK)[:20]) is None
    assert not chunks_among([b""])


@given(
    checksum=st.booleans(),
    with_broker_metadata=st.booleans(),
    size=st.integers(0, 9000),
    property_size=st.integers(0, 9000),
)
def test_no_chunk_is_missed(
    checksum: bool, with_broker_metadata: bool, size: int, property_size: int
) -> None:
    properties = [pb.KeyValue(key="k", value="v" * property_size)]
    one = entry(checksum, bytes(size), properties=properties, **CHUNK)
    if with_broker_metadata:
        one = BROKER_MAGIC + SIZE.pack(3) + b"abc" + one
    assert chunk_of(one) == FIRST
    assert chunks_among([one]) == {0: FIRST}
