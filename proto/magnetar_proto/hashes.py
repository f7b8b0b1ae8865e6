"""The hashes that clients and broker must agree on."""

from collections.abc import Iterable
from struct import unpack

import mmh3
from crc32c import crc32c

MAX31 = 0x7FFF_FFFF
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


def topics_hash(names: Iterable[str]) -> str:
    """A hash that shows whether a list of full topic names changed; "00000000" if it is empty.

    CRC32C over the sorted names joined by commas, printed as hexadecimal, lowest byte first.
    """
    return crc32c(",".join(sorted(names)).encode()).to_bytes(4, "little").hex()
