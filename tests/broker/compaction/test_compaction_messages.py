"""What compaction sees of entries, and what it leaves of them."""

import pytest

from fakes.keyed import Message, batch_entry, messages_in, single_entry
from magnetar_broker.compaction.message_keys import Reader, survivor
from magnetar_broker.compaction.topic_compaction import last_index
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import encode_broker_metadata
from magnetar_proto.entries import encode_entry, parse_metadata
from magnetar_storage.compacted.latest_keys import Bits

KINDS = (pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY)


def look(entry: bytes, count: int = 1, keyless: bool = False) -> tuple[list[tuple[int, bool]], int]:
    """Number and whether it deletes of all messages with a key, and who survives at once."""
    survivors = Bits()
    found = Reader(survivors, keyless).look(entry, 10, count)
    return [(value >> 1, bool(value & 1)) for _, value in found], survivors.get(10, count)


def test_a_message_with_a_key_is_found_and_an_empty_one_deletes_its_key() -> None:
    assert look(single_entry("k", b"v")) == ([(10, False)], 0)
    assert look(single_entry("k", b"")) == ([(10, True)], 0)
    assert look(single_entry("k", b"", null_value=True)) == ([(10, True)], 0)


def test_a_message_without_key_is_retained_if_that_is_wanted() -> None:
    assert look(single_entry(None, b"v")) == ([], 0)
    assert look(single_entry(None, b"v"), keyless=True) == ([], 1)


def test_markers_are_dropped() -> None:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, marker_type=21, partition_key="k"
    )
    assert look(encode_entry(metadata, b"x"), keyless=True) == ([], 0)


def test_what_cannot_be_read_stays() -> None:
    assert look(b"nonsense", 3) == ([], 0b111)
    damaged = single_entry("k", b"v", num_messages_in_batch=2)
    assert look(damaged, 2) == ([], 0b11)
    other_count = batch_entry([Message("a", b"1"), Message("b", b"2")], pb.NONE)
    assert look(other_count, 1) == ([], 0b1)
    assert survivor(other_count, 0b1, 1) == other_count
    left = survivor(damaged, 0b11, 2)
    assert left[parse_metadata(left)[1] :] == b"v"
    assert survivor(b"nonsense", 0b111, 3) == b"nonsense"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_of_a_batch_keeps_its_place(kind: int) -> None:
    messages = [Message("a", b"1"), Message(None, b"2"), Message("b", b""), Message("a", b"4")]
    entry = batch_entry(messages, kind)
    assert look(entry, 4) == ([(10, False), (12, True), (13, False)], 0)
    assert look(entry, 4, keyless=True)[1] == 0b0010
    left = survivor(entry, 0b1000, 4)
    assert messages_in(left) == [None, None, None, Message("a", b"4")]
    metadata, _ = parse_metadata(left)
    assert metadata.num_messages_in_batch == 4
    assert metadata.compression == kind
    assert list(metadata.compacted_batch_indexes) == [3]
    assert last_index(left) == 3
    assert look(left, 4, keyless=True) == ([(13, False)], 0), "what is out stays out"


def test_what_the_broker_has_added_stays_with_what_is_left() -> None:
    [added] = encode_broker_metadata(5, [7])
    entry = batch_entry([Message("a", b"1"), Message("b", b"2")], pb.NONE)
    for bits in (0b01, 0b11):
        assert survivor(added + entry, bits, 2) == added + survivor(entry, bits, 2)
    assert look(added + entry, 2) == look(entry, 2)


def test_an_encrypted_batch_is_one_message() -> None:
    entry = single_entry("k", b"secret", num_messages_in_batch=3)
    metadata, at = parse_metadata(entry)
    metadata.encryption_keys.add(key="key", value=b"value")
    encrypted = encode_entry(metadata, entry[at:])
    assert look(encrypted, 3) == ([(10, False)], 0)
    assert survivor(encrypted, 0b001, 3) == encrypted


def chunk(number: int, of: int, uuid: str = "u") -> bytes:
    return single_entry("k", b"c%d" % number, uuid=uuid, num_chunks_from_msg=of, chunk_id=number)


def test_chunks_stay_with_the_last_one_of_their_message() -> None:
    survivors = Bits()
    reader = Reader(survivors, False)
    assert reader.look(chunk(0, 3), 0, 1) == []
    assert reader.look(chunk(0, 2, "other"), 1, 1) == []
    assert reader.look(chunk(1, 3), 2, 1) == []
    ((_, last),) = reader.look(chunk(2, 3), 3, 1)
    assert reader.look(chunk(1, 2, "without a beginning"), 4, 1) == []
    survivors.add(last >> 1)
    reader.keep_chunks()
    assert survivors.get(0, 8) == 0b1111, "the message, and the beginning of one to come"


def test_chunks_of_a_message_that_is_not_the_last_of_its_key_go() -> None:
    survivors = Bits()
    reader = Reader(survivors, False)
    reader.look(chunk(0, 2), 0, 1)
    reader.look(chunk(1, 2), 1, 1)
    reader.keep_chunks()
    assert survivors.get(0, 8) == 0
