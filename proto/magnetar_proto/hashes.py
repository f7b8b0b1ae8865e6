"""The hashes that clients and broker must compute alike."""

from collections.abc import Iterable
from struct import unpack

import mmh3
from crc32c import crc32c

from magnetar_proto.wire import MAX64

MAX31 = 0x7FFF_FFFF
_BOOST_STEP = 0x9E37_79B9_7F4A_7C15
_BOOST_FACTOR = 0xDF44_2D22_CE48_59B9
RING_SLOTS = 65535
"""The number of slots, 1 to 65535, on the hash ring of a Key_Shared subscription."""
RANGE_SLOTS = 65536
"""The number of slots, 0 to 65535, that are divided into ranges; no key falls into slot 0."""


def murmur3_32(data: bytes) -> int:
    """Return 32-bit Murmur3, seed 0, without the sign bit: partition routing, Key_Shared slots."""
    return mmh3.hash(data, 0, False) & MAX31


def ring_slot(key: bytes) -> int:
    """Return the slot of a key, 1 to 65535, if consumers divide the keys by a hash ring."""
    return (mmh3.hash(key, 0, False) & MAX31) % RING_SLOTS + 1


def range_slot(key: bytes) -> int:
    """Return the slot of a key, 1 to 65535, if consumers have ranges of slots."""
    return mmh3.hash(key, 0, False) % RANGE_SLOTS or 1


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode without the sign bit: the default routing of Java clients."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value & MAX31


def cpp_string_hash(text: str) -> int:
    """Return the default routing hash of the C++ client and its wrappers, without the sign bit.

    This is the hash of byte strings in the Boost library since version 1.81.
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
    """Return the exclusive or of the two halves of a 128-bit product."""
    product = (value & MAX64) * _BOOST_FACTOR
    return (product & MAX64) ^ (product >> 64)


def topics_hash(names: Iterable[str]) -> str:
    """Return a hash that shows changes of a list of full topic names; "00000000" if it is empty.

    The hash is the CRC32C of the sorted names joined by commas, in hexadecimal, lowest byte first.
    """
    return crc32c(",".join(sorted(names)).encode()).to_bytes(4, "little").hex()
