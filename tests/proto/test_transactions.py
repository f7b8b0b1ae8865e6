"""Transactions in the metadata of entries, and markers."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry, parse_metadata, verify_checksum
from magnetar_proto.sends import decode_send, decode_transaction_send
from magnetar_proto.transactions import (
    ABORT_MARKER,
    COMMIT_MARKER,
    PRODUCER,
    Membership,
    encode_marker,
    may_have_transaction,
    membership_of,
    with_transaction,
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


@given(BITS, BITS, st.binary(max_size=20), st.booleans())
def test_a_transaction_that_only_the_command_names_is_added(
    most: int, least: int, payload: bytes, checksum: bool
) -> None:
    plain = entry(payload, checksum, num_messages_in_batch=3)
    added = with_transaction(plain, most, least)
    assert membership_of(added) == Membership(most, least, 0)
    assert verify_checksum(added, 0, len(added))
    metadata, at = parse_metadata(added)
    metadata.ClearField("txnid_most_bits")
    metadata.ClearField("txnid_least_bits")
    assert (metadata, added[at:]) == (parse_metadata(plain)[0], payload)
    assert with_transaction(added, most, least) is added


@given(st.binary(max_size=60))
def test_what_is_no_entry_has_none(data: bytes) -> None:
    assert membership_of(data) is None or len(data) > 8


SENDS = st.fixed_dictionaries(
    {"producer_id": BITS, "sequence_id": BITS},
    optional={
        "num_messages": st.integers(-(1 << 31), (1 << 31) - 1),
        "highest_sequence_id": BITS,
        "txnid_least_bits": BITS,
        "txnid_most_bits": BITS,
        "is_chunk": st.booleans(),
        "marker": st.booleans(),
    },
)


@given(SENDS)
def test_a_send_in_a_transaction_is_read_as_the_generated_class_reads_it(
    fields: dict[str, int],
) -> None:
    send = pb.CommandSend(**fields)  # type: ignore[arg-type]
    command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=send)
    data = b"--" + command.SerializeToString()
    found = decode_transaction_send(data, 2, len(data))
    names = {"txnid_least_bits", "txnid_most_bits"}
    usual = len(send.SerializeToString()) < 128 and send.num_messages >= 0
    if usual and names <= fields.keys() and "marker" not in fields:
        assert found is not None
    if found is not None:
        messages = 0 if send.is_chunk else send.num_messages
        assert found == (
            send.producer_id, send.sequence_id, messages, send.highest_sequence_id,
            send.txnid_most_bits, send.txnid_least_bits,
        )  # fmt: skip
        assert not send.HasField("marker")
        assert decode_send(data, 2, len(data)) is None


@given(st.binary(max_size=40))
def test_what_is_no_send_is_left_to_the_generated_class(data: bytes) -> None:
    found = decode_transaction_send(data, 0, len(data))
    if found is not None:
        send = pb.BaseCommand.FromString(data).send
        assert (found.most, found.least) == (send.txnid_most_bits, send.txnid_least_bits)
