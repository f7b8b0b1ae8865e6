"""What waits for whom on a Key_Shared subscription.

An entry goes only to the owner of its slot, and only while no other consumer holds entries of that
slot.  A slot that moved to a new owner is *draining* until the old one has acknowledged or
returned what it holds; nothing else waits for that.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple

from magnetar_broker.dispatch.key_selection import SlotOwners
from magnetar_broker.subscribing.consumer import Consumer
from magnetar_storage.offsets import OffsetSet


@dataclass
class Draining:
    """A slot whose former owner still holds entries of it."""

    holder: Consumer
    entries: int
    """How many it holds."""
    waiting: list[int] = field(default_factory=list)
    """What waits for them; a heap."""
    blocked_attempts: int = 0
    """How often an entry could not go on because of them."""


class DrainingHash(NamedTuple):
    """A slot that a consumer drains, as statistics tell it."""

    slot: int
    unacked_entries: int
    blocked_attempts: int


class DrainingHashes(NamedTuple):
    """What a consumer has to do with draining; of its present `hashes` the sum and each."""

    unacked_entries: int
    cleared_total: int
    hashes: list[DrainingHash]


class KeyQueues:
    """Entries that wait, each in one place: its owner's queue, a draining slot, or unowned."""

    def __init__(self, slots: SlotOwners[Consumer], drains: bool) -> None:
        self.slots = slots
        self.draining: dict[int, Draining] = {}
        self.unowned = OffsetSet()
        """Entries of slots that belong to nobody; their slots are not remembered."""
        self.cleared: dict[Consumer, int] = {}
        """How many slots each consumer has drained."""
        self.waiting: dict[int, int] = {}
        """The slot of each entry that waits for an owner or a draining slot."""
        self._held: dict[int, int] = {}  # the slot of each entry that a consumer holds
        self._queues: dict[Consumer, list[int]] = {}  # heaps; what waits no more is passed over
        self._drains = drains

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """A consumer takes slots from others; what nobody owned may have found its owner."""
        self.slots.add(consumer)
        self._queues[consumer] = []
        self.cleared[consumer] = 0
        self._divide()

    def remove(self, consumer: Consumer) -> None:
        """Others take its slots; call `let_go` for what it held."""
        self.slots.remove(consumer)
        del self._queues[consumer], self.cleared[consumer]
        self._divide()

    def _divide(self) -> None:
        """Find anew which slots are draining, and where everything waits."""
        before, self.draining = self.draining, {}
        if self._drains:
            for consumer in [one for one in self._queues if one.pending]:
                for slot, entries in Counter(map(self._held.get, consumer.pending)).items():
                    if slot is not None and self.slots.owner(slot) is not consumer:
                        self.draining[slot] = Draining(consumer, entries)
        for slot, draining in self.draining.items():
            if slot in before:
                draining.blocked_attempts = before[slot].blocked_attempts
        waiting, self.waiting = self.waiting, {}
        for queue in self._queues.values():
            queue.clear()
        for offset, slot in sorted(waiting.items()):
            self.wait(offset, slot)

    def draining_hashes(self, consumer: Consumer) -> DrainingHashes:
        """The slots that this consumer drains, lowest first."""
        hashes = [
            DrainingHash(slot, draining.entries, draining.blocked_attempts)
            for slot, draining in sorted(self.draining.items(), key=lambda item: item[0])
            if draining.holder is consumer
        ]
        unacked = sum(each.unacked_entries for each in hashes)
        return DrainingHashes(unacked, self.cleared[consumer], hashes)

    # What consumers hold ----------------------------------------------------------

    def give(self, offsets: Sequence[int], slots: Sequence[int]) -> None:
        """Entries that did not wait went to the owner of their slots."""
        self._held.update(zip(offsets, slots, strict=True))

    def let_go(self, offset: int) -> tuple[int | None, bool]:
        """Nobody holds an entry any more: its slot, and whether that ended a slot's draining.

        The slot is None if nobody held it.
        """
        slot = self._held.pop(offset, None)
        draining = self.draining.get(slot) if slot is not None else None
        if slot is None or draining is None:
            return slot, False
        draining.entries -= 1
        if draining.entries:
            return slot, False
        del self.draining[slot]
        self.cleared[draining.holder] += 1
        for waiting in draining.waiting:
            if waiting in self.waiting:
                self.wait(waiting, slot)
        return slot, True

    def settle(self, offsets: Iterable[int]) -> tuple[list[int], bool]:
        """Entries are acknowledged: those that nobody held, and whether a slot was drained."""
        if not self.draining:
            held = self._held
            return [offset for offset in offsets if held.pop(offset, None) is None], False
        not_held, drained = [], False
        for offset in offsets:
            slot, ended = self.let_go(offset)
            drained = drained or ended
            if slot is None:
                not_held.append(offset)
        return not_held, drained

    # What waits -------------------------------------------------------------------

    def wait(self, offset: int, slot: int) -> None:
        """Queue an entry."""
        draining = self.draining.get(slot)
        if draining is not None:
            draining.blocked_attempts += 1
            heappush(draining.waiting, offset)
            self.waiting[offset] = slot
            return
        owner = self.slots.owner(slot)
        if owner is None:
            self.waiting.pop(offset, None)
            self.unowned.add(offset, offset + 1)
        else:
            self.waiting[offset] = slot
            heappush(self._queues[owner], offset)

    def first(self, consumer: Consumer) -> int | None:
        """The lowest entry that may go to a consumer now."""
        queue = self._queues[consumer]
        while queue and queue[0] not in self.waiting:
            heappop(queue)
        return queue[0] if queue else None

    def next(self, consumer: Consumer, limit: int) -> list[int]:
        """The lowest entries that may go to a consumer now."""
        found = nsmallest(limit, self._queues[consumer])
        return [offset for offset in found if offset in self.waiting]

    def give_first(self, consumer: Consumer) -> None:
        """That entry went to it."""
        offset = heappop(self._queues[consumer])
        self._held[offset] = self.waiting.pop(offset)

    def drop(self, offsets: range) -> list[int]:
        """Those of these entries that waited; they do no longer."""
        dropped = [offset for offset in self.waiting if offset in offsets]
        for offset in dropped:
            del self.waiting[offset]
        return dropped

    def take_unowned(self) -> OffsetSet:
        """What belonged to nobody, to be queued anew by its slots."""
        unowned, self.unowned = self.unowned, OffsetSet()
        return unowned

    def clear(self) -> None:
        """Nothing waits and nothing is held."""
        self.waiting.clear()
        self.draining.clear()
        self.unowned.clear()
        self._held.clear()
        for queue in self._queues.values():
            queue.clear()
