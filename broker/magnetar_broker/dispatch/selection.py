"""Selects the next consumer, by priorities and names; independent of messages."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from magnetar_proto.hashes import murmur3_32

RING_POINTS = 100
"""The number of points that a consumer has on the failover hash ring."""


class Candidate(Protocol):
    """The properties of a consumer that selection uses."""

    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> int:
        """The priority of the consumer; 0 is the highest."""

    def can_take(self) -> bool: ...


C = TypeVar("C", bound=Candidate)


def pick_active(consumers: Sequence[C], topic: str, partition: int) -> C | None:
    """Return the consumer of a Failover subscription that receives; None without consumers.

    Among those of the best priority, sorted by name: partition p goes to member p mod k; a topic
    without partitions uses a hash ring of the members, not the order of joining.
    """
    if not consumers:
        return None
    best = min(consumer.priority for consumer in consumers)
    group = sorted((c for c in consumers if c.priority == best), key=lambda c: c.name)
    # Spreads the partitions over the members, whatever the order in which they have joined.
    if partition >= 0:
        return group[partition % len(group)]
    ring = sorted(
        (murmur3_32(f"{consumer.name}{point}".encode()), index)
        for index, consumer in enumerate(group)
        for point in range(RING_POINTS)
    )
    at = bisect_left(ring, (murmur3_32(topic.encode()), -1))
    return group[ring[at % len(ring)][1]]


class RoundRobin(Generic[C]):
    """Turns within the best priority level that has a consumer with room."""

    def __init__(self) -> None:
        self._levels: dict[int, list[C]] = {}
        self._turn: dict[int, int] = {}

    def add(self, consumer: C) -> None:
        """Add a consumer to its level."""
        self._levels.setdefault(consumer.priority, []).append(consumer)
        # Sorted here, where consumers come: `next` is called for every run.
        self._levels = dict(sorted(self._levels.items()))

    def remove(self, consumer: C) -> None:
        """Remove a consumer."""
        level = self._levels[consumer.priority]
        at = level.index(consumer)
        del level[at]
        if not level:
            del self._levels[consumer.priority]
            self._turn.pop(consumer.priority, None)
        # The places behind it move up: without this the next consumer would lose its turn.
        elif at < self._turn.get(consumer.priority, 0):
            self._turn[consumer.priority] -= 1

    def next(self) -> C | None:
        """Return the next consumer in turn that has room; call `served` once it was served."""
        # A consumer of lower priority receives only while no better one has room.
        for priority, level in self._levels.items():
            start = self._turn.get(priority, 0)
            for step in range(len(level)):
                at = (start + step) % len(level)
                if level[at].can_take():
                    return level[at]
        return None

    def served(self, consumer: C) -> None:
        """Pass the turn to the consumer after this one, which was sent something."""
        self._turn[consumer.priority] = self._levels[consumer.priority].index(consumer) + 1
