"""Protocol Buffers varints, signed and unsigned 64-bit fields, and message ids.

Values below 2**14 are encoded by one table lookup, those below 2**28 by two: producer, consumer,
ledger and entry ids live there.
"""

from typing import Final

from magnetar_proto.errors import BadCommand, LocalError

MAX64: Final = (1 << 64) - 1
TABLED: Final = 1 << 14

VARINTS: Final = [bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(TABLED)]
"""The varints of all values below TABLED, by value."""
LOW14: Final[list[bytes]] = []
"""The same values as the two low bytes of longer varints.  `_low14` fills the list when it is first
needed: it takes a megabyte, and an idle broker encodes no such value."""


def encode_varint(value: int) -> bytes:
    """Encode 0 <= value < 2**64; LocalError otherwise (see `to_unsigned64` for negative ids)."""
    if 0 <= value < TABLED:
        return VARINTS[value]
    if not 0 <= value <= MAX64:
        raise LocalError(f"{value} does not fit an unsigned 64-bit field")
    return (LOW14 or _low14())[value & 0x3FFF] + encode_varint(value >> 14)


def _low14() -> list[bytes]:
    # One assignment, because another thread may use the list as soon as it is not empty.
    LOW14[:] = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(TABLED)]
    return LOW14


def stretch(value: int) -> tuple[list[bytes], bytes, int]:
    """Return tables to encode values from `value` on while only their low bytes change.

    The result is the table of low bytes, by value modulo TABLED; the bytes that follow each; and
    the number of values, this one included, for which that holds.
    """
    low = value % TABLED
    if value >= TABLED:
        return LOW14 or _low14(), encode_varint(value >> 14), TABLED - low
    return VARINTS, b"", (128 if low < 128 else TABLED) - low


def decode_varint(buf: bytes, pos: int) -> tuple[int, int]:
    """Return the value at `pos` and the position after it.

    BadCommand when it exceeds 64 bits, IndexError when `buf` ends inside it.
    """
    byte = buf[pos]
    if byte < 128:
        return byte, pos + 1
    return decode_varint_tail(buf, pos + 1, byte)


def decode_varint_tail(buf: bytes, pos: int, first: int) -> tuple[int, int]:
    """Finish a varint whose first byte was read and which continues at `pos`."""
    byte = buf[pos]
    value = first & 127 | (byte & 127) << 7
    if byte < 128:
        return value, pos + 1
    pos += 1
    byte = buf[pos]
    value |= (byte & 127) << 14
    shift = 21  # nearly all ids end before the loop, which takes as long as everything before it
    while byte > 127:
        if shift > 63:
            raise BadCommand("expected a varint of at most ten bytes, got more")
        pos += 1
        byte = buf[pos]
        value |= (byte & 127) << shift
        shift += 7
    if value > MAX64:
        raise BadCommand("expected a varint of at most 64 bits, got more")
    return value, pos + 1


def to_signed64(value: int) -> int:
    """Read an unsigned 64-bit field as signed: 2**64 - 1 stands for -1."""
    return value if value < 1 << 63 else value - (1 << 64)


def to_unsigned64(value: int) -> int:
    """Return the value of an unsigned 64-bit field for -1 and other negative ids."""
    return value & MAX64


def decode_message_id(buf: bytes, pos: int) -> tuple[int, int, int, int]:
    """Decode the MessageIdData whose size is at `pos`.

    Returns ledger, entry, the position after them, and the position after the whole id.
    BadCommand or IndexError if it does not begin with ledger and entry.
    """
    size = buf[pos]
    if buf[pos + 1] != 0x08:
        raise BadCommand("not a message id in the usual layout")
    stop = pos + 1 + size
    ledger = buf[pos + 2]
    pos += 3
    if ledger > 127:
        ledger, pos = decode_varint_tail(buf, pos, ledger)
    if buf[pos] != 0x10:
        raise BadCommand("not a message id in the usual layout")
    entry = buf[pos + 1]
    pos += 2
    if entry > 127:
        entry, pos = decode_varint_tail(buf, pos, entry)
    if (ledger | entry) >> 63:
        return to_signed64(ledger), to_signed64(entry), pos, stop
    return ledger, entry, pos, stop
