"""Hand-written codecs for SEND and SEND_RECEIPT; see `commands`."""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import MAX31, decode_as
from magnetar_proto.entries import encode_head
from magnetar_proto.errors import BadCommand
from magnetar_proto.frames import SIZES
from magnetar_proto.wire import (
    MAX64,
    TABLED,
    VARINTS,
    decode_message_id,
    decode_varint,
    encode_varint,
    stretch,
    to_signed64,
)
from magnetar_proto.wire import decode_varint_tail as tail

# The beginnings of commands of these types: type, and tag of the sub-message.
SEND_HEAD: Final = b"\x08\x06\x32"
RECEIPT_HEAD: Final = b"\x08\x07\x3a"

SEND_START: Final = Struct("3sBBBB")
"""Type and tag of the sub-message, its size, tag, producer id (its first byte), tag."""
RECEIPT_START: Final = Struct(">II3sBB")
"""Sizes, type and tag of the sub-message, its size, tag of the producer id."""
LEAST_TAG: Final = 0x20
MOST_TAG: Final = 0x28
"""Fields 4 and 5 of a SEND: the bits of a transaction's id."""
NO_HIGHEST_ID: Final = b"\x20\x00"
"""The end of a receipt: its highest sequence id, 0."""
MANY_RECEIPTS: Final = 4
"""The number of receipts from which checking whether their ids count up is worth it."""
ID_STARTS: Final = tuple(bytes((0x1A, size, 0x08)) for size in range(2 * 10 + 3))
"""The bytes before the ledger id, by the size of the message id: tag, size, tag."""


# --- SEND ----------------------------------------------------------------------------------------


def decode_send(buf: bytes, start: int, mid: int) -> tuple[int, int, int, int] | None:
    """Decode a SEND into (producer_id, sequence_id, num_messages, highest_sequence_id or 0).

    num_messages is 0 for a chunk.
    None if it has fields other than these and is_chunk, such as a transaction: use `decode` then.
    """
    try:
        head, size, field_1, producer_id, field_2 = SEND_START.unpack_from(buf, start)
        # The size of the sub-message in one byte, as in all SENDs of usual clients.
        if head == SEND_HEAD and size == mid - start - 4 and field_1 == 0x08:
            pos = start + 6
            # Small numbers are one byte, which is read already.
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
                # Neither a single message nor a small batch: the rest of the fields, in their
                # order.
                count, highest, pos = _send_options(buf, pos, mid)
                if pos == mid and count <= MAX31:
                    return producer_id, sequence_id, count, highest
                # In a transaction, in the form that is decoded by hand, too: no need to parse it
                # twice.
                if buf[pos] == LEAST_TAG and decode_transaction_send(buf, start, mid) is not None:
                    return None
    except (IndexError, BadCommand, StructError):
        pass  # the generated class decides
    return _decode_any_send(buf, start, mid)


class TransactionSend(NamedTuple):
    """A SEND of a message of a transaction; `messages` is 0 for a chunk."""

    producer_id: int
    sequence_id: int
    messages: int
    highest_id: int
    most: int
    least: int


def decode_transaction_send(buf: bytes, start: int, mid: int) -> TransactionSend | None:
    """Decode the fields of `decode_send` and the transaction; None if there are others."""
    try:
        size, pos = decode_varint(buf, start + 3)
        fits = buf[start : start + 3] == SEND_HEAD and pos + size == mid and buf[pos] == 0x08
        producer_id, pos = decode_varint(buf, pos + 1)
        fits = fits and buf[pos] == 0x10
        sequence_id, pos = decode_varint(buf, pos + 1)
        messages, highest_id = 1, 0
        if buf[pos] == 0x18:
            messages, pos = decode_varint(buf, pos + 1)
        fits = fits and buf[pos] == LEAST_TAG
        least, pos = decode_varint(buf, pos + 1)
        fits = fits and buf[pos] == MOST_TAG
        most, pos = decode_varint(buf, pos + 1)
        if pos < mid and buf[pos] == 0x30:
            highest_id, pos = decode_varint(buf, pos + 1)
        if pos + 2 == mid and buf[pos] == 0x38 and buf[pos + 1] < 128:
            if buf[pos + 1]:
                messages = 0
            pos += 2
    except (IndexError, BadCommand):
        return None  # the generated class decides
    if not fits or pos != mid or messages > MAX31:
        return None
    return TransactionSend(producer_id, sequence_id, messages, highest_id, most, least)


def _send_options(buf: bytes, pos: int, mid: int) -> tuple[int, int, int]:
    """Read num_messages (0: a chunk), highest_sequence_id and the position after all options."""
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
        if buf[pos + 1]:
            count = 0
        pos += 2
    return count, highest, pos


def _decode_any_send(buf: bytes, start: int, mid: int) -> tuple[int, int, int, int] | None:
    send = decode_as(pb.BaseCommand.SEND, buf, start, mid).send
    # The caller decides about them, by the whole command.
    if any(map(send.HasField, ("txnid_least_bits", "txnid_most_bits", "marker", "message_id"))):
        return None
    messages = 0 if send.is_chunk else send.num_messages
    return send.producer_id, send.sequence_id, messages, send.highest_sequence_id


