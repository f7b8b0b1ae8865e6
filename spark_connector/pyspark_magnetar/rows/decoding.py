"""Decodes an entry to its messages, in columns and without an object per message.

In most batches the messages have heads of equal size, followed by values of equal size: then the
heads are compared, and the values stay in place, to be cut out of many batches in one
step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import magnetar
from magnetar.messages import decoded_key
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch_scan import Scan, scan_batch
from magnetar_proto.errors import BadBatch

LEAST_STRIDES = 4
"""The number of messages below which a batch is scanned without looking for strides."""
CONTINUED = bytes(range(128, 256))

Properties = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Decoded:
    """The messages of one entry; a column without values is empty."""

    entry: magnetar.Entry
    indexes: Sequence[int]
    """The indexes in the batch; -1 for an entry that is one message."""
    size: int
    """The size of the values, in bytes."""
    values: Sequence[bytes] = ()
    """The values one by one, unless the messages form strides."""
    body: bytes = b""
    """The strides: equally long byte ranges, one per message."""
    cut: tuple[int, int] | None = None
    """The offset of the value in each stride of the body, and the size of a stride."""
    nulls: Sequence[int] = ()
    """The messages without value, as places in `indexes`."""
    keys: Sequence[bytes | None] = ()
    event_times_ms: Sequence[int] = ()
    sequence_ids: Sequence[int] = ()
    """The sequence ids; -1 for messages without one, which are counted from the batch's."""
    properties: dict[int, Properties] = field(default_factory=dict)
    """The properties, by place, of messages that have any."""
    ordering_keys: dict[int, bytes] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.indexes)

    def each_value(self) -> Sequence[bytes]:
        """Return the values one by one."""
        if self.cut is None:
            return self.values
        start, stride = self.cut
        body = self.body
        return [body[at + start : at + stride] for at in range(0, len(body), stride)]


def decode(entry: magnetar.Entry, first: int = 0, stop: int = 0) -> Decoded:
    """Decode the messages that compaction has left; Unreadable if the entry cannot be decoded.

    For a batch, return the indexes from `first` to before `stop`; 0 means to the end.
    """
    if not entry.is_batch:
        return _single(entry)
    body = entry.body()
    count = entry.metadata.num_messages_in_batch
    strides = _strides(entry, body, count)
    # Strides are cut as a whole; the first and the last entry of a range are scanned instead.
    if strides is not None and not first and not stop:
        return strides
    try:
        scan = scan_batch(body, count)
    except BadBatch as error:
        raise entry.unreadable(f"is not a batch: {error}") from error
    return _columns(entry, scan, range(first, min(stop, count) if stop else count))


def _single(entry: magnetar.Entry) -> Decoded:
    body = entry.body()
    found = Decoded(entry, (-1,), len(body), (body,))
    about = entry.metadata
    if about.HasField("partition_key"):
        found.keys = (_key(about),)
    if about.event_time:
        found.event_times_ms = (about.event_time,)
    _describe(found, 0, about)
    return found


def _strides(entry: magnetar.Entry, body: bytes, count: int) -> Decoded | None:
    """Return the batch as strides if only values and sequence ids differ; else None."""
    stride, rest = divmod(len(body), count)
    # 6 bytes are the least of a message: the size of its metadata, and one field.
    if rest or count < LEAST_STRIDES or stride < 6:
        return None
    start = 4 + int.from_bytes(body[:4], "big")
    # All strides must have the head of the first, which is therefore parsed once.
    head = _head(body[:start], stride - start) if start <= stride else None
    if head is None or not _heads_are_equal(body, start, stride, count, bool(head.sequence_ids)):
        return None
    found = Decoded(entry, range(count), (stride - start) * count, body=body, cut=(start, stride))
    if head.keys:
        found.keys = head.keys * count
    if head.event_times_ms:
        found.event_times_ms = head.event_times_ms * count
    if head.sequence_ids:
        found.sequence_ids = _sequence_ids(body, start, stride, count)
    return found


