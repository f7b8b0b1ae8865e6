"""The hashes that clients and broker must agree on."""

from collections.abc import Iterable
from struct import unpack

import mmh3
from crc32c import crc32c

from magnetar_proto.wire import MAX64

MAX31 = 0x7FFF_FFFF
_BOOST_STEP = 0x9E37_79B9_7F4A_7C15
_BOOST_FACTOR = 0xDF44_2D22_CE48_59B9
RING_SLOTS = 65535
"""Slots 1 to 65535 lie on the hash ring of a Key_Shared subscription."""
RANGE_SLOTS = 65536
"""Slots 0 to 65535 are divided into ranges; no key falls into slot 0."""


def murmur3_32(data: bytes) -> int:
    """Murmur3, 32 bits, seed 0, without the sign bit: partition routing and Key_Shared slots."""
    return mmh3.hash(data, 0, False) & MAX31


def ring_slot(key: bytes) -> int:
    """The slot of a key, 1 to 65535, where consumers divide the keys by a hash ring."""
    return (mmh3.hash(key, 0, False) & MAX31) % RING_SLOTS + 1


def range_slot(key: bytes) -> int:
    """The slot of a key, 1 to 65535, where consumers have ranges of slots."""
    return mmh3.hash(key, 0, False) % RANGE_SLOTS or 1


def java_string_hash(text: str) -> int:
    """Java's String.hashCode over UTF-16 units, without the sign bit: its default key routing."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value & MAX31


def cpp_string_hash(text: str) -> int:
    """The default key routing of the C++ client and those that wrap it, without the sign bit.

    This is the hash of byte strings of the Boost library since its version 1.81.
    """
    data = text.encode("utf-8", "surrogatepass")
    left = len(data)
    weight = _folded(_BOOST_STEP)
    value = weight ^ left
    start = 0
    while left >= 8:
        weight += _BOOST_STEP
        value ^= _folded(int.from_bytes(data[start : start + 8], "little") + weight)
        start += 8
        left -= 8
    rest = data[start:]
    last = 0
    if left >= 4:
        last = int.from_bytes(rest[-4:], "little") << ((left - 4) * 8)
        last |= int.from_bytes(rest[:4], "little")
    elif left:
        middle, end = (left - 1) & 2, left >> 1
        last = rest[middle] << (middle * 8) | rest[end] << (end * 8) | rest[0]
    value ^= _folded(last + weight + _BOOST_STEP)
    return _folded(value + weight + _BOOST_STEP) & MAX31


def _folded(value: int) -> int:
    """The two halves of a product of 128 bits, one over the other."""
    product = (value & MAX64) * _BOOST_FACTOR
    return (product & MAX64) ^ (product >> 64)


def topics_hash(names: Iterable[str]) -> str:
    """A hash that shows whether a list of full topic names changed; "00000000" if it is empty.

    CRC32C over the sorted names joined by commas, printed as hexadecimal, lowest byte first.
    """
    return crc32c(",".join(sorted(names)).encode()).to_bytes(4, "little").hex()
