"""The bundles of a namespace: parts of its topics by a hash of their names.

Bundles are what brokers own.  One broker owns all of them; they can be named and unloaded.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from zlib import crc32

from magnetar_proto.names import TopicName

LAST = 0xFFFFFFFF
"""The highest hash, which the last bundle includes."""
MAX_BUNDLES = 1024
_RANGE = re.compile(r"(0x[0-9a-f]{8})_(0x[0-9a-f]{8})")


@dataclass(frozen=True)
class Bundles:
    """`boundaries` go from 0 to `LAST`; a bundle reaches from one up to the next one."""

    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        """ValueError unless they tile all hashes."""
        marks = self.boundaries
        tiling = len(marks) > 1 and marks[0] == 0 and marks[-1] == LAST
        if not tiling or any(low >= high for low, high in pairwise(marks)):
            raise ValueError(
                "bundle boundaries: expected ascending values from 0x00000000 to 0xffffffff"
            )
        if len(self) > MAX_BUNDLES:
            raise ValueError(f"{len(self)} bundles exceed the limit of {MAX_BUNDLES}")

    @classmethod
    def even(cls, number: int) -> "Bundles":
        """So many of one size, but for the last."""
        if not 0 < number <= MAX_BUNDLES:
            raise ValueError(f"expected 1 to {MAX_BUNDLES} bundles, got {number}")
        width = (LAST + 1) // number
        return cls((*(width * index for index in range(number)), LAST))

    @classmethod
    def parse(cls, texts: list[str]) -> "Bundles":
        """From boundaries as `texts` gives them; ValueError if they are none."""
        return cls(tuple(int(text, 16) for text in texts))

    def __len__(self) -> int:
        return len(self.boundaries) - 1

    @property
    def texts(self) -> list[str]:
        """The boundaries as HTTP and storage have them."""
        return [f"0x{boundary:08x}" for boundary in self.boundaries]

    @property
    def first(self) -> str:
        """The first of them."""
        return "_".join(self.texts[:2])

    def of(self, topic: TopicName) -> str:
        """The bundle of a topic; partitions spread over bundles."""
        index = bisect_right(self.boundaries, crc32(str(topic).encode())) - 1
        texts = self.texts
        index = min(index, len(self) - 1)
        return f"{texts[index]}_{texts[index + 1]}"

    def __contains__(self, bundle: object) -> bool:
        """Whether this is the text of one of them."""
        return isinstance(bundle, str) and bundle in {
            f"{low}_{high}" for low, high in pairwise(self.texts)
        }


def is_range(text: str) -> bool:
    """Whether a text has the form of a bundle."""
    return _RANGE.fullmatch(text) is not None