def encode_send(
    producer_id: int,
    sequence_id: int,
    num_messages: int,
    metadata: bytes,
    payload: bytes,
    highest_sequence_id: int | None = None,
    txn: tuple[int, int] | None = None,
) -> bytes:
    """Encode a whole checksummed SEND frame; `metadata` is an encoded MessageMetadata.

    `txn` is the transaction: its most and its least significant bits.
    """
    body = b"\x08" + encode_varint(producer_id) + b"\x10" + encode_varint(sequence_id)
    if num_messages != 1:
        body += b"\x18" + encode_varint(num_messages)
    if txn is not None:
        body += b"\x20" + encode_varint(txn[1]) + b"\x28" + encode_varint(txn[0])
    if highest_sequence_id is not None:
        body += b"\x30" + encode_varint(highest_sequence_id)
    # Type, tag and size of the sub-message: a body of these fields is below 128 bytes.
    size = len(body) + 4
    head = encode_head(metadata, payload)
    sizes = SIZES.pack(4 + size + len(head) + len(payload), size)
    return b"".join((sizes, SEND_HEAD, VARINTS[len(body)], body, head, payload))


# --- SEND_RECEIPT --------------------------------------------------------------------------------


def encode_receipts(
    producer_id: int,
    sequence_ids: Sequence[int],
    highest_ids: Sequence[int],
    ledger: int,
    first_entry: int,
) -> bytes:
    """Encode consecutive SEND_RECEIPT frames for the entries from `first_entry` on.

    With first_entry -1 (duplicates) every receipt carries entry -1.
    """
    n = len(sequence_ids)
    if n == 1:
        return _receipt(producer_id, sequence_ids[0], highest_ids[0], ledger, first_entry)
    first = sequence_ids[0] if n else 0
    if (
        # The ids of one producer count up by one, unless it sends batches or starts again.
        n >= MANY_RECEIPTS
        and first_entry >= 0
        and 0 <= first < MAX64 - n
        and not any(highest_ids)
        and list(sequence_ids) == list(range(first, first + n))
    ):
        return _counting_receipts(producer_id, first, n, ledger, first_entry)
    # Copies all have entry -1, which does not count up.
    step = 1 if first_entry >= 0 else 0
    receipts = [
        _receipt(producer_id, sequence_id, highest_id, ledger, first_entry + i * step)
        for i, (sequence_id, highest_id) in enumerate(zip(sequence_ids, highest_ids, strict=True))
    ]
    return b"".join(receipts)


class Receipts:
    """Encodes receipts of one producer, reusing the parts that seldom change."""

    __slots__ = ("_before", "_between", "_entry_size", "_ledger", "_producer_id", "_sequence_size")

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._ledger = -1
        self._sequence_size = self._entry_size = 0
        self._before = self._between = b""

    def one(self, sequence_id: int, highest_id: int, ledger: int, entry_id: int) -> bytes:
        """Encode the SEND_RECEIPT frame of one entry; entry -1 is a duplicate."""
        # Batches and copies: their receipts have other sizes each time.
        if highest_id or entry_id < 0:
            return _receipt(self._producer_id, sequence_id, highest_id, ledger, entry_id)
        sequence, entry = encode_varint(sequence_id), encode_varint(entry_id)
        if (
            # The sizes of both ids are in the sizes of the frame: what is around them stays valid
            # as long as these do.
            ledger != self._ledger
            or len(sequence) != self._sequence_size
            or len(entry) != self._entry_size
        ):
            self._ledger = ledger
            self._sequence_size, self._entry_size = len(sequence), len(entry)
            self._before, self._between, _ = _around_ids(
                self._producer_id, len(sequence), ledger, len(entry), 0
            )
        return b"".join((self._before, sequence, self._between, entry, NO_HIGHEST_ID))


def _receipt(
    producer_id: int, sequence_id: int, highest_id: int, ledger: int, entry_id: int
) -> bytes:
    sequence, entry = encode_varint(sequence_id), encode_varint(entry_id & MAX64)
    before, between, after = _around_ids(producer_id, len(sequence), ledger, len(entry), highest_id)
    return b"".join((before, sequence, between, entry, after))


def _counting_receipts(
    producer_id: int, sequence_id: int, n: int, ledger: int, entry_id: int
) -> bytes:
    """Encode receipts whose sequence and entry ids count up by one, without highest ids.

    While neither id gets longer or carries beyond its two low bytes, the rest of all receipts is
    the same: the pieces are interleaved by slices, in a tenth of the time of a loop.
    """
    pieces: list[bytes] = []
    while n:
        sequences, sequence_rest, sequence_room = stretch(sequence_id)
        entries, entry_rest, entry_room = stretch(entry_id)
        # As far as both ids keep their length and their higher bytes.
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
        # Five pieces for each receipt; each slice sets one of them in all receipts.
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
    """Encode the bytes before, between and after the sequence id and the entry id of a receipt."""
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
    """Decode into (producer_id, sequence_id, highest_sequence_id, ledger, entry).

    Ledger and entry are -1 for a duplicate.
    """
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
                    ledger, entry, pos, stop = decode_message_id(buf, pos + 1)
                    highest = 0
                    if pos == stop != mid and buf[pos] == 0x20:
                        highest, pos = decode_varint(buf, pos + 1)
                        stop = mid
                    if pos == stop == mid:
                        return producer_id, sequence_id, highest, ledger, entry
    except (IndexError, BadCommand):
        pass  # the generated class decides
    receipt = decode_as(pb.BaseCommand.SEND_RECEIPT, buf, start, mid).send_receipt
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
