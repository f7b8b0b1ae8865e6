"""Decoding of batches into columns, like `batch`, but without an object for each message.

Keys, event times and sequence ids are read by hand, in the order in which all serializers write
fields; a message with anything else, or in another order, is left to the generated class.
"""

from typing import Final

from google.protobuf.message import DecodeError

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import SMALLEST_MESSAGE
from magnetar_proto.commands import MAX31
from magnetar_proto.errors import BadBatch, BadCommand
from magnetar_proto.wire import decode_varint

KEY_TAG: Final = 0x12
PAYLOAD_SIZE_TAG: Final = 0x18
EVENT_TIME_TAG: Final = 0x28
SEQUENCE_ID_TAG: Final = 0x40
UNUSUAL: Final[tuple[int, bytes | None, int, int]] = (-1, None, 0, -1)


class Scan:
    """The messages of one batch, by column; an empty list stands for a column without any value."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.keys: list[bytes | None] = []
        """Keys as in the metadata: keys of bytes are in Base64, with an entry in `others`."""
        self.event_times_ms: list[int] = []
        """Event times; 0 for a message without one."""
        self.sequence_ids: list[int] = []
        """Sequence ids; -1 for a message without one of its own."""
        self.others: dict[int, pb.SingleMessageMetadata] = {}
        """The metadata of messages with further fields, by index; keys and times are only here."""


def scan_batch(body: bytes, count: int) -> Scan:
    """Scan a body of exactly `count` messages; BadBatch otherwise."""
    end = len(body)
    if not 0 <= count <= end // SMALLEST_MESSAGE:
        raise BadBatch(f"{count} messages cannot lie in {end} bytes")
    scan = Scan()
    keys: list[bytes | None] = []
    times_ms: list[int] = []
    sequence_ids: list[int] = []
    pos = 0
    for index in range(count):
        head = pos + 4
        if head > end:
            raise BadBatch(f"message {index} is missing")
        start = head + (body[pos] << 24 | body[pos + 1] << 16 | body[pos + 2] << 8 | body[pos + 3])
        payload_size, key, time_ms, sequence_id = _usual(body, head, start)
        if payload_size < 0:
            about = _described(body, head, start, index)
            scan.others[index] = about
            payload_size = about.payload_size
            sequence_id = about.sequence_id if about.HasField("sequence_id") else -1
        keys.append(key)
        times_ms.append(time_ms)
        sequence_ids.append(sequence_id)
        pos = start + payload_size
        if pos > end:
            raise BadBatch(f"message {index} ends at byte {pos} of {end}")
        scan.values.append(body[start:pos])
    if pos != end:
        raise BadBatch(f"{end - pos} bytes after the last of {count} messages")
    if any(key is not None for key in keys):
        scan.keys = keys
    if any(times_ms):
        scan.event_times_ms = times_ms
    if max(sequence_ids, default=-1) >= 0:
        scan.sequence_ids = sequence_ids
    return scan


def _usual(body: bytes, at: int, start: int) -> tuple[int, bytes | None, int, int]:
    """Read payload size, key, event time and sequence id in the metadata from `at` to `start`.

    The payload size is -1 if the generated class must decide.
    """
    key: bytes | None = None
    time_ms, sequence_id = 0, -1
    try:
        if body[at] == KEY_TAG and body[at + 1] < 128:
            size = body[at + 1]
            at += 2
            key = body[at : at + size]
            at += size
        if body[at] != PAYLOAD_SIZE_TAG:
            return UNUSUAL
        payload_size, at = decode_varint(body, at + 1)
        if at < start and body[at] == EVENT_TIME_TAG:
            time_ms, at = decode_varint(body, at + 1)
        if at < start and body[at] == SEQUENCE_ID_TAG:
            sequence_id, at = decode_varint(body, at + 1)
    except (IndexError, BadCommand):
        return UNUSUAL
    if at != start or payload_size > MAX31:
        return UNUSUAL
    return payload_size, key, time_ms, sequence_id


def _described(body: bytes, head: int, start: int, index: int) -> pb.SingleMessageMetadata:
    """Parse the metadata of a message, from `head` to `start`."""
    if start > len(body):
        raise BadBatch(f"metadata of message {index} ends at byte {start} of {len(body)}")
    try:
        about = pb.SingleMessageMetadata.FromString(body[head:start])
    except DecodeError as error:
        raise BadBatch(f"unreadable metadata of message {index}") from error
    if not about.HasField("payload_size"):
        raise BadBatch(f"message {index} has no payload size")
    if about.payload_size < 0:
        raise BadBatch(f"message {index} has a payload of {about.payload_size} bytes")
    if not about.IsInitialized():
        raise BadBatch(f"message {index} has a property without key or value")
    return about
