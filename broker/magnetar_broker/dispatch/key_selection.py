"""Assigns slots to consumers, by names and ranges; independent of messages.

A slot is a hash of a key, 1 to 65535.  It has one owner at a time or, with ranges that consumers
chose (STICKY), perhaps none.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

from magnetar_broker.base.errors import ConsumerUnassigned
from magnetar_proto.hashes import RANGE_SLOTS, range_slot, ring_slot

LAST_SLOT = RANGE_SLOTS - 1


@dataclass(frozen=True)
class KeySharedMeta:
    """The KeySharedMeta of a SUBSCRIBE command: how the keys are to be divided."""

    sticky: bool = False
    """Consumers choose their hash ranges; else the broker divides the keys."""
    out_of_order: bool = False
    """A key may move to its new owner while the former one still has pending messages of it."""
    ranges: tuple[tuple[int, int], ...] = ()
    """The first and the last slot of each range."""

    @property
    def policy(self) -> tuple[bool, bool]:
        """The properties that all consumers of a subscription must have in common."""
        return self.sticky, self.out_of_order


class Owner(Protocol):
    """The properties of a consumer that selection uses."""

    @property
    def name(self) -> str: ...
    @property
    def key_shared(self) -> KeySharedMeta: ...


C = TypeVar("C", bound=Owner)


class SlotOwners(ABC, Generic[C]):
    """The owners of slots: slots above `ends[i - 1]`, up to `ends[i]`, belong to `owners[i]`."""

    def __init__(self, slot_of: Callable[[bytes], int]) -> None:
        self.slot_of = slot_of
        """Returns the slot of a key."""
        self.ends: list[int] = [LAST_SLOT]
        self.owners: list[C | None] = [None]

    def owner(self, slot: int) -> C | None:
        """Return the owner of a slot, if it has one."""
        return self.owners[bisect_left(self.ends, slot)]

    @abstractmethod
    def check(self, wanted: KeySharedMeta) -> C | None:
        """Return a consumer that must leave before one like this is added; None if none must.

        `ConsumerUnassigned` if nothing can be assigned to it.
        """

    @abstractmethod
    def add(self, consumer: C) -> None:
        """Add a consumer that `check` allowed; it takes slots over from other consumers."""

    @abstractmethod
    def remove(self, consumer: C) -> None:
        """Remove a consumer, whose slots go to other consumers."""

    def _assign(self, stretches: Iterable[tuple[int, C | None]]) -> None:
        """Set all ranges of slots by their ends, in ascending order."""
        pairs = list(stretches)
        self.ends = [end for end, _ in pairs]
        self.owners = [owner for _, owner in pairs]


class HashRing(SlotOwners[C]):
    """A ring on which each consumer has some points; the consumer of the next point owns a slot."""

    def __init__(self, points: int) -> None:
        super().__init__(ring_slot)
        self._points = points
        self._claims: dict[
            int, list[C]
        ] = {}  # the consumer of a point, then those that collided with it
        self._numbers: dict[str, dict[int, C]] = {}  # the consumers of each name

    def check(self, wanted: KeySharedMeta) -> C | None:
        return None

    def add(self, consumer: C) -> None:
        numbers = self._numbers.setdefault(consumer.name, {})
        # Consumers may have equal names, and numbers keep their points apart.  The lowest free one
        # gives a consumer that reconnects the slots that it had.
        number = next(n for n in range(len(numbers) + 1) if n not in numbers)
        numbers[number] = consumer
        for point in self._points_of(consumer.name, number):
            if point in self._claims:
                # The consumer that came first keeps the point until it leaves, so no slot moves
                # twice.
                self._claims[point].append(consumer)
            else:
                self._claims[point] = [consumer]
                at = bisect_left(self.ends, point)
                self.ends.insert(at, point)
                self.owners.insert(at, consumer)
        self._close_ring()

    def remove(self, consumer: C) -> None:
        numbers = self._numbers[consumer.name]
        number = next(n for n, owner in numbers.items() if owner is consumer)
        del numbers[number]
        if not numbers:
            del self._numbers[consumer.name]
        for point in self._points_of(consumer.name, number):
            claims = self._claims[point]
            claims.remove(consumer)
            at = bisect_left(self.ends, point)
            if claims:
                self.owners[at] = claims[0]
            else:
                del self._claims[point], self.ends[at], self.owners[at]
        self._close_ring()

    def _points_of(self, name: str, number: int) -> list[int]:
        return [ring_slot(f"{name}\0{number}\0{n}".encode()) for n in range(self._points)]

    def _close_ring(self) -> None:
        """Give the slots above the last point to the consumer of the first one."""
        self.owners[-1] = self.owners[0] if self._claims else None


class RangeHalving(SlotOwners[C]):
    """The first consumer has all slots; each further one takes half of the widest range."""

    def __init__(self) -> None:
        super().__init__(range_slot)
        self._ranges: dict[int, C] = {}  # by the end of each range

    def check(self, wanted: KeySharedMeta) -> C | None:
        if self._ranges and self._widest()[1] < 2:
            raise ConsumerUnassigned(
                f"the keys are divided among {len(self._ranges)} consumers, and no range can be "
                "halved again: close a consumer first"
            )
        return None

    def add(self, consumer: C) -> None:
        if not self._ranges:
            self._ranges[RANGE_SLOTS] = consumer
        else:
            # The former owner keeps the upper half, and with it the end by which it is known here.
            end, width = self._widest()
            self._ranges[end - width // 2] = consumer
        self._divide()

    def remove(self, consumer: C) -> None:
        """Give the range of a consumer to the next one above; the highest to the one below."""
        end = next(end for end, owner in self._ranges.items() if owner is consumer)
        del self._ranges[end]
        # Slots above the last end would have no owner, so the highest remaining range moves up.
        if end == RANGE_SLOTS and self._ranges:
            self._ranges[end] = self._ranges.pop(max(self._ranges))
        self._divide()

    def _widest(self) -> tuple[int, int]:
        """Return the end and the width of the widest range; of equally wide ones, the lowest."""
        ends = sorted(self._ranges)
        widths = [end - before for before, end in zip([0, *ends], ends, strict=False)]
        widest = max(widths)
        return ends[widths.index(widest)], widest

    def _divide(self) -> None:
        self._assign(sorted(self._ranges.items(), key=lambda pair: pair[0]) or [(LAST_SLOT, None)])


class ChosenRanges(SlotOwners[C]):
    """Slots that consumers choose (STICKY); keys in slots without an owner are not delivered."""

    def __init__(self) -> None:
        super().__init__(range_slot)
        self._consumers: list[C] = []

    def check(self, wanted: KeySharedMeta) -> C | None:
        check_ranges(wanted.ranges)
        # Named, not refused: the caller asks whether the client of that consumer is still there.
        for consumer in self._consumers:
            if any(_overlap(mine, other) for mine in wanted.ranges for other in _of(consumer)):
                return consumer
        return None

    def add(self, consumer: C) -> None:
        self._consumers.append(consumer)
        self._divide()

    def remove(self, consumer: C) -> None:
        self._consumers.remove(consumer)
        self._divide()

    def _divide(self) -> None:
        stretches: list[tuple[int, C | None]] = []
        taken = [(*chosen, consumer) for consumer in self._consumers for chosen in _of(consumer)]
        free_from = 0
        for start, end, consumer in sorted(taken, key=lambda each: each[0]):
            # Slots without an owner are stretches, too: one search finds the owner of any slot, or
            # None.
            if start > free_from:
                stretches.append((start - 1, None))
            stretches.append((end, consumer))
            free_from = end + 1
        self._assign([*stretches, (max(free_from, LAST_SLOT), None)])


def check_ranges(ranges: tuple[tuple[int, int], ...]) -> None:
    """Raise `ConsumerUnassigned` if ranges are missing, reversed or overlap each other."""
    if not ranges:
        raise ConsumerUnassigned("a sticky Key_Shared consumer must name at least one hash range")
    ordered = sorted(ranges)
    for start, end in ordered:
        if start > end:
            raise ConsumerUnassigned(f"the hash range {start} to {end} ends before it begins")
    # In order, only neighbours can overlap.
    for before, after in pairwise(ordered):
        if _overlap(before, after):
            raise ConsumerUnassigned(
                f"the hash ranges {before[0]} to {before[1]} and {after[0]} to {after[1]} overlap"
            )


def _of(consumer: Owner) -> tuple[tuple[int, int], ...]:
    return consumer.key_shared.ranges


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
