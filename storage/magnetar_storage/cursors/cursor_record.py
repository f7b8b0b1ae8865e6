"""The entries of a cursor segment: changes of cursors and of attached states.

    entry    u8 kind, u32 cursor number, then
    CREATE   u32 name length, name, u32 length, JSON of the properties, whole state
    DELTA    changes               WHOLE    a whole state, replacing the old one
    DELETE   nothing               PROPERTIES   JSON of the new properties
    SIDE     opaque; the number is that of an attached state, not of a cursor
    BITMAPS  more acknowledged offsets

A large state is cut into several entries: the first is CREATE or WHOLE, the others are deltas.
Functions that read raise `struct.error` or ValueError for bytes that are not an entry.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain, islice
from struct import Struct, pack
from typing import NamedTuple, Protocol, TypeVar

HEAD = Struct("<BI")
_SIZE = Struct("<I")
_STATE = Struct("<qII")  # mark-delete, number of ranges, number of masks
_RANGE = Struct("<qq")
_MASK = Struct("<qI")  # offset, bytes of the mask that follows
_COUNT = Struct("<qI")
_BITMAP = Struct("<qH")  # offset of bit 0, bytes of the bitmap that follows
MOST_RANGES = 8
"""A chunk of offsets with more ranges is written as a bitmap, which is smaller then."""
FARTHEST = (1 << 63) - 1
PIECE_BYTES = 1 << 20
"""A larger state is cut into several entries."""

T = TypeVar("T")


class CursorEntryKind(IntEnum):
    """The kinds of entries of a cursor segment."""

    CREATE = 1
    DELTA = 2
    WHOLE = 3
    DELETE = 4
    PROPERTIES = 5
    SIDE = 6
    BITMAPS = 7


Piece = tuple[CursorEntryKind, bytes]
"""A kind, which is WHOLE, DELTA or BITMAPS, and the body."""


NO_COUNTS: Mapping[int, int] = {}


class Counts(Protocol):
    """Redelivery counts by offset: a dictionary, or `RedeliveryCounts`."""

    def __len__(self) -> int: ...

    def items(self) -> Iterable[tuple[int, int]]: ...


class State(NamedTuple):
    """The state of a cursor, or its changes."""

    mark_delete: int
    ranges: Sequence[tuple[int, int]] = ()
    masks: Mapping[int, int] = {}
    counts: Counts = NO_COUNTS
    """The number of redeliveries of entries, by offset."""
    bitmaps: Sequence[tuple[int, int]] = ()
    """(offset, bits): a set bit i means that offset + i is acknowledged."""


def entry(kind: CursorEntryKind, number: int, body: bytes = b"") -> bytes:
    """Encode an entry about the cursor, or the attached state, of that number."""
    return HEAD.pack(kind, number) + body


def created(number: int, name: str, properties: dict[str, str], state: bytes) -> bytes:
    """Encode a CREATE entry."""
    return entry(
        CursorEntryKind.CREATE, number, _text(name) + _text(json.dumps(properties)) + state
    )


def read_created(body: bytes) -> tuple[str, dict[str, str], bytes]:
    """Decode a CREATE; returns name, properties and state."""
    name, at = _read_text(body, 0)
    properties, at = _read_text(body, at)
    return name, json.loads(properties), body[at:]


def _text(text: str) -> bytes:
    data = text.encode()
    return _SIZE.pack(len(data)) + data


def _read_text(body: bytes, at: int) -> tuple[str, int]:
    (size,) = _SIZE.unpack_from(body, at)
    at += _SIZE.size
    return body[at : at + size].decode(), at + size


def pieces(kind: CursorEntryKind, state: State) -> list[Piece]:
    """Encode a state as bodies of entries: one of `kind`, and further ones as needed."""
    # Nearly every change is small, and one entry.
    parts = [state] if _size(state) <= PIECE_BYTES else _parts(state)
    states = [
        (CursorEntryKind.DELTA if number else kind, encode(part))
        for number, part in enumerate(parts)
    ]
    # By the largest: parts may be smaller than they could be, but none exceeds the bound.
    largest = max((_bytes_of(bits) for _, bits in state.bitmaps), default=0)
    bitmaps = [
        (CursorEntryKind.BITMAPS, encode_bitmaps(part))
        for part in _slices(state.bitmaps, _BITMAP.size + largest)
    ]
    # promise[[*states[:1], *bitmaps, *states[1:]] -> states[:1]]: all pieces of a large state are
    #   written
    return [*states[:1], *bitmaps, *states[1:]]


def _size(state: State) -> int:
    masks = len(state.masks) * _MASK.size + sum(map(_bytes_of, state.masks.values()))
    return len(state.ranges) * _RANGE.size + masks + len(state.counts) * _COUNT.size


def _parts(state: State) -> Iterator[State]:
    mark_delete = state.mark_delete
    # Each part has the mark-delete and is a delta by itself, which `apply` merges with the others.
    for ranges in _slices(state.ranges, _RANGE.size):
        yield State(mark_delete, ranges=ranges)
    largest = max(map(_bytes_of, state.masks.values()), default=0)
    for masks in _slices(list(state.masks.items()), _MASK.size + largest):
        yield State(mark_delete, masks=dict(masks))
    # Not by slices of a list: a million counts take far less in this form than as a list of pairs.
    items = iter(state.counts.items())
    while counts := dict(islice(items, PIECE_BYTES // _COUNT.size)):
        yield State(mark_delete, counts=counts)


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Return parts of at most `PIECE_BYTES`, if an item takes `size` bytes."""
    step = max(1, PIECE_BYTES // size)
    return (items[at : at + step] for at in range(0, len(items), step))


def _bytes_of(bits: int) -> int:
    return (bits.bit_length() + 7) // 8


def encode(state: State) -> bytes:
    """Encode a state without its bitmaps (`encode_bitmaps`)."""
    mark_delete, ranges, masks, counts, _ = state
    parts = [
        _STATE.pack(mark_delete, len(ranges), len(masks)),
        pack(f"<{2 * len(ranges)}q", *chain.from_iterable(ranges)),
    ]
    for offset, mask in masks.items():
        size = _bytes_of(mask)
        parts += (_MASK.pack(offset, size), mask.to_bytes(size, "little"))
    # Left out where it is empty, as nearly always: then the bytes are those of earlier releases.
    if counts:
        parts.append(_SIZE.pack(len(counts)))
        parts += [_COUNT.pack(offset, count) for offset, count in counts.items()]
    return b"".join(parts)


def decode(data: bytes) -> State:
    """Decode a state; earlier releases wrote it without the section of counts."""
    mark_delete, ranges_count, masks_count = _STATE.unpack_from(data)
    at = _STATE.size + ranges_count * _RANGE.size
    ranges = list(_RANGE.iter_unpack(data[_STATE.size : at]))
    masks = {}
    for _ in range(masks_count):
        offset, size = _MASK.unpack_from(data, at)
        at += _MASK.size
        masks[offset] = int.from_bytes(data[at : at + size], "little")
        at += size
    counts: dict[int, int] = {}
    if at < len(data):
        (counts_count,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        counts.update(_COUNT.iter_unpack(data[at : at + counts_count * _COUNT.size]))
        at += counts_count * _COUNT.size
    if at != len(data):
        raise ValueError(f"expected a state of {at} bytes but got {len(data)}")
    return State(mark_delete, ranges, masks, counts)


def encode_bitmaps(bitmaps: Sequence[tuple[int, int]]) -> bytes:
    """Encode the body of a BITMAPS entry."""
    parts: list[bytes] = []
    for offset, bits in bitmaps:
        size = _bytes_of(bits)
        parts += (_BITMAP.pack(offset, size), bits.to_bytes(size, "little"))
    return b"".join(parts)


def decode_bitmaps(body: bytes) -> list[tuple[int, int]]:
    """Decode the bitmaps in the body of a BITMAPS entry."""
    at, bitmaps = 0, []
    while at < len(body):
        offset, size = _BITMAP.unpack_from(body, at)
        at += _BITMAP.size
        bits = int.from_bytes(body[at : at + size], "little")
        at += size
        if at > len(body) or offset + bits.bit_length() > FARTHEST:
            raise ValueError(f"a bitmap of {size} bytes at offset {offset} exceeds the entry")
        bitmaps.append((offset, bits))
    return bitmaps
