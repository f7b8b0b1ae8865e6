"""The bundles of a namespace: parts of its topics by a hash of their names.

A bundle is what one process owns at a time, and what is moved from one to another.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal
from zlib import crc32

from magnetar_proto.names import TopicName

LAST = 0xFFFFFFFF
"""The highest hash, which the last bundle includes."""
MAX_BUNDLES = 1024
BUNDLES = 4
"""The bundles of a new namespace, per process that can own them."""
HASH_BITS = 32
SPREADING = 0x9E3779B1
"""2^32 divided by the golden ratio: consecutive multiples are as far apart as they can be."""


class BundleRefused(ValueError):
    """The namespace has no such bundle, or the bundle cannot be divided as requested."""


@dataclass(frozen=True)
class Bundles:
    """The bundles of a namespace: `boundaries` go from 0 to `LAST`, and two enclose a bundle."""

    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise ValueError unless the bundles cover all hashes without overlap."""
        marks = self.boundaries
        tiling = len(marks) > 1 and marks[0] == 0 and marks[-1] == LAST
        if not tiling or any(low >= high for low, high in pairwise(marks)):
            raise ValueError(
                "bundle boundaries: expected ascending values from 0x00000000 to 0xffffffff"
            )
        if len(self) > MAX_BUNDLES:
            raise BundleRefused(f"{len(self)} bundles exceed the limit of {MAX_BUNDLES}")

    @classmethod
    def even(cls, number: int) -> "Bundles":
        """Return `number` bundles of equal size, except the last."""
        if not 0 < number <= MAX_BUNDLES:
            raise ValueError(f"expected 1 to {MAX_BUNDLES} bundles, got {number}")
        width = (LAST + 1) // number
        return cls((*(width * index for index in range(number)), LAST))

    @classmethod
    def parse(cls, texts: list[str]) -> "Bundles":
        """Return the bundles with these hexadecimal boundaries; ValueError if they are invalid."""
        return cls(tuple(int(text, 16) for text in texts))

    def __len__(self) -> int:
        return len(self.boundaries) - 1

    @property
    def texts(self) -> list[str]:
        """The boundaries in the form that HTTP and storage use."""
        return [f"0x{boundary:08x}" for boundary in self.boundaries]

    @cached_property
    def ranges(self) -> list[str]:
        """The ranges of all bundles, in order."""
        return [f"{low}_{high}" for low, high in pairwise(self.texts)]

    def of(self, topic: TopicName) -> str:
        """Return the bundle of a topic."""
        return self.ranges[self.index_of(topic)]

    def index_of(self, topic: TopicName) -> int:
        """Return the index of a topic's bundle."""
        return self.index_at(hash_of(topic))

    def index_at(self, value: int) -> int:
        """Return the position of the bundle that has a hash."""
        return min(bisect_right(self.boundaries, value) - 1, len(self) - 1)

    def index(self, bundle: str) -> int:
        """Return the position of a bundle; `BundleRefused` if it is not among them."""
        try:
            return self.ranges.index(bundle)
        except ValueError as error:
            raise BundleRefused(
                f"there is no bundle {bundle}: GET .../bundles lists them"
            ) from error

    def ends(self, bundle: str) -> tuple[int, int]:
        """Return the boundaries of a bundle; `BundleRefused` if it is not among them."""
        index = self.index(bundle)
        return self.boundaries[index], self.boundaries[index + 1]

    def __contains__(self, bundle: object) -> bool:
        """Return whether this is the text of one of the bundles."""
        return bundle in self.ranges

    def split(self, bundle: str, hashes: Sequence[int]) -> "Bundles":
        """Return the bundles with one divided at hashes; `BundleRefused` if one is outside it."""
        low, high = self.ends(bundle)
        for value in hashes:
            if not low < value < high:  # promise: a bundle is divided at a position inside of it
                raise BundleRefused(
                    f"{value} is not inside of bundle {bundle}: expected {low + 1} to {high - 1}"
                )
        return Bundles(tuple(sorted({*self.boundaries, *hashes})))


def hash_of(topic: TopicName) -> int:
    """Return the position of a topic among the bundles of its namespace.

    It is the CRC-32 of the name, as in Pulsar, times a constant: with CRC-32 alone, names that
    differ in their last digit fall into few of the bundles.

    The partitions of a topic begin at the position of the topic itself.  Each next one is found by
    counting from the highest bit down, with carries to lower bits: 2 partitions are half of all
    hashes apart, 4 a quarter, and so on.  `deal` gives bundles to owners in the same order, so
    owners get equal parts of the partitions.
    """
    first = crc32(str(topic.base).encode()) * SPREADING & LAST
    if topic.partition <= 0:
        return first
    return _reversed_bits((_reversed_bits(first) + topic.partition) & LAST)


def ranges_within(bundle: str, bundles: Bundles) -> list[str]:
    """Return the bundles among `bundles` that were one bundle before it was split."""
    low, high = (int(text, 16) for text in bundle.split("_"))
    return [
        part
        for part, (begin, end) in zip(bundles.ranges, pairwise(bundles.boundaries), strict=True)
        if low <= begin and end <= high
    ]


def deal(bundles: int, owners: Sequence[int]) -> list[int]:
    """Divide a number of bundles among owners; a remainder goes to the first ones.

    Bundles that are far apart go to different owners, as partitions of one topic are far apart.
    """
    dealt = [0] * bundles
    for turn, index in enumerate(sorted(range(bundles), key=_reversed_bits)):
        dealt[index] = owners[turn % len(owners)]
    return dealt


def number_of_new(setting: int | Literal["auto"], processes: int) -> int:
    """Return the number of bundles of a new namespace; with `auto` a power of two, enough for all.

    Every process gets some of them.  The partitions of a topic are only spread evenly over a power
    of two.
    """
    if setting != "auto":
        return setting
    return min(MAX_BUNDLES, 1 << (BUNDLES * processes - 1).bit_length())


def _reversed_bits(number: int) -> int:
    return int(f"{number:0{HASH_BITS}b}"[::-1], 2)
