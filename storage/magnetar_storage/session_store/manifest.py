"""A manifest: the segments of a session that are in its packs (docs/formats.md, "Manifest").

Manifests and packs are objects that are written once, under names that are never used again: their
numbers are like segment ids, and name the session that has written them.  That is not always the
session that they belong to, since another process settles the segments of a process that died.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Sealed, SegmentId

MAGIC: Final = b"MAGNMANI"
VERSION: Final = 1
HEAD: Final = Struct("<8sIIQ")
"""magic, version, session, number of rows."""
ROW: Final = Struct("<QQQQII")
"""segment, entries, messages, payload bytes, 1 if the file has its footer, number of extents."""
EXTENT: Final = Struct("<QQQ")
"""pack, offset, bytes."""
CRC: Final = Struct("<I")
EMPTY_BYTES: Final = HEAD.size + CRC.size
"""The size of a manifest without rows."""


class Extent(NamedTuple):
    """A part of a segment's file in a pack; the extents of a segment follow each other."""

    pack: int
    at: int
    size: int


class SegmentRow(NamedTuple):
    """A segment, as far as it is in packs."""

    entries: int = 0
    messages: int = 0
    size: int = 0
    """The bytes of the payloads."""
    is_finished: bool = False
    """Whether the file has its footer: then it no longer changes, and its extents are all of it."""
    extents: tuple[Extent, ...] = ()

    @property
    def length(self) -> int:
        """The bytes of the file."""
        return sum(extent.size for extent in self.extents)

    @property
    def end(self) -> Sealed:
        """The end of the segment, if it does not grow any more."""
        return Sealed(self.entries, self.messages, self.size)


Rows = Mapping[SegmentId, SegmentRow]


def packs_of(rows: Iterable[SegmentRow]) -> set[int]:
    """Return the packs that the rows need."""
    return {extent.pack for row in rows for extent in row.extents}


def encode(session: int, rows: Rows) -> bytes:
    """Encode a manifest."""
    parts = [HEAD.pack(MAGIC, VERSION, session, len(rows))]
    for segment, row in rows.items():
        parts.append(
            ROW.pack(
                segment, row.entries, row.messages, row.size, row.is_finished, len(row.extents)
            )
        )
        parts += [EXTENT.pack(*extent) for extent in row.extents]
    data = b"".join(parts)
    return data + CRC.pack(crc32c(data))


def decode(name: str, data: bytes, session: int) -> dict[SegmentId, SegmentRow]:
    """Decode the manifest of a session; `Corrupt` unless every byte is intact."""
    body = data[: -CRC.size]
    if len(data) < HEAD.size + CRC.size or CRC.unpack(data[-CRC.size :])[0] != crc32c(body):
        raise Corrupt(name, 0, "the checksum of the manifest differs")
    magic, version, whose, n = HEAD.unpack_from(body)
    if magic != MAGIC or version != VERSION or whose != session:
        raise Corrupt(
            name, 0, f"expected a manifest of version {VERSION} of session {session}, got"
            f" {magic!r}, version {version}, session {whose}",
        )  # fmt: skip
    rows: dict[SegmentId, SegmentRow] = {}
    at = HEAD.size
    for _ in range(n):
        segment, entries, messages, size, is_finished, extents = ROW.unpack_from(body, at)
        at += ROW.size
        until = at + EXTENT.size * extents
        places = tuple(map(Extent._make, EXTENT.iter_unpack(body[at:until])))
        rows[segment] = SegmentRow(entries, messages, size, bool(is_finished), places)
        at = until
    return rows
