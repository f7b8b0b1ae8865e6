"""Commands: BaseCommand to and from bytes.

`encode` and `decode` serve every command through the generated classes. SEND, SEND_RECEIPT,
MESSAGE, ACK and FLOW, which come by the hundred thousand a second, also have codecs written by
hand. Those read the layouts that clients and brokers really write, fields in order; anything else
(other order, unknown fields, huge varints) takes the way through the generated classes, so that
both readings always agree. None of those layouts but an ACK as a whole reaches 128 bytes, which is
why a single byte is read where a size stands: a longer one cannot lead to the expected end.

Decoders take `buf, start, mid` as a Frame has them and raise BadCommand; encoders raise LocalError.
Ledger and entry ids are signed here: -1 travels as 2**64 - 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, EncodeError, Message

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_head
from magnetar_proto.errors import BadCommand, LocalError
from magnetar_proto.frames import SIZE, SIZES, encode_frame
from magnetar_proto.wire import (
    MAX64,
    TABLED,
    VARINTS,
    decode_varint,
    encode_varint,
    stretch,
    to_signed64,
)
from magnetar_proto.wire import decode_varint_tail as tail

PROTOCOL_VERSION: Final = 21
"""The newest version that we speak, as broker and as client."""
NO_REQUEST: Final = MAX64
"""The request id of what answers no request: -1, as it travels."""

MAX31: Final = (1 << 31) - 1
MAX32: Final = (1 << 32) - 1

# What a command of these types begins with: its type, and the tag of the sub-message.
SEND_HEAD: Final = b"\x08\x06\x32"
RECEIPT_HEAD: Final = b"\x08\x07\x3a"
MESSAGE_HEAD: Final = b"\x08\x09\x4a"
ACK_HEAD: Final = b"\x08\x0a\x52"
FLOW_HEAD: Final = b"\x08\x0b\x5a"

SEND_START: Final = Struct("3sBBBB")
"""Type and tag of the sub-message, its size, tag, producer id (its first byte), tag."""

# Which sub-message a type promises, and what precedes each in an encoded BaseCommand. The number
# of a type is that of its field.
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


# --- any command ---------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """The whole frame of a command without payload, from its sub-message: CommandSuccess(...)."""
    head = _HEADS.get(type(message))
    if head is None:
        raise LocalError(f"{type(message).__name__} is not a command")
    try:
        body = message.SerializeToString()
    except EncodeError as error:
        raise LocalError(str(error)) from error
    return encode_frame(head + encode_varint(len(body)) + body)


def decode(buf: bytes, start: int, mid: int) -> pb.BaseCommand:
    """A complete command of a known type, with the sub-message of that type."""
    try:
        command = pb.BaseCommand.FromString(buf[start:mid])
    except DecodeError as error:
        raise BadCommand("a command that is not a BaseCommand") from error
    if not command.HasField("type"):
        raise BadCommand("a command without a known type")
    if not command.HasField(FIELDS[command.type]):
        raise BadCommand(f"a command of type {command.type} without {FIELDS[command.type]}")
    if not command.IsInitialized():
        raise BadCommand(f"{FIELDS[command.type]} lacks required fields")
    if not _is_text(command):
        raise BadCommand(f"{FIELDS[command.type]} has text that is not UTF-8")
    # A frame's kind is its first type; a parser keeps the last.
    if buf[start] == 0x08 and buf[start + 1] != command.type:
        raise BadCommand("a command with two types")
    return command


def _is_text(message: Message) -> bool:
    """Whether every string is one: the parser hands out bytes for what is not UTF-8."""
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


def _decode_as(kind: int, buf: bytes, start: int, mid: int) -> pb.BaseCommand:
    command = decode(buf, start, mid)
    if command.type != kind:
        raise BadCommand(f"a command of type {command.type}, expected {kind}")
    return command


# --- SEND ----------------------------------------------------------------------------------------


def decode_send(buf: bytes, start: int, mid: int) -> tuple[int, int, int, int] | None:
    """(producer_id, sequence_id, num_messages, highest_sequence_id, 0 if absent).

    None when the command says more (is_chunk aside): transaction, marker, message id. Use `decode`.
    """
    try:
        head, size, field_1, producer_id, field_2 = SEND_START.unpack_from(buf, start)
        if head == SEND_HEAD and size == mid - start - 4 and field_1 == 0x08:
            pos = start + 6
            if producer_id > 127:
                producer_id, pos = tail(buf, pos, producer_id)
                field_2 = buf[pos]
            if field_2 == 0x10:
                sequence_id = buf[pos + 1]
                pos += 2
                if sequence_id > 127:
                    sequence_id, pos = tail(buf, pos, sequence_id)
                if pos == mid:
                    return producer_id, sequence_id, 1, 0
                if pos + 2 == mid and buf[pos] == 0x18 and buf[pos + 1] < 128:
                    return producer_id, sequence_id, buf[pos + 1], 0
                count, highest, pos = _send_options(buf, pos, mid)
                if pos == mid and count <= MAX31:
                    return producer_id, sequence_id, count, highest
    except (IndexError, BadCommand, StructError):
        pass  # the generated class decides
    return _decode_any_send(buf, start, mid)


def _send_options(buf: bytes, pos: int, mid: int) -> tuple[int, int, int]:
    """num_messages, highest_sequence_id and the position behind them and is_chunk."""
    count, highest = 1, 0
    if buf[pos] == 0x18:
        count = buf[pos + 1]
        pos += 2
        if count > 127:
            count, pos = tail(buf, pos, count)
        if pos == mid:
            return count, highest, pos
    if buf[pos] == 0x30:
        highest, pos = decode_varint(buf, pos + 1)
        if pos == mid:
            return count, highest, pos
    if buf[pos] == 0x38 and buf[pos + 1] < 128:
        pos += 2
    return count, highest, pos


def _decode_any_send(buf: bytes, start: int, mid: int) -> tuple[int, int, int, int] | None:
    send = _decode_as(pb.BaseCommand.SEND, buf, start, mid).send
    if any(map(send.HasField, ("txnid_least_bits", "txnid_most_bits", "marker", "message_id"))):
        return None
    return send.producer_id, send.sequence_id, send.num_messages, send.highest_sequence_id


def encode_send(
    producer_id: int,
    sequence_id: int,
    num_messages: int,
    metadata: bytes,
    payload: bytes,
    highest_sequence_id: int | None = None,
) -> bytes:
    """A whole checksummed SEND frame; `metadata` is an encoded MessageMetadata."""
    body = b"\x08" + encode_varint(producer_id) + b"\x10" + encode_varint(sequence_id)
    if num_messages != 1:
        body += b"\x18" + encode_varint(num_messages)
    if highest_sequence_id is not None:
        body += b"\x30" + encode_varint(highest_sequence_id)
    size = len(body) + 4
    head = encode_head(metadata, payload)
    sizes = SIZES.pack(4 + size + len(head) + len(payload), size)
    return b"".join((sizes, SEND_HEAD, VARINTS[len(body)], body, head, payload))


# --- SEND_RECEIPT --------------------------------------------------------------------------------

RECEIPT_START: Final = Struct(">II3sBB")
"""Sizes, type and tag of the sub-message, its size, tag of the producer id."""
MANY_RECEIPTS: Final = 4
"""From so many on, finding out that they count up is worth it."""
ID_STARTS: Final = tuple(bytes((0x1A, size, 0x08)) for size in range(2 * 10 + 3))
"""By the size of a message id, what precedes its ledger id: tag, size, tag."""


def encode_receipts(
    producer_id: int,
    sequence_ids: Sequence[int],
    highest_ids: Sequence[int],
    ledger: int,
    first_entry: int,
) -> bytes:
    """Consecutive SEND_RECEIPT frames for the entries from `first_entry` on.

    With first_entry -1 (duplicates) every receipt carries entry -1.
    """
    n = len(sequence_ids)
    if n == 1:
        return _receipt(producer_id, sequence_ids[0], highest_ids[0], ledger, first_entry)
    first = sequence_ids[0] if n else 0
    if (
        n >= MANY_RECEIPTS
        and first_entry >= 0
        and 0 <= first < MAX64 - n
        and not any(highest_ids)
        and list(sequence_ids) == list(range(first, first + n))
    ):
        return _counting_receipts(producer_id, first, n, ledger, first_entry)
    step = 1 if first_entry >= 0 else 0
    receipts = [
        _receipt(producer_id, sequence_id, highest_id, ledger, first_entry + i * step)
        for i, (sequence_id, highest_id) in enumerate(zip(sequence_ids, highest_ids, strict=True))
    ]
    return b"".join(receipts)


def _receipt(
    producer_id: int, sequence_id: int, highest_id: int, ledger: int, entry_id: int
) -> bytes:
    sequence, entry = encode_varint(sequence_id), encode_varint(entry_id & MAX64)
    before, between, after = _around_ids(producer_id, len(sequence), ledger, len(entry), highest_id)
    return b"".join((before, sequence, between, entry, after))


def _counting_receipts(
    producer_id: int, sequence_id: int, n: int, ledger: int, entry_id: int
) -> bytes:
    """Receipts whose sequence and entry ids both count up by one, with no highest id.

    While neither id gets longer or carries beyond its two low bytes, all else is the same in
    each receipt: the pieces are interleaved by slices, a tenth of what a loop takes.
    """
    pieces: list[bytes] = []
    while n:
        sequences, sequence_rest, sequence_room = stretch(sequence_id)
        entries, entry_rest, entry_room = stretch(entry_id)
        m = min(n, sequence_room, entry_room)
        low, entry_low = sequence_id % TABLED, entry_id % TABLED
        low_sequences = sequences[low : low + m]
        low_entries = entries[entry_low : entry_low + m]
        before, between, after = _around_ids(
            producer_id,
            len(low_sequences[0]) + len(sequence_rest),
            ledger,
            len(low_entries[0]) + len(entry_rest),
            0,
        )
        some = [before] * (5 * m)
        some[1::5] = low_sequences
        some[2::5] = [sequence_rest + between] * m
        some[3::5] = low_entries
        some[4::5] = [entry_rest + after] * m
        pieces += some
        sequence_id, entry_id, n = sequence_id + m, entry_id + m, n - m
    return b"".join(pieces)


def _around_ids(
    producer_id: int, sequence_size: int, ledger: int, entry_size: int, highest_id: int
) -> tuple[bytes, bytes, bytes]:
    """What stands before, between and behind the sequence id and the entry id of a receipt."""
    producer, ledger_varint = encode_varint(producer_id), encode_varint(ledger & MAX64)
    after = b"\x20" + encode_varint(highest_id)
    id_size = len(ledger_varint) + entry_size + 2
    size = len(producer) + sequence_size + id_size + len(after) + 4
    return (
        RECEIPT_START.pack(size + 8, size + 4, RECEIPT_HEAD, size, 0x08) + producer + b"\x10",
        ID_STARTS[id_size] + ledger_varint + b"\x10",
        after,
    )


def decode_receipt(buf: bytes, start: int, mid: int) -> tuple[int, int, int, int, int]:
    """(producer_id, sequence_id, highest_sequence_id, ledger, entry); -1, -1 for a duplicate."""
    try:
        pos = start + 4
        if (
            buf[start : start + 3] == RECEIPT_HEAD
            and mid - pos == buf[start + 3]
            and buf[pos] == 0x08
        ):
            producer_id, pos = decode_varint(buf, pos + 1)
            if buf[pos] == 0x10:
                sequence_id, pos = decode_varint(buf, pos + 1)
                if buf[pos] == 0x1A:
                    ledger, entry, pos, stop = _message_id(buf, pos + 1)
                    highest = 0
                    if pos == stop != mid and buf[pos] == 0x20:
                        highest, pos = decode_varint(buf, pos + 1)
                        stop = mid
                    if pos == stop == mid:
                        return producer_id, sequence_id, highest, ledger, entry
    except (IndexError, BadCommand):
        pass  # the generated class decides
    receipt = _decode_as(pb.BaseCommand.SEND_RECEIPT, buf, start, mid).send_receipt
    ledger = entry = -1
    if receipt.HasField("message_id"):
        ledger = to_signed64(receipt.message_id.ledgerId)
        entry = to_signed64(receipt.message_id.entryId)
    return (
        receipt.producer_id,
        receipt.sequence_id,
        receipt.highest_sequence_id,
        ledger,
        entry,
    )


# --- MESSAGE -------------------------------------------------------------------------------------

JOIN_BELOW: Final = 4096
"""Payloads up to this size, on average, are copied behind their heads."""


class Delivery(NamedTuple):
    """A MESSAGE command. ack_set as on the wire, unsigned; None where a field is absent."""

    consumer_id: int
    ledger: int
    entry: int
    partition: int
    redelivery_count: int
    ack_set: tuple[int, ...]
    consumer_epoch: int | None


def encode_messages(
    consumer_id: int,
    ledger: int,
    first_entry: int,
    partition: int,
    payloads: Sequence[bytes],
    consumer_epoch: int | None = None,
) -> list[bytes]:
    """The MESSAGE frames of consecutive entries, as buffers to be written one behind the other.

    Small frames are joined; large payloads stay as they are, each behind its head.
    """
    if first_entry < 0:
        raise LocalError(f"{first_entry} is not the number of an entry")
    consumer = b"\x08" + encode_varint(consumer_id) + b"\x12"
    ledger_field = b"\x08" + encode_varint(ledger & MAX64) + b"\x10"
    partition_field = b"" if partition < 0 else b"\x18" + encode_varint(partition)
    epoch = b"" if consumer_epoch is None else b"\x28" + encode_varint(consumer_epoch)
    out: list[bytes] = []
    at, stop = 0, len(payloads)
    while at < stop:
        low, high, room = stretch(first_entry + at)
        n, index = min(stop - at, room), (first_entry + at) % TABLED
        id_size = len(ledger_field) + len(low[index]) + len(high) + len(partition_field)
        body = len(consumer) + 1 + id_size + len(epoch)
        head = b"".join(
            (SIZE.pack(body + 4), MESSAGE_HEAD, VARINTS[body], consumer, VARINTS[id_size])
        )
        ids, after = low[index : index + n], high + partition_field + epoch
        out += _message_frames(body + 8, head + ledger_field, ids, after, payloads[at : at + n])
        at += n
    return out


def _message_frames(
    head_size: int, head: bytes, ids: Sequence[bytes], after: bytes, payloads: Sequence[bytes]
) -> list[bytes]:
    """Frames that differ in an id and the payload only; without a step of Python for each."""
    n = len(payloads)
    sizes = list(map(len, payloads))
    if sizes.count(sizes[0]) == n:
        totals = [SIZE.pack(head_size + sizes[0])] * n
    else:
        totals = [SIZE.pack(head_size + size) for size in sizes]
    if sum(sizes) > JOIN_BELOW * n:
        heads = [size + head + entry + after for size, entry in zip(totals, ids, strict=True)]
        return [piece for pair in zip(heads, payloads, strict=True) for piece in pair]
    pieces = [head] * (5 * n)
    pieces[0::5] = totals
    pieces[2::5] = ids
    pieces[3::5] = [after] * n
    pieces[4::5] = payloads
    return [b"".join(pieces)]


def encode_message(
    consumer_id: int,
    ledger: int,
    entry: int,
    partition: int,
    payload: bytes,
    redelivery_count: int = 0,
    ack_set: Sequence[int] = (),
    consumer_epoch: int | None = None,
) -> bytes:
    """The head of one MESSAGE frame; write `payload`, which its sizes count, right behind it."""
    message_id = b"\x08" + encode_varint(ledger & MAX64) + b"\x10" + encode_varint(entry & MAX64)
    if partition >= 0:
        message_id += b"\x18" + encode_varint(partition)
    parts = [b"\x08", encode_varint(consumer_id), b"\x12", VARINTS[len(message_id)], message_id]
    if redelivery_count:
        parts += (b"\x18", encode_varint(redelivery_count))
    for word in ack_set:
        parts += (b"\x20", encode_varint(word & MAX64))
    if consumer_epoch is not None:
        parts += (b"\x28", encode_varint(consumer_epoch))
    body = b"".join(parts)
    command = MESSAGE_HEAD + encode_varint(len(body)) + body
    return SIZES.pack(4 + len(command) + len(payload), len(command)) + command


def decode_message(buf: bytes, start: int, mid: int) -> Delivery:
    """The MESSAGE command; its entry is the frame's payload section."""
    try:
        pos = start + 4
        if (
            buf[start : start + 3] == MESSAGE_HEAD
            and mid - pos == buf[start + 3]
            and buf[pos] == 0x08
        ):
            consumer_id, pos = decode_varint(buf, pos + 1)
            if buf[pos] == 0x12:
                partition = -1
                ledger, entry, pos, stop = _message_id(buf, pos + 1)
                if pos != stop and buf[pos] == 0x18:
                    partition, pos = decode_varint(buf, pos + 1)
                if pos == stop and partition <= MAX31:
                    count = 0
                    if pos != mid and buf[pos] == 0x18:
                        count, pos = decode_varint(buf, pos + 1)
                    if pos == mid and count <= MAX32:
                        return Delivery(consumer_id, ledger, entry, partition, count, (), None)
    except (IndexError, BadCommand):
        pass  # the generated class decides
    message = _decode_as(pb.BaseCommand.MESSAGE, buf, start, mid).message
    return Delivery(
        message.consumer_id,
        to_signed64(message.message_id.ledgerId),
        to_signed64(message.message_id.entryId),
        message.message_id.partition,
        message.redelivery_count,
        tuple(word & MAX64 for word in message.ack_set),
        message.consumer_epoch if message.HasField("consumer_epoch") else None,
    )


