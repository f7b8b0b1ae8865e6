"""Cutting a write into aligned pieces, as required for a write past the system's cache."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

JOIN_BELOW_BYTES = 4096
"""Buffers smaller than this on average are cheaper to join than to pass one by one."""
JOINED = 1024
"""The number of small buffers joined at a time."""


class Piece(NamedTuple):
    """A part of a write."""

    at: int
    """The offset in the file."""
    size: int
    aligned: bool
    """Whether offset and size are multiples of the alignment."""


def cut(offset: int, size: int, alignment: int, piece_bytes: int) -> Iterator[Piece]:
    """Yield the pieces of a write, in order: aligned ones, and unaligned ones at either end.

    `piece_bytes`, a multiple of the alignment, is the size limit of a piece.
    """
    end = offset + size
    last = end // alignment * alignment
    # The next aligned offset, or the end if the write does not reach one.
    at = min(-(-offset // alignment) * alignment, end)
    if at > offset:
        # promise[False -> True]: what is not aligned is not written directly
        yield Piece(offset, at - offset, False)
    while at < last:
        piece = min(piece_bytes, last - at)
        yield Piece(at, piece, True)
        at += piece
    # Less than a block is left, which only the usual write can write.
    if at < end:
        yield Piece(at, end - at, False)


class Source:
    """The bytes of some buffers, one after the other, to be copied piece by piece."""

    def __init__(self, buffers: Sequence[bytes]) -> None:
        self._later = _joined(buffers)
        self._rest = memoryview(b"")

    def copy(self, room: memoryview) -> None:
        """Fill `room` with the next bytes; there must be enough of them."""
        filled = 0
        while filled < len(room):
            if not self._rest:
                self._rest = memoryview(next(self._later))
            # Of the present buffer only: pieces and buffers end at different places.
            size = min(len(self._rest), len(room) - filled)
            room[filled : filled + size] = self._rest[:size]
            self._rest = self._rest[size:]
            filled += size


def _joined(buffers: Sequence[bytes]) -> Iterator[bytes]:
    for start in range(0, len(buffers), JOINED):
        chunk = buffers[start : start + JOINED]
        if sum(map(len, chunk)) < JOIN_BELOW_BYTES * len(chunk):
            yield b"".join(chunk)
        else:
            yield from chunk
