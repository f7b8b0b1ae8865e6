"""SEND: receipts, refusals, and what ends the connection."""

from conformance.differences import Difference, differs
from conformance.trace import NAMESPACE, Kind, Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata, send_frame


def _broken() -> bytes:
    entry = bytearray(encode_entry(metadata(5), b"payload"))
    entry[-1] ^= 1
    return bytes(entry)


def messages_one_by_one(t: Trace) -> None:
    a = t.publisher()
    a.publishes(3)


def messages_all_at_once(t: Trace) -> None:
    a = t.publisher()
    a.sends_bytes("three SENDs", b"".join(send_frame(number, b"x") for number in range(3)))
    a.awaits(Kind.SEND_RECEIPT, 3)


def sequence_ids_need_not_rise(t: Trace) -> None:
    a = t.publisher()
    for sequence_id in (7, 7, 3, 2**63 - 1, 0):
        a.sends(sequence_id)
        a.awaits_outcome()


def a_highest_sequence_id(t: Trace) -> None:
    a = t.publisher()
    a.sends(5, highest_sequence_id=9, num_messages=5)
    a.awaits_outcome()


def a_highest_sequence_id_equal_to_the_lowest(t: Trace) -> None:
    a = t.publisher()
    a.sends(5, highest_sequence_id=5)
    a.awaits_outcome()


def a_highest_sequence_id_below_the_lowest(t: Trace) -> None:
    a = t.publisher()
    a.sends(7, highest_sequence_id=3)
    a.awaits_outcome()


def a_batch(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three messages", sequence_id=4, highest_sequence_id=6)


def a_batch_of_no_messages(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, num_messages=0)
    a.awaits_outcome()


def a_chunk(t: Trace) -> None:
    a = t.publisher()
    fields = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 4}
    for chunk in range(2):
        entry = encode_entry(metadata(0, chunk_id=chunk, **fields), b"xy")
        a.sends_entry(0, entry, is_chunk=True)
        a.awaits_outcome()


def an_empty_message(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, b"")
    a.awaits_outcome()


def a_message_without_a_checksum(t: Trace) -> None:
    a = t.publisher()
    a.sends_entry(0, encode_entry(metadata(0), b"unchecked", checksum=False))
    a.awaits_outcome()


def a_wrong_checksum(t: Trace) -> None:
    a = t.publisher()
    a.sends_entry(5, _broken())
    a.awaits_outcome()
    a.publishes(1, first=6)


def a_wrong_checksum_with_a_highest_sequence_id(t: Trace) -> None:
    a = t.publisher()
    a.sends_entry(5, _broken(), highest_sequence_id=8)
    a.awaits_outcome()


def a_message_that_brings_its_id(t: Trace) -> None:
    a = t.publisher()
    a.sends(3, message_id=pb.MessageIdData(ledgerId=424242, entryId=1))
    a.awaits_outcome()
    a.publishes(1, first=4)


@differs(
    Difference(
        "a message that is a marker (of replication or a transaction)",
        "stored, never delivered",
        "SEND_ERROR NotAllowedError",
        on_purpose=False,
    )
)
def a_marker(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, marker=True)
    a.awaits_outcome()


def a_message_of_a_producer_that_never_was(t: Trace) -> None:
    a = t.connects()
    a.sends(0, producer_id=99)
    a.is_closed()


def a_message_of_a_producer_that_was_refused(t: Trace) -> None:
    a = t.connects()
    a.produces("a/b")
    a.sends(0)
    a.is_closed()


def a_message_of_a_closed_producer(t: Trace) -> None:
    a = t.publisher(1)
    a.closes_producer()
    a.sends(1)
    a.is_closed()


def closing_waits_for_receipts(t: Trace) -> None:
    a = t.publisher()
    a.sends(0)
    a.sends(1)
    closing = a.begins(pb.CommandCloseProducer(producer_id=1, request_id=0))
    a.awaits(Kind.SEND_RECEIPT, 2)
    a.is_answered(closing)


def a_message_of_the_largest_size(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, b"x" * (5 * 1024 * 1024 - 200))
    a.awaits_outcome()


def a_message_that_is_a_little_too_large(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, b"x" * (5 * 1024 * 1024 + 5_000))
    a.awaits_outcome()


def a_message_that_is_far_too_large(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, b"x" * (5 * 1024 * 1024 + 20_000))
    a.is_closed()


def producers_of_two_topics_on_one_connection(t: Trace) -> None:
    a = t.connects()
    a.produces(producer_id=1)
    a.produces(t.topic + "-2", producer_id=2)
    a.publishes(2, producer_id=1)
    a.publishes(2, producer_id=2)


def producers_of_one_topic(t: Trace) -> None:
    a, b = t.connects(), t.connects()
    a.produces()
    b.produces()
    a.publishes()
    b.publishes()
    a.publishes(1, first=1)


def a_non_persistent_message(t: Trace) -> None:
    a = t.connects()
    a.produces(f"non-persistent://{NAMESPACE}/{t.token}")
    a.publishes(2)


def a_non_persistent_batch(t: Trace) -> None:
    a = t.connects()
    a.produces(f"non-persistent://{NAMESPACE}/{t.token}")
    a.publishes_batch(3, b"three messages", sequence_id=4, highest_sequence_id=6)


def a_non_persistent_wrong_checksum(t: Trace) -> None:
    a = t.connects()
    a.produces(f"non-persistent://{NAMESPACE}/{t.token}")
    a.sends_entry(5, _broken())
    a.awaits_outcome()


def a_message_that_should_come_later(t: Trace) -> None:
    a = t.publisher()
    a.sends_entry(0, encode_entry(metadata(0, deliver_at_time=1 << 42), b"later"))
    a.awaits_outcome()
