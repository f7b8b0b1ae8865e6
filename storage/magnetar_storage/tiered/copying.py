"""Copying one segment file to a store of objects: blocking work for a thread.

Every block is verified before the upload, and the object is read back and compared after it.
"""

from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from magnetar_storage.errors import Corrupt, LogClosed, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import footer
from magnetar_storage.local import segment_file as segments
from magnetar_storage.local.segment_file import Blocks, Index, read_blocks
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.whole_files import file_size

VERIFIED_BYTES: Final = 4 << 20
"""The approximate bytes that are verified at a time: one request for an object."""

GoesOn = Callable[[], bool]


def copy(
    disk: ReadableDisk, segment: SegmentId, objects: Objects, name: str, goes_on: GoesOn
) -> int:
    """Copy the finished file of a segment to an object; returns its size.

    `Corrupt` if entries of the file are damaged: nothing is uploaded then.  `Unavailable` if the
    object is not what was uploaded.  `LogClosed` soon after `goes_on` returns False.
    """
    verify(disk, segment, goes_on)
    size = file_size(disk, segments.file_name(segment))
    file = segments.open_segment(disk, segment)
    uploaded = 0

    def read(offset: int, n: int) -> bytes:
        nonlocal uploaded
        _check(goes_on)
        data = file.read(offset, n)
        uploaded = crc32c(data, uploaded)
        return data

    try:
        objects.upload(name, size, read)
    finally:
        file.close()
    # promise[_checksum(objects, name, size, goes_on) -> uploaded]: a copy is complete once it was
    #   read back
    stored = _checksum(objects, name, size, goes_on)
    if stored != uploaded:
        raise Unavailable(
            f"object {name} is not what was uploaded: its CRC-32C is {stored:08x}, that of the "
            f"segment {uploaded:08x}; it is uploaded again later"
        )
    return size


def _checksum(objects: Objects, name: str, size: int, goes_on: GoesOn) -> int:
    """Return the CRC-32C of an object's first `size` bytes."""
    found = 0
    for offset in range(0, size, VERIFIED_BYTES):
        _check(goes_on)
        found = crc32c(objects.read(name, offset, min(VERIFIED_BYTES, size - offset)), found)
    return found


def verify(disk: ReadableDisk, segment: SegmentId, goes_on: GoesOn) -> None:
    """Verify all blocks of a finished file, and its footer; `Corrupt` names what is damaged."""
    index, trouble = footer.load(disk, segment)
    if trouble is not None:
        raise Corrupt(segments.file_name(segment), 0, trouble, segment)
    block = 0
    while block < index.blocks:
        _check(goes_on)
        stop = _stop(index, block)
        blocks = Blocks.of(segment, index, block, stop)
        damaged = segments.first_damaged(read_blocks(disk, blocks), blocks)
        if damaged is not None:
            raise blocks.damaged(damaged)
        block = stop


def _stop(index: Index, block: int) -> int:
    """Return the end of the blocks to verify together: at least one."""
    stop = block + 1
    while stop < index.blocks and index.offsets[stop + 1] - index.offsets[block] <= VERIFIED_BYTES:
        stop += 1
    return stop


def _check(goes_on: GoesOn) -> None:
    if not goes_on():
        raise LogClosed("the topic was closed or deleted while a segment was copied")
