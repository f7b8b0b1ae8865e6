"""Moves what is left of packs that are mostly garbage, and joins the parts of segments.

Blocking work for a thread, and the choice of what to move, which looks at all segments.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from magnetar_storage.errors import NoObject
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import segment_file
from magnetar_storage.objects.interfaces import Objects, ReadableObjects
from magnetar_storage.session_store import packs
from magnetar_storage.session_store.manifest import Extent, Rows, SegmentRow

GARBAGE: Final = 2
"""A pack is rewritten when it has this many times the bytes that are needed of it."""
JOINED_BYTES: Final = 1 << 20
"""The size from which a part is not moved to join it with others: a read of it is long enough."""


class Move(NamedTuple):
    """Extents of one segment, one behind the other, that become one."""

    segment: SegmentId
    first: int
    stop: int
    """The extents from number `first` to before `stop`."""
    offset: int
    """Their offset in the segment's file."""
    size: int


def moves_in(
    rows: Rows, sizes: Mapping[int, int], most_extents: int, limit: int = packs.PACK_BYTES
) -> list[Move]:
    """Choose what to move now, of about `limit` bytes.

    `sizes` are the bytes of packs; others are not rewritten.  Finished segments with more than
    `most_extents` parts are joined.
    """
    needed = Counter[int]()
    for row in rows.values():
        for extent in row.extents:
            needed[extent.pack] += extent.size
    thin = {pack for pack, size in sizes.items() if needed[pack] * GARBAGE < size}
    found: list[Move] = []
    for segment, row in rows.items():
        is_split = row.is_finished and len(row.extents) > most_extents
        for move in _runs(segment, row.extents, thin, is_split):
            found.append(move)
            limit -= move.size
        if limit <= 0:
            break
    return found


def _runs(
    segment: SegmentId, extents: Sequence[Extent], thin: set[int], is_split: bool
) -> Iterator[Move]:
    """Yield the longest runs of extents that should move."""
    offset = first = start = 0
    for number, extent in enumerate((*extents, None)):
        moves = extent is not None and (
            extent.pack in thin or (is_split and extent.size < JOINED_BYTES)
        )
        if not moves:
            run = extents[first:number]
            if len(run) > 1 or any(each.pack in thin for each in run):
                yield Move(segment, first, number, start, offset - start)
            first = number + 1
        if extent is not None:
            offset += extent.size
            start = start if moves else offset
    # The last one is None, so that a run which ends with the extents is yielded, too.


def write_moved(
    objects: Objects, files: ReadableObjects, name: str, pack: int, moves: Sequence[Move]
) -> list[tuple[Move, Extent]]:
    """Copy the extents to a new pack, byte for byte; returns the new ones.

    Those of segments that are deleted meanwhile are left out.
    """
    buffers: list[bytes] = []
    done: list[tuple[Move, Extent]] = []
    at = 0
    for move in moves:
        with suppress(NoObject):
            file = segment_file.file_name(move.segment)
            buffers.append(files.read(file, move.offset, move.size))
            done.append((move, Extent(pack, at, move.size)))
            at += move.size
    packs.store(objects, name, buffers)
    return done


def replace(rows: dict[SegmentId, SegmentRow], done: Sequence[tuple[Move, Extent]]) -> None:
    """Put the new extents into rows in place of the old ones."""
    # From the last one on: the numbers of those before it stay valid.
    for move, extent in reversed(done):
        row = rows[move.segment]
        rows[move.segment] = row._replace(
            extents=(*row.extents[: move.first], extent, *row.extents[move.stop :])
        )
