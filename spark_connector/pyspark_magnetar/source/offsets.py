"""The progress of a query: the offsets that Spark stores. Pure.

    {"v": 1,
     "p": {topic: [ledger, entry]},
     "init": {topic: [ledger, entry] or [ledger, entry, messages]},
     "seg": {topic: [[ledger, entry], ...]},
     "mean": {topic: [messages, bytes]}}

`p` is the last finished entry of each partition.  `init` is where a partition began, in the first
offset with this partition: Spark does not store the answer of `initialOffset`, so the meaning of
"latest" must be part of the first end offset.  With a third number the entry itself is still to
be read, without that many messages.  `seg` has the last entry of each ledger completed in the
batch, and `mean` the messages and bytes of a typical entry, by which it is divided into tasks.
A range is always (start, end], in whole entries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

VERSION = 1

Position = tuple[int, int]
"""Ledger and entry; (-1, -1) precedes all entries."""
NOTHING: Position = (-1, -1)


class Start(NamedTuple):
    """The start in a partition: after a position, and after some messages of the next entry."""

    position: Position
    messages: int = 0


class Mean(NamedTuple):
    """The messages and bytes of a typical entry; zeros if they are not known."""

    messages: int = 0
    bytes: int = 0


UNKNOWN = Mean()


@dataclass(frozen=True, slots=True)
class Range:
    """The entries of one partition after `start`, up to and including `end`."""

    topic: str
    start: Position
    end: Position
    skipped: int = 0
    """The number of leading messages of the first entry that are not in the range."""
    kept: int = 0
    """The number of leading messages of the last entry that are in the range; 0 means all."""
    ledger_ends: tuple[Position, ...] = ()
    """The last entries of the ledgers that end in the range, as far as known."""
    mean: Mean = UNKNOWN


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset that Spark stores."""

    positions: Mapping[str, Position] = field(default_factory=dict)
    began_at: Mapping[str, Start] = field(default_factory=dict)
    ledger_ends: Mapping[str, Sequence[Position]] = field(default_factory=dict)
    means: Mapping[str, Mean] = field(default_factory=dict)

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Self:
        """Decode an offset; ValueError if it is damaged, or of another version."""
        if offset.get("v") != VERSION:
            raise ValueError(
                f"this checkpoint has offsets of version {offset.get('v')!r}, and this connector "
                f"knows version {VERSION}: use the connector that wrote it, or a new checkpoint"
            )
        try:
            return cls(
                {topic: _position(stored) for topic, stored in offset.get("p", {}).items()},
                {topic: _start(stored) for topic, stored in offset.get("init", {}).items()},
                {
                    topic: [_position(stored) for stored in ends]
                    for topic, ends in offset.get("seg", {}).items()
                },
                {topic: Mean(*stored) for topic, stored in offset.get("mean", {}).items()},
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the offset {offset} of the checkpoint is damaged: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Encode the offset with sorted keys, because Spark compares offsets as text."""
        offset: dict[str, Any] = {"v": VERSION}
        began = {topic: _stored(start) for topic, start in self.began_at.items()}
        ends = {topic: [list(end) for end in ends] for topic, ends in self.ledger_ends.items()}
        positions = {topic: list(position) for topic, position in self.positions.items()}
        means = {topic: list(mean) for topic, mean in self.means.items()}
        for name, found in (("init", began), ("mean", means), ("p", positions), ("seg", ends)):
            if found:
                offset[name] = {topic: found[topic] for topic in sorted(found)}
        return {name: offset[name] for name in sorted(offset)}

    def start_of(self, topic: str) -> Start | None:
        """Return the position to continue from in a partition; None if it is unknown."""
        position = self.positions.get(topic)
        began = self.began_at.get(topic)
        # promise[without or (began is not None and began.position == position)]: nothing before the
        #   start is read
        if position is None or (began is not None and began.position == position):
            return began
        return Start(position)

    def advanced(
        self,
        last: Mapping[str, Position],
        began: Mapping[str, Start],
        ledger_ends: Mapping[str, Sequence[Position]] | None = None,
        means: Mapping[str, Mean] | None = None,
    ) -> "Offset":
        """Return the offset after reading up to `last`; `began` has the new partitions.

        Positions never go back.  Returns `self` if nothing has changed.
        """
        positions = dict(self.positions)
        for topic, start in began.items():
            positions.setdefault(topic, start.position)
        for topic, position in last.items():
            # promise[max(positions.get(topic, position), position) -> position]: positions of a
            #   query never go back
            positions[topic] = max(positions.get(topic, position), position)
        if positions == self.positions:
            return self
        moved = {topic for topic, at in positions.items() if at != self.positions.get(topic)}
        # A start that skips messages is kept until its partition advances.
        waiting = {
            topic: start
            for topic, start in self.began_at.items()
            if start.messages and topic not in moved
        }
        ends = {
            topic: [end for end in found if end <= positions[topic]]
            for topic, found in (ledger_ends or {}).items()
            if topic in moved
        }
        return Offset(
            positions,
            {**waiting, **began},
            {topic: found for topic, found in ends.items() if found},
            {topic: mean for topic, mean in (means or {}).items() if topic in moved},
        )


def ranges(start: Offset, end: Offset) -> list[Range]:
    """Return the ranges between two offsets; they depend on nothing else: a replay is the same."""
    found = []
    for topic in sorted(end.positions):
        begin = start.start_of(topic) or end.began_at.get(topic)
        if begin is None:
            raise ValueError(
                f"the offset has no start position of {topic}: the checkpoint is damaged"
            )
        stop = end.positions[topic]
        if begin.position < stop:
            known = end.ledger_ends.get(topic, ())
            ends = tuple(at for at in known if begin.position <= at <= stop)
            mean = end.means.get(topic, UNKNOWN)
            found.append(Range(topic, begin.position, stop, begin.messages, 0, ends, mean))
    return found


def _position(stored: Any) -> Position:
    ledger, entry = stored
    return int(ledger), int(entry)


def _start(stored: Any) -> Start:
    ledger, entry, *rest = map(int, stored)
    if not rest:
        return Start((ledger, entry))
    (messages,) = rest
    return Start((ledger, entry - 1), messages)


def _stored(start: Start) -> list[int]:
    ledger, entry = start.position
    return [ledger, entry + 1, start.messages] if start.messages else [ledger, entry]
