"""Hand-written codec for the ACK command; `commands` describes its rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode_as
from magnetar_proto.errors import BadCommand
from magnetar_proto.frames import encode_frame
from magnetar_proto.wire import MAX64, decode_message_id, decode_varint, encode_varint, to_signed64

ACK_HEAD: Final = b"\x08\x0a\x52"
"""The beginning of an ACK: its type, and the tag of the sub-message."""


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
    """Decode an ACK command."""
    try:
        ack = _decode_plain_ack(buf, start, mid)
    except (IndexError, BadCommand):
        ack = None  # the generated class decides
    return ack or _decode_any_ack(buf, start, mid)


def _decode_plain_ack(buf: bytes, start: int, mid: int) -> Ack | None:
    """Decode an ACK of whole entries with at most a request id; None if it has anything else."""
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
        ledger, entry, pos, stop = decode_message_id(buf, pos + 1)
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
    ack = decode_as(pb.BaseCommand.ACK, buf, start, mid).ack
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
    """Encode a whole ACK frame; `ids` are like `Ack.message_ids`, with words of either sign."""
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
