"""Encoded commands to values: what the generated classes read, and what the codecs written by hand
read, are the same; and both refuse the same.

Input: which bytes stand behind the command in its buffer, then the command.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from fuzz import traffic
from fuzz.choices import signed
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto import commands
from magnetar_proto.acks import Ack, decode_ack, encode_ack
from magnetar_proto.commands import FIELDS
from magnetar_proto.deliveries import (
    Delivery,
    decode_flow,
    decode_message,
    encode_flow,
    encode_message,
)
from magnetar_proto.errors import BadCommand
from magnetar_proto.sends import decode_receipt, decode_send, encode_receipts

LONGEST: Final = 1024
MAX64: Final = (1 << 64) - 1
BEFORE: Final = b"\x08\x06\x32"
BEHIND: Final = (b"", bytes(16), b"\xff" * 16, b"\x01" * 16, b"\x10\x01\x18\x01\x30\x01" * 3)


def run(data: bytes) -> None:
    behind, command = BEHIND[data[0] % len(BEHIND)] if data else b"", data[1:]
    if len(command) < 2:
        return  # no frame has fewer
    buf, start = BEFORE + command + behind, len(BEFORE)
    mid = start + len(command)
    parsed = oracle(command)
    ours = outcome(commands.decode, buf, start, mid)
    if ours is None:
        assert parsed is None or doubtful(parsed, command), "a good command is refused"
    else:
        assert parsed is not None and ours == parsed, "not what was sent"
        again = commands.encode(getattr(ours, FIELDS[ours.type]))
        assert commands.decode(again, 8, len(again)).type == ours.type
    for kind, (decode, expected) in HOT.items():
        wanted = None if ours is None or ours.type != kind else expected(ours)
        assert outcome(decode, buf, start, mid) == wanted, "read by hand it has other values"


def outcome(decode: Callable[[bytes, int, int], Any], buf: bytes, start: int, mid: int) -> Any:
    """What was read; None when it was refused."""
    try:
        return boxed(decode(buf, start, mid))
    except BadCommand:
        return None


def boxed(found: Any) -> Any:
    """Distinguishes a None that was read (`decode_send`) from a refusal."""
    return "more" if found is None else found


def oracle(command: bytes) -> pb.BaseCommand | None:
    """What the protobuf library reads, if that is a whole command."""
    try:
        parsed = pb.BaseCommand.FromString(command)
    except DecodeError:
        return None
    if not parsed.IsInitialized() or not parsed.HasField(FIELDS[parsed.type]):
        return None
    return parsed


def doubtful(parsed: pb.BaseCommand, command: bytes) -> bool:
    """Whether it may be refused nevertheless: two types, or text that is none."""
    if command[0] == 0x08 and command[1] != parsed.type:
        return True
    try:
        str(parsed)
        pb.BaseCommand.FromString(parsed.SerializeToString())
        return not all(is_text(value) for value in strings(parsed))
    except (UnicodeDecodeError, DecodeError):
        return True


def strings(message: Any) -> Iterator[Any]:
    """The values of all its string fields."""
    for field, value in message.ListFields():
        for one in value if field.is_repeated else (value,):
            if field.message_type is not None:
                yield from strings(one)
            elif field.type == field.TYPE_STRING:
                yield one


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def send(command: pb.BaseCommand) -> Any:
    found = command.send
    if any(found.HasField(f) for f in ("txnid_least_bits", "txnid_most_bits", "marker")):
        return "more"
    if found.HasField("message_id"):
        return "more"
    messages = 0 if found.is_chunk else found.num_messages
    return (found.producer_id, found.sequence_id, messages, found.highest_sequence_id)


def receipt(command: pb.BaseCommand) -> Any:
    found = command.send_receipt
    place = (-1, -1)
    if found.HasField("message_id"):
        place = signed(found.message_id.ledgerId, 64), signed(found.message_id.entryId, 64)
    return (found.producer_id, found.sequence_id, found.highest_sequence_id, *place)


def delivery(command: pb.BaseCommand) -> Any:
    found = command.message
    return Delivery(
        found.consumer_id,
        signed(found.message_id.ledgerId, 64),
        signed(found.message_id.entryId, 64),
        found.message_id.partition,
        found.redelivery_count,
        tuple(word & MAX64 for word in found.ack_set),
        found.consumer_epoch if found.HasField("consumer_epoch") else None,
    )


def ack(command: pb.BaseCommand) -> Any:
    found = command.ack
    ids = [
        (signed(m.ledgerId, 64), signed(m.entryId, 64), tuple(w & MAX64 for w in m.ack_set))
        for m in found.message_id
    ]
    txn = None
    if found.HasField("txnid_most_bits") or found.HasField("txnid_least_bits"):
        txn = found.txnid_most_bits, found.txnid_least_bits
    return Ack(
        found.consumer_id,
        found.ack_type,
        ids,
        found.request_id if found.HasField("request_id") else None,
        found.validation_error if found.HasField("validation_error") else None,
        txn,
        {pair.key: pair.value for pair in found.properties},
    )


def flow(command: pb.BaseCommand) -> Any:
    return command.flow.consumer_id, command.flow.messagePermits


HOT: Final[dict[int, tuple[Callable[[bytes, int, int], Any], Callable[[pb.BaseCommand], Any]]]] = {
    pb.BaseCommand.SEND: (decode_send, send),
    pb.BaseCommand.SEND_RECEIPT: (decode_receipt, receipt),
    pb.BaseCommand.MESSAGE: (decode_message, delivery),
    pb.BaseCommand.ACK: (decode_ack, ack),
    pb.BaseCommand.FLOW: (decode_flow, flow),
}


def seeds() -> Iterator[bytes]:
    for command in traffic.commands():
        yield b"\x00" + command
    for frame in (
        encode_receipts(1, [300], [301], 1 << 40, 1 << 30),
        encode_receipts(0, [0], [0], -1, -1),
        encode_message(1, 2, 3, -1, b""),
        encode_message(1 << 20, 1 << 50, 1 << 20, 7, b"", 3, [1, MAX64], 9),
        encode_ack(1, 0, [(5, 6, ()), (7, 8, (1, 2))], 4),
        encode_ack(1, 1, [(5, 600, ())]),
        encode_flow(3, 1000),
    ):
        yield b"\x01" + frame[8:]
