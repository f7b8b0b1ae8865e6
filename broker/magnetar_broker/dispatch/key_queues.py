"""The entries of a Key_Shared subscription that wait, by the consumer they wait for.

An entry is sent only to the owner of its slot, and only while no other consumer has pending
entries of that slot: so keys keep their order (PIP-379).  A slot that moved to a new owner is
*draining* until the former one has acknowledged or returned its entries of it; other slots do not
wait for that.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_selection import SlotOwners
from magnetar_storage.log.offset_set import OffsetSet


@dataclass
class Draining:
    """A slot of which a former owner still has pending entries."""

    holder: Consumer
    entries: int
    """The number of entries that are pending at the former owner."""
    waiting: list[int] = field(default_factory=list)
    """The entries of the slot that wait for those; a heap."""
    blocked_attempts: int = 0
    """The number of times that an entry could not be sent because of those."""


class KeyQueues:
    """Entries that wait, each in one place: its owner's queue, a draining slot, or unowned."""

    def __init__(self, slots: SlotOwners[Consumer], drains: bool) -> None:
        self.slots = slots
        self.draining: dict[int, Draining] = {}
        self.unowned = OffsetSet()
        """Entries of slots without an owner; their slots are computed again by `take_unowned`."""
        self.cleared: dict[Consumer, int] = {}
        """The number of slots that each consumer has finished draining."""
        self.waiting: dict[int, int] = {}
        """The slot of each entry that waits for an owner or a draining slot."""
        self._unacked: dict[int, int] = {}  # the slot of each pending entry
        self._queues: dict[Consumer, list[int]] = {}
        """The heap of each consumer; offsets that are not in `waiting` are stale."""
        self._drains = drains

    # Consumers --------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which gets slots.  Call `take_unowned`: entries may have an owner now."""
        self.slots.add(consumer)
        self._queues[consumer] = []
        self.cleared[consumer] = 0
        self._divide()  # promise: slots that move when a consumer joins are looked for

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, whose slots go to others; call `release` for its pending entries."""
        self.slots.remove(consumer)
        del self._queues[consumer], self.cleared[consumer]
        self._divide()

    def _divide(self) -> None:
        """Compute the draining slots after owners changed, and queue waiting entries again."""
        # This is computed from the pending entries, not updated: no draining slot can be left over.
        before, self.draining = self.draining, {}
        # Slots that consumers chose do not move, and with out-of-order delivery nobody waits.
        if self._drains:
            for consumer in [one for one in self._queues if one.pending]:
                for slot, entries in Counter(map(self._unacked.get, consumer.pending)).items():
                    if slot is not None and self.slots.owner(slot) is not consumer:
                        self.draining[slot] = Draining(consumer, entries)
        for slot, draining in self.draining.items():
            if slot in before:
                draining.blocked_attempts = before[slot].blocked_attempts
        waiting, self.waiting = self.waiting, {}
        # Any entry may have another owner now, or wait for another slot.
        for queue in self._queues.values():
            queue.clear()
        for offset, slot in sorted(waiting.items()):
            self.wait(offset, slot)

    def slot_of_pending(self, offset: int) -> int | None:
        """Return the slot of an entry that a consumer has not acknowledged; None of any other."""
        return self._unacked.get(offset)

    # Pending entries --------------------------------------------------------------

    def give(self, offsets: Sequence[int], slots: Sequence[int]) -> None:
        """Note that entries that did not wait are sent to the owner of their slots."""
        self._unacked.update(zip(offsets, slots, strict=True))

    def release(self, offset: int) -> tuple[int | None, bool]:
        """Remove a pending entry; return its slot, and whether that has stopped draining.

        The slot is None if the entry was not pending.
        """
        slot = self._unacked.pop(offset, None)
        draining = self.draining.get(slot) if slot is not None else None
        if slot is None or draining is None:
            return slot, False
        # promise[-= 1 -> -= 0]: a draining slot is released with its last entry
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
        """Remove acknowledged entries; return those not pending, and whether a slot was drained."""
        # The usual case: the owners have not changed for a while.
        if not self.draining:
            pending = self._unacked
            return [offset for offset in offsets if pending.pop(offset, None) is None], False
        not_pending, drained = [], False
        for offset in offsets:
            slot, ended = self.release(offset)
            drained = drained or ended
            if slot is None:
                not_pending.append(offset)
        return not_pending, drained

    # Waiting entries --------------------------------------------------------------

    def wait(self, offset: int, slot: int) -> None:
        """Queue an entry for the owner of its slot, or until the slot is drained or owned."""
        draining = self.draining.get(slot)
        if draining is not None:
            draining.blocked_attempts += 1
            heappush(draining.waiting, offset)
            self.waiting[offset] = slot
            return
        owner = self.slots.owner(slot)
        if owner is None:
            # Not in `waiting`, whose size limits reading ahead: nobody can be sent these, so they
            # would stop delivery to everybody else.
            self.waiting.pop(offset, None)
            self.unowned.add(offset, offset + 1)
        else:
            self.waiting[offset] = slot
            # promise[heappush(self._queues[owner], offset) -> self._queues[owner].append(offset)]:
            #   waiting entries of a consumer stay in order
            heappush(self._queues[owner], offset)

    def first(self, consumer: Consumer) -> int | None:
        """Return the lowest entry that may be sent to a consumer now."""
        queue = self._queues[consumer]
        # A heap loses entries only at its top: those that are gone are dropped when they get there.
        while queue and queue[0] not in self.waiting:
            heappop(queue)
        return queue[0] if queue else None

    def next(self, consumer: Consumer, limit: int) -> list[int]:
        """Return the lowest entries that may be sent to a consumer now."""
        found = nsmallest(limit, self._queues[consumer])
        return [offset for offset in found if offset in self.waiting]

    def give_first(self, consumer: Consumer) -> None:
        """Note that the entry that `first` returned is sent to the consumer."""
        offset = heappop(self._queues[consumer])
        self._unacked[offset] = self.waiting.pop(offset)

    def drop(self, offsets: range) -> list[int]:
        """Remove entries from all queues; return those that were waiting."""
        dropped = [offset for offset in self.waiting if offset in offsets]
        for offset in dropped:
            del self.waiting[offset]
        return dropped

    def take_unowned(self) -> OffsetSet:
        """Remove and return the entries without an owner, to be routed again."""
        unowned, self.unowned = self.unowned, OffsetSet()
        return unowned

    def clear(self) -> None:
        """Remove everything that is waiting or pending."""
        self.waiting.clear()
        self.draining.clear()
        self.unowned.clear()
        self._unacked.clear()
        for queue in self._queues.values():
            queue.clear()