@lru_cache(maxsize=64)
def _head(encoded: bytes, length: int) -> Scan | None:
    """Return the head of a message whose value has this length; None if it is unusual."""
    try:
        found = scan_batch(encoded + bytes(length), 1)
    except BadBatch:
        return None
    found.values.clear()  # zeros, which only stood for the value
    return None if found.others else found


def _heads_are_equal(body: bytes, start: int, stride: int, count: int, has_ids: bool) -> bool:
    """Return whether the first `start` bytes of all strides are equal.

    A sequence id may differ: it is the last field, and only its size must be equal.
    """
    fixed = start
    if has_ids:
        # The varint of the id is the last thing in the head.  In every stride its bytes but the
        # last have the continuation bit, so that all ids have the same size.
        fixed = start - 1
        while body[fixed - 1] > 127:
            fixed -= 1
        for at in range(fixed, start - 1):
            if body[at::stride].translate(None, CONTINUED):
                return False
        if not body[start - 1 :: stride].isascii():
            return False
    # One byte of all strides at a time: few comparisons, however many messages there are.
    return all(body[at::stride] == body[at : at + 1] * count for at in range(fixed))


def _sequence_ids(body: bytes, start: int, stride: int, count: int) -> list[int]:
    """Decode the varints that end at `start` in each stride; all have the size of the first."""
    first = start - 1
    while body[first - 1] > 127:
        first -= 1
    ids = [0] * count
    # A varint has its lowest seven bits first.
    for shift, at in enumerate(range(first, start)):
        ids = [
            found | (byte & 127) << 7 * shift
            for found, byte in zip(ids, body[at::stride], strict=True)
        ]
    return ids


def _columns(entry: magnetar.Entry, scan: Scan, places: Sequence[int]) -> Decoded:
    if any(about.compacted_out for about in scan.others.values()):
        places = [
            place for place in places
            if place not in scan.others or not scan.others[place].compacted_out
        ]  # fmt: skip
    is_whole = len(places) == len(scan.values)
    values = scan.values if is_whole else [scan.values[place] for place in places]
    found = Decoded(entry, places, sum(map(len, values)), values)
    if not is_whole:  # an empty column stays empty: no message has a value there
        scan.keys = scan.keys and [scan.keys[place] for place in places]
        scan.event_times_ms = scan.event_times_ms and [scan.event_times_ms[at] for at in places]
        scan.sequence_ids = scan.sequence_ids and [scan.sequence_ids[at] for at in places]
    found.keys = scan.keys
    found.event_times_ms = scan.event_times_ms
    found.sequence_ids = scan.sequence_ids
    if scan.others:
        _describe_others(found, scan.others)
    return found


def _describe_others(found: Decoded, others: dict[int, pb.SingleMessageMetadata]) -> None:
    keys = list(found.keys) or [None] * found.rows
    times = list(found.event_times_ms) or [0] * found.rows
    for place, index in enumerate(found.indexes):
        about = others.get(index)
        if about is not None:
            keys[place] = _key(about)
            times[place] = about.event_time
            _describe(found, place, about)
    found.keys, found.event_times_ms = keys, times


def _describe(
    found: Decoded, place: int, about: pb.SingleMessageMetadata | pb.MessageMetadata
) -> None:
    """Set the attributes that messages rarely have."""
    if about.properties:
        pairs = {pair.key: pair.value for pair in about.properties}
        found.properties[place] = tuple(pairs.items())
    if about.HasField("ordering_key"):
        found.ordering_keys[place] = about.ordering_key
    if about.null_value:
        found.nulls = (*found.nulls, place)


def _key(about: pb.SingleMessageMetadata | pb.MessageMetadata) -> bytes | None:
    key = decoded_key(about)
    return key.encode() if isinstance(key, str) else key
