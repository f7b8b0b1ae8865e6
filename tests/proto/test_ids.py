"""Message ids: their order, their signs, their bitsets."""

import pickle
from copy import copy

from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import (
    EARLIEST,
    LATEST,
    ChunkedMessageId,
    MessageId,
    ack_set_to_mask,
    mask_to_ack_set,
)

i64 = st.integers(-(2**63), 2**63 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)


@given(i64, i64, i32, i32)
def test_an_id_survives_the_wire(ledger: int, entry: int, index: int, partition: int) -> None:
    message_id = MessageId(ledger, entry, index, partition)
    encoded = message_id.to_pb().SerializeToString()
    assert MessageId.from_pb(pb.MessageIdData.FromString(encoded)) == message_id


@given(i64, i64, i64, i64, i32)
def test_the_first_chunk_survives_the_wire_and_pickling(
    first_ledger: int, first: int, ledger: int, last: int, partition: int
) -> None:
    message_id = ChunkedMessageId(ledger, last, partition, (first_ledger, first))
    found = MessageId.from_pb(pb.MessageIdData.FromString(message_id.to_pb().SerializeToString()))
    for one in (message_id, found, pickle.loads(pickle.dumps(message_id)), copy(message_id)):
        assert one == MessageId(ledger, last, -1, partition)
        assert one.begins_at == (first_ledger, first)
    assert MessageId(ledger, last).begins_at == (ledger, last)


def test_minus_one_is_left_out_or_unsigned() -> None:
    encoded = EARLIEST.to_pb()
    assert encoded.ledgerId == encoded.entryId == 2**64 - 1
    assert not encoded.HasField("batch_index")
    assert not encoded.HasField("partition")


def test_order_is_ledger_then_entry_then_batch_index() -> None:
    ordered = [
        EARLIEST,
        MessageId(3, -1),
        MessageId(3, 0),
        MessageId(3, 1, 0),
        MessageId(3, 1, 1),
        MessageId(3, 2),
        MessageId(4, 0),
        LATEST,
    ]
    shuffled = ordered[1::2] + ordered[::2]
    assert sorted(shuffled) == ordered


def test_latest_goes_by_its_ledger() -> None:
    assert LATEST.is_latest
    assert MessageId(2**63 - 1, 2**48 - 1).is_latest
    assert not MessageId(5, 2**63 - 1).is_latest
    assert EARLIEST.is_earliest
    assert not MessageId(3, -1).is_earliest


@given(st.integers(0, 2**300))
def test_a_mask_survives_as_signed_words(mask: int) -> None:
    words = mask_to_ack_set(mask)
    encoded = pb.MessageIdData(ledgerId=1, entryId=2, ack_set=words).SerializeToString()
    assert ack_set_to_mask(pb.MessageIdData.FromString(encoded).ack_set) == mask


def test_the_lowest_word_comes_first() -> None:
    assert mask_to_ack_set(1 << 64 | 2) == (2, 1)
    assert mask_to_ack_set(1 << 63) == (-(2**63),)
    assert ack_set_to_mask((2**64 - 1, 1)) == 2**65 - 1


def test_nothing_left_is_an_empty_set() -> None:
    assert mask_to_ack_set(0) == ()
    assert ack_set_to_mask(()) == 0


def test_the_text_is_that_of_pulsars_tools() -> None:
    assert MessageId(3, 14).text() == "3:14:-1"
    assert MessageId(3, 14, 1, 5).text() == "3:14:5:1"
