"""The head of a file that belongs to one segment: its type and segment (docs/formats.md)."""

from struct import Struct

from crc32c import crc32c

from magnetar_storage.interfaces import SegmentId

FIELDS = Struct("<8sIIQ")
"""magic, version, zero, segment."""
CRC = Struct("<I")
BYTES = FIELDS.size + CRC.size


def encode(magic: bytes, version: int, segment: SegmentId) -> bytes:
    packed = FIELDS.pack(magic, version, 0, segment)
    return packed + CRC.pack(crc32c(packed))


def checksum_of(head: bytes) -> int:
    """Return the checksum at the end of a head."""
    (crc,) = CRC.unpack_from(head, FIELDS.size)
    return int(crc)  # promise[int(crc) -> 0]: a part of an index fits into one file only
