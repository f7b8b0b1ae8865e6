"""Packs: objects with parts of the files of many segments, sorted by segment.

A part of a file has the same bytes as it has in the local engine (docs/formats.md, "Segment"), so
that the parts of a segment, one behind the other, are a segment file.  Blocking work for a thread.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import footer, segment_file
from magnetar_storage.local.checkpoint import Flush
from magnetar_storage.local.record import flat
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.session_store.manifest import Extent

PACK_BYTES: Final = 64 << 20
"""The size from which no further segment is added to a pack."""
ALONE_BYTES: Final = 8 << 20
"""The size from which a segment has a pack of its own: it is deleted with the segment."""


class Part(NamedTuple):
    """The part of one segment in one pack."""

    segment: SegmentId
    extent: Extent
    is_finished: bool
    """Whether the extent ends with the footer."""


def portions(flushes: Sequence[Flush]) -> Iterator[list[Flush]]:
    """Divide records to be stored among packs."""
    together: list[Flush] = []
    size = 0
    for flush in sorted(flushes, key=lambda flush: flush.segment):
        bytes_of = sum(map(len, flat(flush.records)))
        if bytes_of >= ALONE_BYTES:
            yield [flush]
            continue
        together.append(flush)
        size += bytes_of
        if size >= PACK_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def write_pack(objects: Objects, name: str, pack: int, flushes: Sequence[Flush]) -> list[Part]:
    """Store the records as pack number `pack`, and read back that it is complete."""
    buffers: list[bytes] = []
    parts: list[Part] = []
    at = 0
    for flush in flushes:
        first = len(buffers)
        if not flush.offset:
            buffers += [segment_file.encode_file_head(flush.segment), flush.origin]
        buffers += flat(flush.records)
        if flush.footer is not None:
            buffers.append(footer.encode_footer(flush.segment, *flush.footer))
        size = sum(map(len, buffers[first:]))
        parts.append(Part(flush.segment, Extent(pack, at, size), flush.footer is not None))
        at += size
    store(objects, name, buffers)
    return parts


def store(objects: Objects, name: str, buffers: Sequence[bytes]) -> None:
    """Store an object whose name nobody else uses; `Unavailable` unless it is there as a whole."""
    ends = list(accumulate(map(len, buffers)))
    size = ends[-1] if ends else 0

    def read(offset: int, n: int) -> bytes:
        """Return some of the bytes: all of them together would take as much memory again."""
        parts: list[bytes | memoryview] = []
        at = bisect_right(ends, offset)
        while n and at < len(buffers):
            begin = offset - (ends[at] - len(buffers[at]))
            part = memoryview(buffers[at])[begin : begin + n]
            parts.append(part)
            offset, n, at = offset + len(part), n - len(part), at + 1
        return b"".join(parts)

    # Unconditionally: an attempt whose outcome was unknown wrote the same bytes.
    objects.upload(name, size, read)
    # promise[objects.size(name) -> size]: the log is not given up for an object that is not
    #   there as a whole
    stored = objects.size(name)
    if stored != size:
        raise Unavailable(
            f"object {name} has {stored} bytes, {size} were written: it is written again"
        )
