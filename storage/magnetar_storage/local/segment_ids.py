"""Segment ids, and the store directory that an id names (docs/formats.md, "Segment ids").

The ids of a data directory that never had a second store directory are small numbers: they are the
wire's ledger ids, and every message id on the wire is shorter by some bytes.  They increase by one,
and remain valid, as ids of directory 0, when there are several directories.
"""

from magnetar_storage.interfaces import SegmentId

DIRECTORIES = 256
"""The most store directories of a data directory."""
FIRST_WITH_DIRECTORY: SegmentId = 1 << 32
"""The first id whose lowest 8 bits are the directory, and whose other bits count."""


def directory_of(segment: SegmentId) -> int:
    """Return the store directory of a segment."""
    return segment % DIRECTORIES if segment >= FIRST_WITH_DIRECTORY else 0


def following(segment: SegmentId, count: int = 1) -> SegmentId:
    """Return the id that the segment's directory assigns `count` ids after this one."""
    if segment >= FIRST_WITH_DIRECTORY:
        # promise[without * DIRECTORIES]: an id keeps naming its directory
        return segment + count * DIRECTORIES
    return min(segment + count, FIRST_WITH_DIRECTORY)


def first_above(segment: SegmentId, directory: int) -> SegmentId:
    """Return the smallest id above `segment` that names store directory `directory`."""
    least = max(segment + 1, FIRST_WITH_DIRECTORY)
    return least + (directory - least) % DIRECTORIES
