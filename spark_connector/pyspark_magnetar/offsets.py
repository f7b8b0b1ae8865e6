"""How far a query has read: the offsets that Spark stores. Pure.

    {"v": 1, "p": {topic: [ledger, entry]}, "init": {topic: [ledger, entry]}}

`p` is the last finished entry of each partition.  `init` is where a partition began, in the first
offset that knows it: Spark does not store the answer of `initialOffset`, so what "latest" meant
must be part of the first end offset.  A range is always (start, end], in whole entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

VERSION = 1

Position = tuple[int, int]
"""Ledger and entry; (-1, -1) is before everything."""


@dataclass(frozen=True, slots=True)
class Offset:
    """One stored offset."""

    positions: Mapping[str, Position] = field(default_factory=dict)
    began_at: Mapping[str, Position] = field(default_factory=dict)

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Self:
        """ValueError if its version is not the one this package writes."""
        if offset.get("v") != VERSION:
            raise ValueError(
                f"this checkpoint has offsets of version {offset.get('v')!r}, and this connector "
                f"knows version {VERSION}: use the connector that wrote it, or a new checkpoint"
            )
        return cls(_positions(offset.get("p", {})), _positions(offset.get("init", {})))

    def to_json(self) -> dict[str, Any]:
        """With sorted keys: Spark compares offsets as text."""
        offset: dict[str, Any] = {"v": VERSION}
        for name, positions in (("init", self.began_at), ("p", self.positions)):
            if positions:
                offset[name] = {topic: list(positions[topic]) for topic in sorted(positions)}
        return {name: offset[name] for name in sorted(offset)}

    def advanced(self, last: Mapping[str, Position], began: Mapping[str, Position]) -> "Offset":
        """The offset after reading up to `last`; `began` holds the partitions that are new.

        Positions never go back.  Returns `self` when nothing changed.
        """
        positions = dict(self.positions)
        for topic, position in {**began, **last}.items():
            floor = positions.get(topic, began.get(topic, position))
            positions[topic] = max(floor, position)
        if positions == self.positions:
            return self
        return Offset(positions, began)


@dataclass(frozen=True, slots=True)
class Range:
    """The entries of one partition in (start, end]."""

    topic: str
    start: Position
    end: Position


def ranges(start: Offset, end: Offset) -> list[Range]:
    """What lies between two offsets; it depends on nothing else, so that a replay is the same."""
    found = []
    for topic in sorted(end.positions):
        begin = start.positions.get(topic, end.began_at.get(topic))
        if begin is None:
            raise ValueError(
                f"the offset has no start position of {topic}: the checkpoint is damaged"
            )
        if begin < end.positions[topic]:
            found.append(Range(topic, begin, end.positions[topic]))
    return found


def _positions(stored: Mapping[str, Any]) -> dict[str, Position]:
    return {topic: (int(ledger), int(entry)) for topic, (ledger, entry) in stored.items()}
