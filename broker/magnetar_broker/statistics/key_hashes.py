"""Key_Shared: the hashes of each consumer, and the hashes that are draining."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappush, heapreplace, nsmallest
from operator import itemgetter
from typing import TypeVar

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_queues import Draining, KeyQueues
from magnetar_broker.dispatch.key_selection import LAST_SLOT, C, ChosenRanges, SlotOwners
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.statistics.shapes import Json, address, position
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_storage.runtime.execution import Clock, yield_turn

T = TypeVar("T")
MAX_HASHES = 1000
"""The most draining hashes that are listed for one consumer, and for one subscription."""
MAX_LISTED = 10_000
"""The most draining hashes that are listed for all consumers of one subscription together, except
that each consumer has at least one."""
MAX_IDS = 100
"""The most messages that are listed for one draining hash."""
STEP = 5000
"""The number of entries, or hashes, after which the broker does other work."""


def hash_ranges(slots: SlotOwners[C]) -> dict[C, list[list[int]]]:
    """Return the hashes of each consumer as ranges (first, last), ascending."""
    found: dict[C, list[list[int]]] = {}
    # No key has the hash 0: only consumers that choose their ranges may name it.
    first = 0 if isinstance(slots, ChosenRanges) else 1
    before: C | None = None
    for end, owner in zip(slots.ends, slots.owners, strict=True):
        last = min(end, LAST_SLOT)
        if owner is not None and first <= last:
            ranges = found.setdefault(owner, [])
            if owner is before:
                # promise[ranges[-1][1] = last -> ranges.append([first, last])]: neighbouring ranges
                #   of hashes are joined
                ranges[-1][1] = last
            else:
                ranges.append([first, last])
            before = owner
        elif first <= last:
            before = None
        first = max(first, last + 1)
    return found


def queues_of(subscription: Subscription) -> KeyQueues | None:
    """Return the queues of a Key_Shared subscription; None for any other subscription."""
    dispatcher = subscription.dispatcher
    return dispatcher.queues if isinstance(dispatcher, KeyShared) else None


class _Turns:
    """Lets the loop do other work after every `STEP` items."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._done = 0

    async def after(self, things: int) -> None:
        """Count handled items, and pause after every `STEP` of them."""
        self._done += things
        if self._done >= STEP:
            self._done = 0
            await yield_turn(self._clock)

    async def parts(self, things: Iterable[T]) -> AsyncIterator[list[T]]:
        """Yield the present items, a part at a time."""
        present = list(things)
        for start in range(0, len(present), STEP):
            part = present[start : start + STEP]
            yield part
            await self.after(len(part))


@dataclass(slots=True)
class _Held:
    """The hashes that one consumer drains."""

    hashes: list[tuple[int, Draining]] = field(default_factory=list)
    unacked: int = 0


async def drained(queues: KeyQueues, clock: Clock) -> dict[Consumer, Json]:
    """Return each consumer's fields about draining hashes: all are counted, the lowest are listed.

    Other work runs in between, so parts differ slightly in time.
    """
    turns, held = _Turns(clock), {consumer: _Held() for consumer in queues.cleared}
    async for some in turns.parts(queues.draining.items()):
        for item in some:
            one = held.setdefault(item[1].holder, _Held())
            one.hashes.append(item)
            one.unacked += item[1].entries
    # promise[min(MAX_HASHES, max(1, MAX_LISTED // max(len(held), 1))) -> MAX_HASHES]: draining
    #   hashes in statistics are limited over all consumers
    most = min(MAX_HASHES, max(1, MAX_LISTED // max(len(held), 1)))
    found: dict[Consumer, Json] = {}
    for consumer, one in held.items():
        lowest = nsmallest(most, one.hashes, key=itemgetter(0))
        await turns.after(len(one.hashes))
        found[consumer] = {
            "drainingHashesCount": len(one.hashes),
            "drainingHashesClearedTotal": queues.cleared.get(consumer, 0),
            "drainingHashesUnackedMessages": one.unacked,
            "drainingHashes": [
                {
                    "hash": slot,
                    "unackMsgs": draining.entries,
                    "blockedAttempts": draining.blocked_attempts,
                }
                for slot, draining in lowest
            ],
        }
    return found


async def draining_with_ids(subscription: Subscription, queues: KeyQueues) -> Json:
    """Return the draining hashes with their holders, those with most waiting entries first.

    Other work runs in between, so parts differ slightly in time.
    """
    turns = _Turns(subscription.topic.log.engine.clock)
    count, shown = len(queues.draining), await _most_waiting(queues, turns)
    oldest = await _oldest_held(queues, shown, turns)
    log, hashes = subscription.topic.log, list[Json]()
    for slot, one in shown.items():
        waiting = 0
        async for some in turns.parts(one.waiting):
            waiting += sum(offset in queues.waiting for offset in some)
        ids = [position(*log.position(offset)) for offset in oldest[slot]]
        await turns.after(len(ids))
        hashes.append(
            {
                "hash": slot,
                "holder": _named(one.holder),
                "owner": _named(queues.slots.owner(slot)),
                "unackedEntries": one.entries,
                "waitingEntries": waiting,
                "blockedAttempts": one.blocked_attempts,
                "unackedMessageIds": ids,
            }
        )
    return {"drainingHashesCount": count, "drainingHashes": hashes}


async def _most_waiting(queues: KeyQueues, turns: _Turns) -> dict[int, Draining]:
    """Return the draining hashes that are listed: those with most waiting entries."""
    found: list[tuple[int, Draining]] = []
    async for some in turns.parts(queues.draining.items()):
        found = nsmallest(
            MAX_HASHES, [*found, *some], key=lambda item: (-len(item[1].waiting), item[0])
        )
    return dict(found)


async def _oldest_held(
    queues: KeyQueues, shown: Mapping[int, Draining], turns: _Turns
) -> dict[int, list[int]]:
    """Return the oldest unacknowledged entries of each of these hashes, in ascending order."""
    # Negative, so that the first of each heap is the newest entry, which an older one replaces.
    oldest: dict[int, list[int]] = {slot: [] for slot in shown}
    for holder in {one.holder for one in shown.values()}:
        async for some in turns.parts(holder.pending):
            for offset in some:
                slot = queues.slot_of_pending(offset)
                heap = None if slot is None else oldest.get(slot)
                if heap is None:
                    continue
                if len(heap) < MAX_IDS:
                    heappush(heap, -offset)
                elif -offset > heap[0]:
                    heapreplace(heap, -offset)  # promise: a draining hash lists its oldest messages
    return {slot: sorted(-each for each in heap) for slot, heap in oldest.items()}


def hash_of_key(subscription: Subscription, queues: KeyQueues, key: bytes) -> Json:
    """Return a key's hash, the consumer that receives it, and the consumers that block it."""
    slot = queues.slots.slot_of(key)
    found: Json = {"hash": slot, "consumer": _named(queues.slots.owner(slot))}
    draining = queues.draining.get(slot)
    found["draining"] = draining is not None
    if draining is not None:
        found["holder"] = _named(draining.holder)
        found["unackedEntries"] = draining.entries
    return found


def _named(consumer: Consumer | None) -> Json | None:
    if consumer is None:
        return None
    return {
        "consumerName": consumer.name,
        "consumerId": consumer.id,
        "address": address(consumer.connection.address),
    }