# --- ACK -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ack:
    """An ACK command: acknowledges, individually or up to and including, `message_ids`.

    Each is (ledger, entry, ack_set); an empty ack_set means the whole entry, otherwise its
    unsigned 64-bit words, lowest first, have a 1 for each message *not* acknowledged.
    """

    consumer_id: int
    ack_type: int
    message_ids: list[tuple[int, int, tuple[int, ...]]]
    request_id: int | None = None
    validation_error: int | None = None
    txn: tuple[int, int] | None = None  # (most significant bits, least significant bits)
    properties: dict[str, int] = field(default_factory=dict)


def decode_ack(buf: bytes, start: int, mid: int) -> Ack:
    """The ACK command."""
    try:
        ack = _decode_plain_ack(buf, start, mid)
    except (IndexError, BadCommand):
        ack = None  # the generated class decides
    return ack or _decode_any_ack(buf, start, mid)


def _decode_plain_ack(buf: bytes, start: int, mid: int) -> Ack | None:
    """An ack of whole entries with at most a request id."""
    if buf[start : start + 3] != ACK_HEAD:
        return None
    size, pos = decode_varint(buf, start + 3)
    if pos + size != mid or buf[pos] != 0x08:
        return None
    consumer_id, pos = decode_varint(buf, pos + 1)
    if buf[pos] != 0x10 or buf[pos + 1] > 1:
        return None
    ack_type = buf[pos + 1]
    pos += 2
    message_ids: list[tuple[int, int, tuple[int, ...]]] = []
    while pos < mid and buf[pos] == 0x1A:
        ledger, entry, pos, stop = _message_id(buf, pos + 1)
        if pos != stop:
            return None
        message_ids.append((ledger, entry, ()))
    request_id = None
    if pos < mid and buf[pos] == 0x40:
        request_id, pos = decode_varint(buf, pos + 1)
    if pos != mid:
        return None
    return Ack(consumer_id, ack_type, message_ids, request_id)


