"""The compacted data that a log's record lists: parts, in order, and how far they reach.

Compacted data is the latest entry of each key below the *horizon*, in segments of its own, so
that it stays when the log below is deleted.  It is only ever replaced as a whole.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from magnetar_storage.interfaces import SegmentId


@dataclass(frozen=True)
class CompactedPart:
    """A segment of compacted data (`compacted_part`)."""

    segment: SegmentId
    first: int
    """The offset of the part's first entry."""
    ledger: int
    entry: int
    """The position of the part's first entry."""
    entries: int
    messages: int
    """The number of messages in these entries, compacted-out messages included."""
    size: int
    """The bytes of the payloads in the part."""


@dataclass(frozen=True)
class Compacted:
    """The compacted data of a log."""

    horizon: int
    """The offset after the last entry that was compacted."""
    parts: tuple[CompactedPart, ...] = ()

    @property
    def segments(self) -> set[SegmentId]:
        """The segments that hold the parts."""
        return {part.segment for part in self.parts}

    @property
    def entries(self) -> int:
        return sum(part.entries for part in self.parts)

    @property
    def messages(self) -> int:
        """The number of messages in the entries, compacted-out messages included."""
        return sum(part.messages for part in self.parts)

    @property
    def size(self) -> int:
        """The bytes of the payloads."""
        return sum(part.size for part in self.parts)

    def part_of(self, offset: int) -> int:
        """Return the index of the first part that may have entries at or after an offset."""
        return _last(offset, (part.first for part in self.parts))

    def part_at(self, ledger: int, entry: int) -> int:
        """Return the index of the first part that may have entries at or after a position."""
        return _last((ledger, entry), ((part.ledger, part.entry) for part in self.parts))

    def encode(self) -> bytes:
        """Encode the compacted data as JSON, as in the record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, data: bytes) -> "Compacted | None":
        """Reverse `encode`; None if the bytes are something else."""
        try:
            return cls.decode(json.loads(data)) if data.startswith(b"{") else None
        except (ValueError, TypeError, KeyError):
            return None

    @classmethod
    def decode(cls, fields: Any) -> "Compacted | None":
        """Decode the record's JSON; TypeError, KeyError or ValueError if it cannot be read."""
        if fields is None:
            return None
        parts = tuple(CompactedPart(**part) for part in fields["parts"])
        numbers = [fields["horizon"], *(number for part in parts for number in vars(part).values())]
        # Here and not at the first read, where the error would look like damage of an entry.
        if not all(isinstance(number, int) for number in numbers):
            raise TypeError(f"compacted data: expected only numbers but got {numbers}")
        return cls(fields["horizon"], parts)


def _last(wanted: Any, starts: Iterable[Any]) -> int:
    """Return the index of the last of these ascending starts up to `wanted`; 0 if there is none."""
    found = 0
    # There are few parts: not worth a binary search.
    for index, start in enumerate(starts):
        if start > wanted:
            break
        found = index
    return found
