"""The ORIGIN record: the purpose of a segment (docs/formats.md, "Origin").

It is in the journal before the segment's first entries, and in the segment's file after the head.
"""

import json
from typing import Any, NamedTuple

from magnetar_storage.identity import ID_BYTES, UNKNOWN, Identity
from magnetar_storage.interfaces import Replaced, SegmentId, SegmentKind, SegmentOrigin
from magnetar_storage.local import segment_file
from magnetar_storage.local.record import HEADER, ORIGIN, Record, encode, record_at
from magnetar_storage.runtime.disk import File, ReadableDisk

as_json = json.JSONEncoder(separators=(",", ":")).encode
USUAL_BYTES = 512
"""A size that most origins do not exceed."""


class Named(NamedTuple):
    """The origin of a segment, and the metadata's identity when its first entries were stored."""

    origin: SegmentOrigin
    identity: Identity


def encoded(segment: SegmentId, origin: SegmentOrigin, identity: Identity) -> bytes:
    """Encode the record of a segment before its first entry; the metadata lists it already."""
    fields: dict[str, Any] = {
        # With the log, its kind and epoch, a lost database of metadata can be made again from the
        # files of segments.
        "log": origin.log,
        "kind": origin.kind,
        "epoch": origin.epoch,
        "created_ms": origin.created_ms,
    }
    if identity.directory != UNKNOWN.directory:
        fields["directory"] = identity.directory.hex()
        fields["starts"], fields["revision"] = identity.starts, identity.revision
    # Left out where they have their usual value: there is an origin for every segment, and most
    # have only the fields above.
    if origin.first_offset:
        fields["first_offset"] = origin.first_offset
    if origin.first_messages is not None:
        fields["first_messages"] = origin.first_messages
    if origin.replaces:
        fields["replaces"] = origin.replaces
    return encode(ORIGIN, segment, as_json(fields).encode())


def _decoded(data: bytes, record: Record) -> Named | None:
    """Decode an intact record; None if a later release wrote it in a way unknown here."""
    try:
        fields = json.loads(data[record.at + HEADER.size : record.end])
        origin = SegmentOrigin(
            str(fields["log"]),
            SegmentKind(fields["kind"]),
            int(fields["epoch"]),
            int(fields["created_ms"]),
            int(fields.get("first_offset", 0)),
            # Fields that a later release adds are ignored, those that an earlier one lacks have a
            # value.
            tuple(Replaced(*map(int, one)) for one in fields.get("replaces", ())),
            None if "first_messages" not in fields else int(fields["first_messages"]),
        )
        directory = bytes.fromhex(fields.get("directory", UNKNOWN.directory.hex()))
        if len(directory) != ID_BYTES:
            return None
        counts = int(fields.get("starts", 0)), int(fields.get("revision", 0))
        return Named(origin, Identity(directory, *counts))
    # The record is intact, so this is another way of writing it, and not damage: the segment is
    # readable, only its purpose is unknown.
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def of(data: bytes, segment: SegmentId | None = None) -> Named | None:
    """Decode the ORIGIN at the beginning of some bytes; None unless it is intact.

    The ORIGIN of another segment is None too, unless `segment` is None.
    """
    record = record_at(data, 0)
    if record is None or record.kind != ORIGIN or segment not in (None, record.segment):
        return None
    return _decoded(data, record)


def read(disk: ReadableDisk, segment: SegmentId) -> Named | None:
    """Read the ORIGIN in the file of a segment; None if it is missing or damaged.

    Raises `NoSegment` if there is no file.
    """
    file = segment_file.open_segment(disk, segment)
    try:
        return read_from(file, segment)
    finally:
        file.close()


def read_from(file: File, segment: SegmentId | None = None) -> Named | None:
    """Read the ORIGIN from an open file; that of any segment if `segment` is None."""
    # Usually one read: a rebuild and the check of a start read the origins of many files.
    data = file.read(segment_file.RECORDS_AT, USUAL_BYTES)
    size = segment_file.origin_size(data, segment)
    if size > len(data):
        data = file.read(segment_file.RECORDS_AT, size)
    return of(data, segment)