def _decode_any_ack(buf: bytes, start: int, mid: int) -> Ack:
    ack = _decode_as(pb.BaseCommand.ACK, buf, start, mid).ack
    has = ack.HasField
    return Ack(
        ack.consumer_id,
        ack.ack_type,
        [
            (
                to_signed64(message_id.ledgerId),
                to_signed64(message_id.entryId),
                tuple(word & MAX64 for word in message_id.ack_set),
            )
            for message_id in ack.message_id
        ],
        ack.request_id if has("request_id") else None,
        ack.validation_error if has("validation_error") else None,
        (ack.txnid_most_bits, ack.txnid_least_bits)
        if has("txnid_most_bits") or has("txnid_least_bits")
        else None,
        {item.key: item.value for item in ack.properties},
    )


def encode_ack(
    consumer_id: int,
    ack_type: int,
    ids: Sequence[tuple[int, int, Sequence[int]]],
    request_id: int | None = None,
) -> bytes:
    """A whole ACK frame; `ids` as in `Ack.message_ids`, words of either sign."""
    parts = [b"\x08", encode_varint(consumer_id), b"\x10", encode_varint(ack_type)]
    for ledger, entry, ack_set in ids:
        one = b"\x08" + encode_varint(ledger & MAX64) + b"\x10" + encode_varint(entry & MAX64)
        if ack_set:
            one += b"".join([b"\x28" + encode_varint(word & MAX64) for word in ack_set])
        parts += (b"\x1a", encode_varint(len(one)), one)
    if request_id is not None:
        parts += (b"\x40", encode_varint(request_id))
    body = b"".join(parts)
    return encode_frame(ACK_HEAD + encode_varint(len(body)) + body)


