"""Hand-written codecs for MESSAGE and FLOW; see `commands`."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import MAX31, MAX32, decode_as
from magnetar_proto.errors import BadCommand, LocalError
from magnetar_proto.frames import SIZE, SIZES, Frame, encode_frame
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

# The beginnings of commands of these types: type, and tag of the sub-message.
MESSAGE_HEAD: Final = b"\x08\x09\x4a"
FLOW_HEAD: Final = b"\x08\x0b\x5a"

MAX_RUN: Final = 250
"""The most commands that `decode_run` reads."""
JOIN_BELOW: Final = 4096
"""Payloads up to this size, on average, are copied after their heads."""


# --- MESSAGE -------------------------------------------------------------------------------------


class Delivery(NamedTuple):
    """A MESSAGE command; ack_set has unsigned words, as on the wire; None for an absent field."""

    consumer_id: int
    ledger: int
    entry: int
    partition: int
    redelivery_count: int
    ack_set: tuple[int, ...]
    consumer_epoch: int | None


class DeliveryRun(NamedTuple):
    """Successive MESSAGE commands that differ only in the number of the entry."""

    head: Delivery
    """The first command."""
    entries: list[int]
    payloads: list[bytes]
    """The entries, as they are stored."""


def encode_messages(
    consumer_id: int,
    ledger: int,
    first_entry: int,
    partition: int,
    payloads: Sequence[bytes],
    consumer_epoch: int | None = None,
) -> list[bytes]:
    """Encode the MESSAGE frames of consecutive entries, as buffers to be written in order.

    Small frames are joined; large payloads stay buffers of their own, each after its head.
    """
    if first_entry < 0:
        raise LocalError(f"{first_entry} is not the number of an entry")
    fields = _Fields.of(consumer_id, ledger, partition, consumer_epoch)
    out: list[bytes] = []
    at, stop = 0, len(payloads)
    while at < stop:
        low, high, room = stretch(first_entry + at)
        n, index = min(stop - at, room), (first_entry + at) % TABLED
        out += _message_frames(fields, low[index : index + n], high, payloads[at : at + n])
        at += n
    return out


def encode_scattered(
    consumer_id: int,
    ledger: int,
    entries: Sequence[int],
    partition: int,
    payloads: Sequence[bytes],
) -> list[bytes]:
    """Encode the MESSAGE frames of entries of one ledger, ascending but not consecutive."""
    fields = _Fields.of(consumer_id, ledger, partition, None)
    out: list[bytes] = []
    at, stop = 0, len(entries)
    while at < stop:
        low, high, room = stretch(entries[at])
        end = bisect_left(entries, entries[at] + room, at)
        ids = [low[entry % TABLED] for entry in entries[at:end]]
        out += _message_frames(fields, ids, high, payloads[at:end])
        at = end
    return out


class _Fields(NamedTuple):
    """The encoded fields of a MESSAGE, except the number of the entry."""

    consumer: bytes
    ledger: bytes
    partition: bytes
    epoch: bytes

    @classmethod
    def of(
        cls, consumer_id: int, ledger: int, partition: int, consumer_epoch: int | None
    ) -> "_Fields":
        return cls(
            b"\x08" + encode_varint(consumer_id) + b"\x12",
            b"\x08" + encode_varint(ledger & MAX64) + b"\x10",
            b"" if partition < 0 else b"\x18" + encode_varint(partition),
            b"" if consumer_epoch is None else b"\x28" + encode_varint(consumer_epoch),
        )


def _message_frames(
    fields: _Fields, ids: Sequence[bytes], high: bytes, payloads: Sequence[bytes]
) -> list[bytes]:
    """Encode frames that differ only in id and payload, without a step of Python for each.

    `ids` are the differing parts of the entries' numbers, all of one size; `high` is the rest.
    """
    n = len(payloads)
    id_size = len(fields.ledger) + len(ids[0]) + len(high) + len(fields.partition)
    body = len(fields.consumer) + 1 + id_size + len(fields.epoch)
    head_size = body + 8
    head = b"".join(
        (SIZE.pack(body + 4), MESSAGE_HEAD, VARINTS[body],
         fields.consumer, VARINTS[id_size], fields.ledger)
    )  # fmt: skip
    after = high + fields.partition + fields.epoch
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
    """Encode the head of a MESSAGE frame; the caller writes `payload` right after it."""
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


def decode_run(frames: Sequence[Frame], at: int) -> DeliveryRun:
    """Decode the MESSAGE `frames[at]` and following ones that differ only in the entry's number.

    The run has at least one command, and at most `MAX_RUN`.
    """
    kind, buf, start, mid, payload = frames[at]
    head = decode_message(buf, start, mid)
    run = DeliveryRun(head, [head.entry], [payload])
    likeness = _likeness(head, buf, start, mid)
    if likeness is None:
        return run
    before, width, behind = likeness
    entry_at, behind_at, size = len(before), len(before) + width, mid - start
    for index in range(at + 1, min(at + MAX_RUN, len(frames))):
        other, buf, start, mid, payload = frames[index]
        # promise[without or buf[start + behind_at : mid] != behind]: a MESSAGE with another epoch
        #   or ack set is read on its own
        if (
            other != kind
            or mid - start != size
            or buf[start : start + entry_at] != before
            or buf[start + behind_at : mid] != behind
        ):
            break
        try:
            entry, end = decode_varint(buf, start + entry_at)
        except (IndexError, BadCommand):
            break  # it is read by itself, and refused then
        if end != start + behind_at:
            break
        run.entries.append(entry)
        run.payloads.append(payload)
    return run


def _likeness(head: Delivery, buf: bytes, start: int, mid: int) -> tuple[bytes, int, bytes] | None:
    """Return a command's bytes before and after the entry's number, and the size of the number.

    None if the fields are not in the usual order.
    """
    if head.ledger < 0 or head.entry < 0:
        return None
    ids = b"\x08" + encode_varint(head.ledger) + b"\x10"
    before = b"\x08" + encode_varint(head.consumer_id) + b"\x12"
    at = start + len(MESSAGE_HEAD) + 1 + len(before) + 1 + len(ids)
    number = encode_varint(head.entry)
    behind = at + len(number)
    if buf[at - len(ids) : behind] != ids + number or buf[at - len(ids) - 1] > 127:
        return None
    return buf[start:at], len(number), buf[behind:mid]


def decode_message(buf: bytes, start: int, mid: int) -> Delivery:
    """Decode a MESSAGE command; its entry is the frame's payload section."""
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
                ledger, entry, pos, stop = decode_message_id(buf, pos + 1)
                if pos != stop and buf[pos] == 0x18:
                    partition, pos = decode_varint(buf, pos + 1)
                if pos == stop and partition <= MAX31:
                    count = 0
                    if pos != mid and buf[pos] == 0x18:
                        count, pos = decode_varint(buf, pos + 1)
                    epoch = None
                    if pos != mid and buf[pos] == 0x28:
                        epoch, pos = decode_varint(buf, pos + 1)
                    if pos == mid and count <= MAX32 and (epoch or 0) <= MAX64:
                        return Delivery(consumer_id, ledger, entry, partition, count, (), epoch)
    except (IndexError, BadCommand):
        pass  # the generated class decides
    message = decode_as(pb.BaseCommand.MESSAGE, buf, start, mid).message
    return Delivery(
        message.consumer_id,
        to_signed64(message.message_id.ledgerId),
        to_signed64(message.message_id.entryId),
        message.message_id.partition,
        message.redelivery_count,
        tuple(word & MAX64 for word in message.ack_set),
        message.consumer_epoch if message.HasField("consumer_epoch") else None,
    )


# --- FLOW ----------------------------------------------------------------------------------------


def decode_flow(buf: bytes, start: int, mid: int) -> tuple[int, int]:
    """Decode a FLOW; returns (consumer_id, permits), the number of further messages."""
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
    flow = decode_as(pb.BaseCommand.FLOW, buf, start, mid).flow
    return flow.consumer_id, flow.messagePermits


def encode_flow(consumer_id: int, permits: int) -> bytes:
    """Encode a whole FLOW frame."""
    body = b"\x08" + encode_varint(consumer_id) + b"\x10" + encode_varint(permits)
    return encode_frame(FLOW_HEAD + VARINTS[len(body)] + body)
