"""The key of an entry, whatever its metadata looks like."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry, encode_head
from magnetar_proto.sticky_key import NO_KEY, sticky_key


def entry_of(checksum: bool = True, **fields: Any) -> bytes:
    fields = {"producer_name": "p", "sequence_id": 7, "publish_time": 1_700_000_000_000, **fields}
    return encode_entry(pb.MessageMetadata(**fields), b"payload", checksum)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, b"p-7"),
        ({"partition_key": "k"}, b"k"),
        ({"partition_key": ""}, b""),
        ({"partition_key": "k" * 200}, b"k" * 200),
        ({"partition_key": "\u00e9"}, b"\xc3\xa9"),
        ({"partition_key": "k", "ordering_key": b"o"}, b"o"),
        ({"partition_key": "k", "ordering_key": b""}, b""),
        ({"ordering_key": b"\xff\x00"}, b"\xff\x00"),
        ({"partition_key": "AP8=", "partition_key_b64_encoded": True}, b"\x00\xff"),
        ({"partition_key": "AP8=", "partition_key_b64_encoded": False}, b"AP8="),
        ({"partition_key": "no base64!", "partition_key_b64_encoded": True}, NO_KEY),
        ({"partition_key": "\u00e9", "partition_key_b64_encoded": True}, NO_KEY),
        ({"partition_key": "k", "num_messages_in_batch": 10}, b"k"),
        ({"producer_name": "p" * 200, "partition_key": "k"}, b"k"),
    ],
)
def test_which_key_counts(fields: dict[str, Any], key: bytes) -> None:
    assert sticky_key(entry_of(**fields)) == key
    assert sticky_key(entry_of(checksum=False, **fields)) == key


@pytest.mark.parametrize("before", [b"", b"\x22\x06\x0a\x01a\x12\x01b"])
def test_a_key_need_not_be_utf_8(before: bytes) -> None:
    metadata = b"\x0a\x01p\x10\x07\x18\x01" + before + b"\x32\x02\xff\xfe"
    assert sticky_key(encode_head(metadata, b"x") + b"x") == b"\xff\xfe"


def test_a_producers_name_need_not_be_utf_8() -> None:
    assert (
        sticky_key(encode_head(b"\x0a\x02\xff\xfe\x10\x07\x18\x01", b"x") + b"x") == b"\xff\xfe-7"
    )


def test_metadata_that_cannot_be_read_has_no_key() -> None:
    whole = entry_of(partition_key="k")
    for size in range(len(whole) - len(b"payload")):
        assert sticky_key(whole[:size]) == NO_KEY
    assert sticky_key(b"") == NO_KEY


text = st.text(st.characters(codec="utf-8"), max_size=140)


@given(
    name=text,
    sequence_id=st.integers(0, 2**64 - 1),
    publish_time=st.integers(0, 2**64 - 1),
    properties=st.dictionaries(text, text, max_size=2),
    key=st.none() | text,
    raw=st.none() | st.binary(max_size=40),
    ordering_key=st.none() | st.binary(max_size=40),
    event_time=st.integers(0, 2**64 - 1),
)
def test_reading_by_hand_is_reading_with_the_generated_class(
    name: str,
    sequence_id: int,
    publish_time: int,
    properties: dict[str, str],
    key: str | None,
    raw: bytes | None,
    ordering_key: bytes | None,
    event_time: int,
) -> None:
    metadata = pb.MessageMetadata(
        producer_name=name,
        sequence_id=sequence_id,
        publish_time=publish_time,
        properties=[pb.KeyValue(key=k, value=v) for k, v in properties.items()],
        event_time=event_time,
    )
    expected = f"{name}-{sequence_id}".encode()
    if key is not None:
        metadata.partition_key, expected = key, key.encode()
    if raw is not None:
        metadata.partition_key, expected = b64encode(raw).decode(), raw
        metadata.partition_key_b64_encoded = True
    if ordering_key is not None:
        metadata.ordering_key = expected = ordering_key
    assert sticky_key(encode_entry(metadata, b"x")) == expected
