"""Received entries: what they hold, and how damage is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.client_entries import TOPIC, entry_of, stored
from magnetar.base.errors import Unreadable
from magnetar.messages import Entry, Outgoing, decoded_key, plain_message
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import encode_broker_metadata
from magnetar_proto.entries import encode_entry
from magnetar_proto.ids import MessageId


def test_ids_carry_the_place_in_the_batch() -> None:
    batch = entry_of([b"a", b"b"], position=(3, 4, 2)).messages()
    assert [message.id for message in batch] == [MessageId(3, 4, 0, 2), MessageId(3, 4, 1, 2)]
    [single] = entry_of([b"a"]).messages()
    assert single.id == MessageId(3, 4, -1, -1)
    assert single.topic == TOPIC


def test_messages_acked_before_are_left_out() -> None:
    entry = entry_of([b"a", b"b", b"c", b"d"], ack_set=(0b1010,))
    assert [(m.value, m.batch_index) for m in entry.messages()] == [(b"b", 1), (b"d", 3)]
    assert entry.permits == 2


def test_an_ack_set_may_reach_beyond_the_batch() -> None:
    entry = entry_of([b"a", b"b"], ack_set=(2**64 - 1, 2**64 - 1))
    assert entry.permits == 2
    assert len(entry.messages()) == 2


def test_a_flipped_bit_is_noticed() -> None:
    data = bytearray(stored([b"value"]))
    data[-1] ^= 1
    with pytest.raises(Unreadable, match="entry 1:2 of topic is damaged"):
        Entry("topic", (1, 2, -1), bytes(data))


def test_metadata_that_is_none() -> None:
    with pytest.raises(Unreadable, match="no readable metadata"):
        Entry("topic", (1, 2, -1), b"\xff\xff")


def made(metadata: pb.MessageMetadata, payload: bytes) -> Entry:
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = "p", 0, 0
    return Entry("topic", (1, 2, -1), encode_entry(metadata, payload))


@pytest.mark.parametrize(
    ("metadata", "payload", "why"),
    [
        (pb.MessageMetadata(num_messages_in_batch=2), b"\x00", "is not a batch"),
        (
            pb.MessageMetadata(compression=pb.LZ4, uncompressed_size=10),
            b"nothing",
            "cannot be decompressed",
        ),
        (
            pb.MessageMetadata(encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]),
            b"secret",
            "is encrypted",
        ),
        (
            pb.MessageMetadata(uuid="u", num_chunks_from_msg=2, chunk_id=0),
            b"half",
            "part of a chunked message",
        ),
    ],
)
def test_payloads_that_cannot_be_read(
    metadata: pb.MessageMetadata, payload: bytes, why: str
) -> None:
    entry = made(metadata, payload)
    with pytest.raises(Unreadable, match=f"entry 1:2 of topic .*{why}"):
        entry.messages()


def test_compacted_messages_are_left_out() -> None:
    kept = pb.SingleMessageMetadata(payload_size=1)
    gone = pb.SingleMessageMetadata(payload_size=0, compacted_out=True)
    body = b"".join(
        len(about.SerializeToString()).to_bytes(4, "big") + about.SerializeToString() + value
        for about, value in ((gone, b""), (kept, b"x"))
    )
    entry = made(pb.MessageMetadata(num_messages_in_batch=2), body)
    assert [(message.value, message.batch_index) for message in entry.messages()] == [(b"x", 1)]


def test_null_is_not_empty() -> None:
    [null] = made(pb.MessageMetadata(null_value=True), b"").messages()
    [empty] = made(pb.MessageMetadata(), b"").messages()
    assert null.is_null
    assert not empty.is_null


@pytest.mark.parametrize("key", ["a", "not in ASCII: é"])
def test_a_key_that_is_not_base64_as_it_says(key: str) -> None:
    metadata = pb.MessageMetadata(partition_key=key, partition_key_b64_encoded=True)
    assert decoded_key(metadata) == key


def test_byte_keys_come_back_as_bytes() -> None:
    [message] = entry_of([Outgoing(b"", key=b"\x00\xff")]).messages()
    assert message.key == b"\x00\xff"


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "num_messages_in_batch": st.integers(1, 3),
        "num_chunks_from_msg": st.integers(1, 3),
        "compression": st.sampled_from((pb.NONE, pb.LZ4)),
        "uncompressed_size": st.sampled_from((0, 5, 6)),
        "partition_key": st.text(max_size=3),
        "null_value": st.booleans(),
        "encryption_keys": st.just([pb.EncryptionKeys(key="k", value=b"v")]),
    },
)


@given(FIELDS, st.booleans(), st.integers(0, 30))
def test_a_plain_message_is_what_its_entry_says(
    fields: dict[str, Any], checksum: bool, cut: int
) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, **fields)
    whole = encode_entry(metadata, b"value", checksum)
    data = whole[: len(whole) - cut] if cut else whole
    found = plain_message("source", TOPIC, 3, 4, 5, data)
    if found is None:
        assert cut or not checksum or fields.keys() - {"partition_key", "null_value"}
        return
    entry = Entry(TOPIC, (3, 4, 5), data, source="source")
    [message] = entry.messages()
    for name in Entry.__slots__:
        assert getattr(found.entry, name) == getattr(entry, name)
    assert (found.data, found.batch_index, found.key) == (
        message.data, message.batch_index, message.key,
    )  # fmt: skip
    assert not entry.is_encrypted and not entry.is_chunk and entry.permits == 1


@given(st.data())
def test_a_damaged_message_is_not_plain(data: st.DataObject) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    damaged = bytearray(encode_entry(metadata, b"value"))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    assert plain_message("source", TOPIC, 3, 4, 5, bytes(damaged)) is None


# What the broker has added ------------------------------------------------------------------


ADDED = encode_broker_metadata(1_800_000_000_000, [7])[0]


def test_the_index_of_a_batch_is_that_of_its_last_message() -> None:
    entry = Entry(TOPIC, (3, 4, -1), ADDED + stored([b"a", b"b", b"c"]))
    assert [(one.data, one.index) for one in entry.messages()] == [(b"a", 5), (b"b", 6), (b"c", 7)]
    acked = Entry(TOPIC, (3, 4, -1), ADDED + stored([b"a", b"b", b"c"]), ack_set=(0b100,))
    assert [(one.data, one.index) for one in acked.messages()] == [(b"c", 7)]


def test_a_plain_message_has_what_the_broker_has_added() -> None:
    found = plain_message("source", TOPIC, 3, 4, 5, ADDED + stored([b"a"]))
    assert found is not None and found.data == b"a"
    assert (found.index, found.broker_publish_time_ms) == (7, 1_800_000_000_000)
    assert (found.publish_time_ms, found.entry.stored_time_ms) == (1234, 1_800_000_000_000)


def test_nothing_is_made_up_if_the_broker_has_added_nothing() -> None:
    [message] = entry_of([b"a"]).messages()
    assert (message.index, message.broker_publish_time_ms) == (None, None)
    assert message.entry.stored_time_ms == message.publish_time_ms == 1234


def test_what_the_broker_has_added_stays_when_an_entry_is_decrypted() -> None:
    entry = Entry(TOPIC, (3, 4, -1), ADDED + stored([b"sealed"]))
    entry.decrypted(b"open")
    [message] = entry.messages()
    assert (message.data, message.index, entry.size) == (b"open", 7, 4)


def test_a_damaged_message_behind_it_is_noticed() -> None:
    data = bytearray(ADDED + stored([b"value"]))
    data[-1] ^= 1
    assert plain_message("source", TOPIC, 3, 4, 5, bytes(data)) is None
    with pytest.raises(Unreadable, match="is damaged"):
        Entry(TOPIC, (3, 4, -1), bytes(data))


@given(st.binary(max_size=30))
def test_bytes_that_only_begin_like_it_are_no_message(data: bytes) -> None:
    assert plain_message("source", TOPIC, 3, 4, 5, b"\x0e\x02" + data) is None
