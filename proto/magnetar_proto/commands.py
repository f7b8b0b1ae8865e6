"""Commands: encoding and decoding of BaseCommand with the generated classes.

SEND, SEND_RECEIPT, MESSAGE, ACK and FLOW, of which there are hundreds of thousands a second, also
have hand-written codecs, in `sends`, `deliveries` and `acks`. Those decode the layout that clients
and brokers write, fields in order; anything else (other order, unknown fields, huge varints) is
left to the generated classes, so that both always agree. Except for a whole ACK, no such layout
reaches 128 bytes, so a size is read as a single byte: a longer one cannot lead to the expected end.

All decoders take `buf, start, mid` of a Frame and raise BadCommand; encoders raise LocalError.
Ledger and entry ids are signed: -1 travels as 2**64 - 1.
"""

from typing import Final

from google.protobuf.message import DecodeError, EncodeError, Message

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadCommand, LocalError
from magnetar_proto.frames import encode_frame
from magnetar_proto.wire import MAX64, encode_varint

PROTOCOL_VERSION: Final = 21
"""The newest protocol version that we support, as broker and as client."""
NO_REQUEST: Final = MAX64
"""The request id of a command that answers no request: -1, as sent on the wire."""

MAX31: Final = (1 << 31) - 1
MAX32: Final = (1 << 32) - 1

# The sub-message of each type, and the bytes before it in an encoded BaseCommand. The number of a
# type is the number of its field.
FIELDS: Final[dict[int, str]] = {
    descriptor.number: descriptor.name
    for descriptor in pb.BaseCommand.DESCRIPTOR.fields
    if descriptor.message_type is not None
}
_HEADS: Final[dict[type[Message], bytes]] = {
    getattr(pb, descriptor.message_type.name): b"\x08"
    + encode_varint(descriptor.number)
    + encode_varint(descriptor.number << 3 | 2)
    for descriptor in pb.BaseCommand.DESCRIPTOR.fields
    if descriptor.message_type is not None
}


def encode(message: Message) -> bytes:
    """Encode a command without payload from its sub-message; the result is the whole frame."""
    head = _HEADS.get(type(message))
    if head is None:
        raise LocalError(f"{type(message).__name__} is not a command")
    try:
        body = message.SerializeToString()
    except EncodeError as error:
        raise LocalError(str(error)) from error
    return encode_frame(head + encode_varint(len(body)) + body)


def decode(buf: bytes, start: int, mid: int) -> pb.BaseCommand:
    """Decode a complete command of a known type, with the sub-message of that type."""
    try:
        command = pb.BaseCommand.FromString(buf[start:mid])
    except DecodeError as error:
        raise BadCommand("expected a BaseCommand, received bytes that are not one") from error
    if not command.HasField("type"):
        raise BadCommand("received a command whose type is missing or unknown")
    if not command.HasField(FIELDS[command.type]):
        raise BadCommand(
            f"received a command of type {command.type} without its field {FIELDS[command.type]}"
        )
    if not command.IsInitialized():
        raise BadCommand(f"{FIELDS[command.type]} lacks required fields")
    if not _is_text(command):
        raise BadCommand(f"{FIELDS[command.type]} has text that is not UTF-8")
    # A frame's kind is its first type; a parser keeps the last.
    if buf[start] == 0x08 and buf[start + 1] != command.type:
        raise BadCommand("received a command with the fields of two types")
    return command


def _is_text(message: Message) -> bool:
    """Return whether all strings are UTF-8; for others the parser returns bytes."""
    for descriptor, found in message.ListFields():
        values = found if descriptor.is_repeated else (found,)
        if descriptor.message_type is not None:
            if not all(map(_is_text, values)):
                return False
        elif descriptor.type == descriptor.TYPE_STRING and not all(
            isinstance(value, str) for value in values
        ):
            return False
    return True


def decode_as(kind: int, buf: bytes, start: int, mid: int) -> pb.BaseCommand:
    """Decode a command that must be of this type: the fallback of the hand-written decoders."""
    command = decode(buf, start, mid)
    if command.type != kind:
        raise BadCommand(f"expected a command of type {kind}, received type {command.type}")
    return command
