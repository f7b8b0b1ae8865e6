"""Entries of the write-ahead log in memory, as segments that are readable and can be settled."""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local.record import HEADER, Buffers, from_bytes
from magnetar_storage.local.segment_file import RECORDS_AT
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.wal.slot import RecordPlace

CONTROL: Final[SegmentId] = 0
"""The segment of the write-ahead log whose entries are changes of segments."""
_BODY: Final = Struct("<BQ")


class ChangeKind(IntEnum):
    """The changes of a segment that are not entries."""

    CREATE = 1
    DELETE = 2


class Change(NamedTuple):
    """An entry of `CONTROL`."""

    kind: ChangeKind
    segment: SegmentId

    def encode(self) -> bytes:
        return _BODY.pack(*self)

    @classmethod
    def decode(cls, payload: bytes) -> "Change":
        """Decode an entry of an intact record."""
        kind, segment = _BODY.unpack(payload)
        return cls(ChangeKind(kind), segment)


def take_record(one: LocalSegment, place: RecordPlace, record: Buffers) -> None:
    """Add a durable record of the write-ahead log to its segment."""
    if place.is_origin:
        assert isinstance(record, bytes)
        one.origin = record
        one.index.begin(RECORDS_AT + place.size)
        return
    # The tables are in the first part of a record that was not joined.
    front = record if isinstance(record, bytes) else record[0]
    counts_at = HEADER.size + 4 * place.n
    counts = from_bytes(front[counts_at : counts_at + 4 * place.n])
    one.index.add(place.n, counts, place.size)
    one.unwritten.append(record)
    one.committed_blocks += 1
