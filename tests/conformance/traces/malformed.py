"""Bytes that are no frame, frames that are no command, and commands that lack what they need."""

from struct import pack

from conformance.differences import Difference, differs
from conformance.trace import Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.entries import encode_entry
from magnetar_proto.frames import encode_frame
from raw_client import metadata, send_frame, send_frame_of

NO_MESSAGE = Difference(
    "a SEND whose payload is not a message",
    "is never answered",
    "the connection is closed",
)
Kind = pb.BaseCommand


def _ends_the_connection(t: Trace, described: str, data: bytes) -> None:
    a = t.connects()
    a.sends_bytes(described, data)
    a.is_closed()


def _frame(command: pb.BaseCommand) -> bytes:
    return encode_frame(command.SerializePartialToString())


def http_before_the_handshake(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_bytes("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    a.is_closed()


def http_after_the_handshake(t: Trace) -> None:
    _ends_the_connection(t, "an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def a_frame_of_four_gigabytes(t: Trace) -> None:
    _ends_the_connection(t, "a frame of 0xffffffff bytes", pack(">II", 0xFFFFFFFF, 8) + b"x" * 8)


def a_frame_of_two_gigabytes(t: Trace) -> None:
    _ends_the_connection(t, "a frame of 0x7fffffff bytes", pack(">II", 0x7FFFFFFF, 8) + b"x" * 8)


def a_frame_just_above_the_limit(t: Trace) -> None:
    total = 5 * 1024 * 1024 + 10 * 1024 - 3
    _ends_the_connection(t, "a frame of one byte more than allowed", pack(">II", total, 8))


def a_command_longer_than_its_frame(t: Trace) -> None:
    frame = encode(pb.CommandPing())
    _ends_the_connection(
        t, "PING with a length field of 100 bytes", frame[:4] + pack(">I", 100) + frame[8:]
    )


def a_command_that_is_garbage(t: Trace) -> None:
    _ends_the_connection(t, "a command of 0xff bytes", encode_frame(b"\xff" * 16))


def a_command_that_stops_in_the_middle(t: Trace) -> None:
    command = Kind(type=Kind.LOOKUP, lookupTopic=pb.CommandLookupTopic(topic="t", request_id=1))
    data = command.SerializeToString()
    _ends_the_connection(t, "half a LOOKUP", encode_frame(data[: len(data) // 2]))


def a_producer_without_its_producer_command(t: Trace) -> None:
    _ends_the_connection(t, "the type PRODUCER alone", _frame(Kind(type=Kind.PRODUCER)))


def a_send_without_its_send_command(t: Trace) -> None:
    _ends_the_connection(t, "the type SEND alone", _frame(Kind(type=Kind.SEND)))


def a_flow_without_its_flow_command(t: Trace) -> None:
    _ends_the_connection(t, "the type FLOW alone", _frame(Kind(type=Kind.FLOW)))


def a_lookup_without_its_lookup_command(t: Trace) -> None:
    _ends_the_connection(t, "the type LOOKUP alone", _frame(Kind(type=Kind.LOOKUP)))


def a_producer_without_a_topic(t: Trace) -> None:
    command = Kind(type=Kind.PRODUCER, producer=pb.CommandProducer(producer_id=1, request_id=1))
    _ends_the_connection(t, "PRODUCER without a topic", _frame(command))


def a_consumer_without_a_subscription(t: Trace) -> None:
    subscribe = pb.CommandSubscribe(topic=t.topic, consumer_id=1, request_id=1, subType="Shared")
    _ends_the_connection(
        t,
        "SUBSCRIBE without a subscription",
        _frame(Kind(type=Kind.SUBSCRIBE, subscribe=subscribe)),
    )


def a_request_without_a_request_id(t: Trace) -> None:
    command = Kind(type=Kind.LOOKUP, lookupTopic=pb.CommandLookupTopic(topic=t.topic))
    _ends_the_connection(t, "LOOKUP without a request id", _frame(command))


def an_answer_as_if_we_were_the_broker(t: Trace) -> None:
    _ends_the_connection(t, "SUCCESS", encode(pb.CommandSuccess(request_id=1)))


def a_receipt_as_if_we_were_the_broker(t: Trace) -> None:
    receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=1)
    _ends_the_connection(t, "SEND_RECEIPT", encode(receipt))


def a_message_as_if_we_were_the_broker(t: Trace) -> None:
    message = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
    command = Kind(type=Kind.MESSAGE, message=message).SerializeToString()
    entry = encode_entry(metadata(0), b"x")
    _ends_the_connection(t, "MESSAGE", encode_frame(command, entry))


def a_send_without_a_message(t: Trace) -> None:
    a = t.publisher()
    a.sends_bytes("SEND without a message", send_frame_of(b"", 0))
    a.is_closed()


def a_send_of_half_a_checksum(t: Trace) -> None:
    a = t.publisher()
    a.sends_bytes("SEND of a magic number and two bytes", send_frame_of(b"\x0e\x01\x00\x00", 0))
    a.is_closed()


@differs(NO_MESSAGE)
def a_send_of_garbage(t: Trace) -> None:
    a = t.publisher()
    a.sends_bytes("SEND of 0xff bytes", send_frame_of(b"\xff" * 40, 0))
    a.receives_rest()


@differs(NO_MESSAGE)
def a_message_whose_metadata_is_longer_than_it(t: Trace) -> None:
    a = t.publisher()
    a.sends_bytes(
        "SEND with metadata of 1000 bytes in 20", send_frame_of(pack(">I", 1000) + b"x" * 20, 0)
    )
    a.receives_rest()


@differs(NO_MESSAGE)
def a_message_without_metadata(t: Trace) -> None:
    a = t.publisher()
    a.sends_bytes("SEND with empty metadata", send_frame_of(pack(">I", 0) + b"payload", 0))
    a.receives_rest()


@differs(NO_MESSAGE)
def metadata_without_a_producer_name(t: Trace) -> None:
    a = t.publisher()
    partial = pb.MessageMetadata(sequence_id=0, publish_time=1).SerializePartialToString()
    entry = pack(">I", len(partial)) + partial + b"payload"
    a.sends_bytes("SEND with metadata without a producer name", send_frame_of(entry, 0))
    a.receives_rest()


def a_payload_behind_a_command_that_has_none(t: Trace) -> None:
    a = t.connects()
    command = Kind(type=Kind.PING, ping=pb.CommandPing()).SerializeToString()
    a.sends_bytes("PING with 20 bytes behind it", encode_frame(command, b"x" * 20))
    a.awaits(Kind.PONG)


def a_command_with_unknown_fields(t: Trace) -> None:
    a = t.connects()
    known = Kind(type=Kind.PING, ping=pb.CommandPing()).SerializeToString()
    a.sends_bytes("PING with a field 900", encode_frame(known + b"\xa2\x38\x03abc"))
    a.awaits(Kind.PONG)


def frames_in_pieces(t: Trace) -> None:
    a = t.publisher()
    data = send_frame(0, b"x") + send_frame(1, b"y")
    a.sends_bytes("the first 3 bytes of two SENDs", data[:3])
    a.sends_bytes("17 bytes more", data[3:20])
    a.sends_bytes("the rest", data[20:])
    a.awaits(Kind.SEND_RECEIPT, 2)
