"""Key_Shared: which consumer has which hashes, and which hashes are draining."""

from collections.abc import Iterable

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.key_queues import KeyQueues
from magnetar_broker.dispatch.key_selection import LAST_SLOT, C, ChosenRanges, SlotOwners
from magnetar_broker.dispatch.key_shared import KeyShared
from magnetar_broker.statistics.shapes import Json, address, position
from magnetar_broker.subscribing.subscription import Subscription

MAX_HASHES = 1000
"""Draining hashes that are listed of one consumer, and of one subscription."""
MAX_IDS = 100
"""Messages that are listed of one draining hash."""


def hash_ranges(slots: SlotOwners[C]) -> dict[C, list[list[int]]]:
    """The hashes of each consumer as ranges (first, last), ascending."""
    found: dict[C, list[list[int]]] = {}
    # 0 is no hash of a key; only who chooses ranges may name it.
    first = 0 if isinstance(slots, ChosenRanges) else 1
    before: C | None = None
    for end, owner in zip(slots.ends, slots.owners, strict=True):
        last = min(end, LAST_SLOT)
        if owner is not None and first <= last:
            ranges = found.setdefault(owner, [])
            if owner is before:
                ranges[-1][1] = last
            else:
                ranges.append([first, last])
            before = owner
        elif first <= last:
            before = None
        first = max(first, last + 1)
    return found


def queues_of(subscription: Subscription) -> KeyQueues | None:
    """What waits for consumers, of a Key_Shared subscription; None of any other."""
    dispatcher = subscription.dispatcher
    return dispatcher.queues if isinstance(dispatcher, KeyShared) else None


def drained(queues: KeyQueues) -> dict[Consumer, Json]:
    """The fields of each consumer about the hashes that it is draining."""
    held: dict[Consumer, list[Json]] = {consumer: [] for consumer in queues.cleared}
    for slot, draining in sorted(queues.draining.items(), key=lambda item: item[0]):
        held[draining.holder].append(
            {
                "hash": slot,
                "unackMsgs": draining.entries,
                "blockedAttempts": draining.blocked_attempts,
            }
        )
    return {
        consumer: {
            "drainingHashesCount": len(hashes),
            "drainingHashesClearedTotal": queues.cleared[consumer],
            "drainingHashesUnackedMessages": sum(each["unackMsgs"] for each in hashes),
            "drainingHashes": hashes[:MAX_HASHES],
        }
        for consumer, hashes in held.items()
    }


def draining_with_ids(subscription: Subscription, queues: KeyQueues) -> Json:
    """The draining hashes, those with most waiting entries first, with what holds them."""
    draining = sorted(queues.draining.items(), key=lambda item: (-len(item[1].waiting), item[0]))
    shown = dict(draining[:MAX_HASHES])
    ids = _held_ids(subscription, queues, shown)
    return {
        "drainingHashesCount": len(draining),
        "drainingHashes": [
            {
                "hash": slot,
                "holder": _named(one.holder),
                "owner": _named(queues.slots.owner(slot)),
                "unackedEntries": one.entries,
                "waitingEntries": sum(offset in queues.waiting for offset in one.waiting),
                "blockedAttempts": one.blocked_attempts,
                "unackedMessageIds": ids[slot],
            }
            for slot, one in shown.items()
        ],
    }


def _held_ids(
    subscription: Subscription, queues: KeyQueues, slots: Iterable[int]
) -> dict[int, list[str]]:
    """The oldest unacknowledged entries behind each of these hashes."""
    log, found = subscription.topic.log, {slot: list[str]() for slot in slots}
    for consumer in subscription.consumers:
        for offset, slot in queues.slots_of_pending(consumer):
            ids = found.get(slot)
            if ids is not None and len(ids) < MAX_IDS:
                ids.append(position(*log.position(offset)))
    return found


def hash_of_key(subscription: Subscription, queues: KeyQueues, key: bytes) -> Json:
    """The hash of a key, who gets its messages, and whether they wait for somebody else."""
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
