"""What must be on a disk: a model of topics and cursors that shares nothing with the engine."""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

Pairs = frozenset[tuple[int, int]]
State = tuple[frozenset[int], Pairs, Pairs] | None
"""A cursor's acknowledged offsets, the masks of its batches, the redeliveries of its entries; None
where there is none."""
S = TypeVar("S")


class History(Generic[S]):
    """All the states that something had since the last one known to be durable."""

    def __init__(self, first: S) -> None:
        self._states = [first]
        self._forgotten = 0

    def copy(self) -> "History[S]":
        twin = copy(self)
        twin._states = self._states[:]
        return twin

    def changed(self, state: S) -> int:
        """A new state; returns its number."""
        self._states.append(state)
        return self._forgotten + len(self._states) - 1

    def durable(self, number: int) -> None:
        """The state of that number was reported durable: no earlier one may come back."""
        gone = number - self._forgotten
        if gone > 0:
            del self._states[:gone]
            self._forgotten = number

    def check(self, found: S, whose: str) -> None:
        """What is there is one of the states; from now on it is the only one."""
        assert found in self._states, f"{whose}: {found} is none of {self._states}"
        self._forgotten += len(self._states)
        self._states = [found]


class SideModel:
    """Numbers by key."""

    def __init__(self) -> None:
        self.all: dict[int, int] = {}
        self.history = History[Pairs](frozenset())

    def copy(self) -> "SideModel":
        twin = SideModel()
        twin.all, twin.history = dict(self.all), self.history.copy()
        return twin

    def put(self, key: int, value: int) -> int:
        self.all[key] = value
        return self.history.changed(frozenset(self.all.items()))

    def check(self, found: dict[int, int], whose: str) -> None:
        self.history.check(frozenset(found.items()), whose)
        self.all = dict(found)


class CursorModel:
    """A cursor by name."""

    def __init__(self) -> None:
        self.acked: set[int] = set()
        self.masks: dict[int, int] = {}
        self.redelivered: dict[int, int] = {}
        self.exists = False
        self.history = History[State](None)

    def copy(self) -> "CursorModel":
        twin = copy(self)
        twin.acked, twin.masks = set(self.acked), dict(self.masks)
        twin.redelivered, twin.history = dict(self.redelivered), self.history.copy()
        return twin

    def create(self, mark_delete: int) -> int:
        self.exists = True
        return self.reset(mark_delete)

    def delete(self) -> int:
        self.exists = False
        return self.reset(-1)

    def ack(self, offsets: Iterable[int]) -> int:
        for offset in offsets:
            self.acked.add(offset)
            self.masks.pop(offset, None)
            self.redelivered.pop(offset, None)
        return self._changed()

    def ack_batch(self, offset: int, unacked_mask: int) -> int:
        if offset not in self.acked:
            left = self.masks.get(offset, unacked_mask) & unacked_mask
            if not left:
                return self.ack([offset])
            self.masks[offset] = left
        return self._changed()

    def count_redelivery(self, offsets: Iterable[int]) -> int:
        for offset in offsets:
            if offset not in self.acked:
                self.redelivered[offset] = self.redelivered.get(offset, 0) + 1
        return self._changed()

    def reset(self, mark_delete: int) -> int:
        self.acked, self.masks, self.redelivered = set(range(mark_delete + 1)), {}, {}
        return self._changed()

    def check(self, found: State, whose: str) -> None:
        """What is there is one of the states it had."""
        self.history.check(found, whose)
        self.exists = found is not None
        acked, masks, redelivered = found or (frozenset[int](), Pairs(), Pairs())
        self.acked, self.masks, self.redelivered = set(acked), dict(masks), dict(redelivered)

    def _changed(self) -> int:
        pairs = Pairs(self.masks.items()), Pairs(self.redelivered.items())
        return self.history.changed((frozenset(self.acked), *pairs) if self.exists else None)


@dataclass
class TopicModel:
    """What was asked of a topic, and what was confirmed."""

    key: str
    appended: list[tuple[bytes, int]] = field(default_factory=list)
    """Payload and messages of every entry, from offset 0 on."""
    durable: int = 0
    """Entries whose append was reported durable."""
    ledgers: set[int] = field(default_factory=set)
    """The ids of all segments that its log ever listed."""
    trimmed: int = 0
    trim_asked: int = 0
    """The first offset is between the two."""
    unneeded: set[int] = field(default_factory=set)
    """Offsets that no cursor needed when the log was rewritten: they may be gone."""
    cursors: dict[str, CursorModel] = field(default_factory=dict)
    side: SideModel = field(default_factory=SideModel)
    released_to: int = 0
    """Delays up to here ended."""
    delete_asked: bool = False
    deleted: bool = False

    def copy(self) -> "TopicModel":
        cursors = {name: cursor.copy() for name, cursor in self.cursors.items()}
        return replace(
            self, appended=self.appended[:], unneeded=set(self.unneeded), cursors=cursors,
            side=self.side.copy(), ledgers=set(self.ledgers),
        )  # fmt: skip

    def check_ledgers(self, listed: list[int]) -> None:
        """Ids only grow, also beyond those that were deleted and those of other directories."""
        assert listed == sorted(set(listed)), f"{self.key} lists {listed}"
        largest = max(self.ledgers, default=0)
        again = [ledger for ledger in listed if ledger not in self.ledgers and ledger <= largest]
        assert not again, f"{self.key}: {again} are not above {largest}"
        self.ledgers.update(listed)

    def check(
        self, first: int, end: int, found: dict[int, tuple[bytes, int]], messages_end: int
    ) -> None:
        """Confirmed is a part of what is there, which is the beginning of what was appended."""
        assert self.trimmed <= first <= self.trim_asked, f"{self.key} begins at {first}"
        assert end >= self.durable, f"{self.key} ends at {end}, confirmed were {self.durable}"
        expected = {offset: self.appended[offset] for offset in found}
        assert found == expected, f"{self.key}: not what was appended"
        gone = set(range(first, end)) - found.keys()
        assert gone <= self.unneeded, f"{self.key}: {gone - self.unneeded} are needed"
        del self.appended[end:]
        assert messages_end == sum(count for _, count in self.appended)
        self.durable, self.trimmed = end, first
