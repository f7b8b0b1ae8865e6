"""Delays in two columns: the times at which they are over, and the offsets of their entries."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from struct import error as StructError
from typing import Final, NamedTuple

from magnetar_storage.local.record import from_bytes, to_bytes

BLOCK: Final = 1024
"""The number of delays that are sorted, encoded or read in one step."""
MAX_TIME: Final = (1 << 63) - 1


class Block(NamedTuple):
    """Delays as columns of the same length."""

    times: "array[int]"
    """The times in milliseconds since 1970."""
    offsets: "array[int]"

    def only(self, holds: Callable[[int], bool]) -> "Block":
        """Return the delays of offsets for which `holds` is true, in the same order."""
        places = [at for at, offset in enumerate(self.offsets) if holds(offset)]
        if len(places) == len(self.offsets):
            return self
        return block_of([self.times[at] for at in places], [self.offsets[at] for at in places])


def block_of(times: Sequence[int], offsets: Sequence[int]) -> Block:
    """Return a block of delays in this order."""
    return Block(array("q", times), array("q", offsets))


def sorted_block(times: Sequence[int], offsets: Sequence[int]) -> Block:
    """Return a block of delays in the order of their times."""
    if len(times) < 2:
        return block_of(times, offsets)
    times, offsets = list(times), list(offsets)  # read faster than arrays
    in_order = itemgetter(*sorted(range(len(times)), key=times.__getitem__))
    return block_of(in_order(times), in_order(offsets))


def encode_block(block: Block) -> bytes:
    """Encode a block of delays."""
    return to_bytes(block.times) + to_bytes(block.offsets)


def decode_block(data: bytes, at: int = 0) -> Block:
    """Decode a block of `encode_block`; `struct.error` if the data is not one."""
    try:
        numbers = from_bytes(data[at:], "q")
    except ValueError as error:
        raise StructError(f"a block of delays is cut short: {error}") from error
    n, rest = divmod(len(numbers), 2)
    if rest:
        raise StructError("a block of delays has times without offsets")
    return Block(numbers[:n], numbers[n:])


def merged(parts: Sequence[Block], size: int = BLOCK) -> Iterator[Block]:
    """Merge sorted blocks; yields blocks of `size`, except for the last.

    A block is a step of work that does not grow with their number: samples of the times determine
    how far to go in each part.
    """
    stride = max(1, size // max(1, len(parts)))
    samples = sorted(time for part in parts for time in part.times[::stride])
    at = [0] * len(parts)
    rest = block_of((), ())
    for until_ms in (*samples[:: max(1, size // stride)], MAX_TIME):
        times, offsets = array("q"), array("q")
        for number, part in enumerate(parts):
            start, stop = at[number], bisect_right(part.times, until_ms, at[number])
            times += part.times[start:stop]
            offsets += part.offsets[start:stop]
            at[number] = stop
        piece = sorted_block(times, offsets)
        rest = Block(rest.times + piece.times, rest.offsets + piece.offsets)
        start = 0
        while len(rest.times) - start >= size:
            yield Block(rest.times[start : start + size], rest.offsets[start : start + size])
            start += size
        rest = Block(rest.times[start:], rest.offsets[start:])
    if rest.times:
        yield rest