# --- FLOW ----------------------------------------------------------------------------------------


def decode_flow(buf: bytes, start: int, mid: int) -> tuple[int, int]:
    """(consumer_id, permits): how many more messages the consumer takes."""
    try:
        pos = start + 4
        if buf[start : start + 3] == FLOW_HEAD and mid - pos == buf[start + 3] and buf[pos] == 0x08:
            consumer_id, pos = decode_varint(buf, pos + 1)
            if buf[pos] == 0x10:
                permits, pos = decode_varint(buf, pos + 1)
                if pos == mid and permits <= MAX32:
                    return consumer_id, permits
    except (IndexError, BadCommand):
        pass  # the generated class decides
    flow = _decode_as(pb.BaseCommand.FLOW, buf, start, mid).flow
    return flow.consumer_id, flow.messagePermits


def encode_flow(consumer_id: int, permits: int) -> bytes:
    """A whole FLOW frame."""
    body = b"\x08" + encode_varint(consumer_id) + b"\x10" + encode_varint(permits)
    return encode_frame(FLOW_HEAD + VARINTS[len(body)] + body)


# --- shared --------------------------------------------------------------------------------------


def _message_id(buf: bytes, pos: int) -> tuple[int, int, int, int]:
    """Ledger and entry of the MessageIdData whose size is at `pos`, and where they and it end.

    BadCommand or IndexError when it does not begin with them.
    """
    size = buf[pos]
    if buf[pos + 1] != 0x08:
        raise BadCommand("not a message id in the usual layout")
    stop = pos + 1 + size
    ledger = buf[pos + 2]
    pos += 3
    if ledger > 127:
        ledger, pos = tail(buf, pos, ledger)
    if buf[pos] != 0x10:
        raise BadCommand("not a message id in the usual layout")
    entry = buf[pos + 1]
    pos += 2
    if entry > 127:
        entry, pos = tail(buf, pos, entry)
    if (ledger | entry) >> 63:
        return to_signed64(ledger), to_signed64(entry), pos, stop
    return ledger, entry, pos, stop
