"""Which consumer has which hashes, and what is said of a blocked subscription."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fakes.key_model import keyed
from fakes.topics import KEY_SHARED, SHARED, TopicWorld, entry
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.key_selection import (
    ChosenRanges,
    HashRing,
    KeySharedMeta,
    RangeHalving,
    SlotOwners,
)
from magnetar_broker.statistics import key_hashes
from magnetar_broker.statistics.blockers import REASONS, why_not_delivering
from magnetar_broker.statistics.key_hashes import (
    drained,
    draining_with_ids,
    hash_ranges,
    queues_of,
)


@dataclass(eq=False)
class Member:
    name: str
    key_shared: KeySharedMeta = field(default_factory=KeySharedMeta)


Slots = Callable[[], SlotOwners[Member]]
KINDS: list[Slots] = [lambda: HashRing(10), lambda: HashRing(1), RangeHalving]


@pytest.mark.parametrize("kind", KINDS)
def test_the_ranges_are_those_of_the_owners(kind: Slots) -> None:
    slots = kind()
    members = [Member(f"m{number}") for number in range(5)]
    for member in members:
        slots.add(member)
        found = hash_ranges(slots)
        owned = {s: m for m, ranges in found.items() for a, b in ranges for s in range(a, b + 1)}
        assert owned == {slot: slots.owner(slot) for slot in range(1, 65536)}
    slots.remove(members[0])
    assert members[0] not in hash_ranges(slots)


def test_neighbouring_ranges_of_one_consumer_are_one() -> None:
    ring: SlotOwners[Member] = HashRing(100)
    alone = Member("alone")
    ring.add(alone)
    assert hash_ranges(ring) == {alone: [[1, 65535]]}


def test_chosen_ranges_are_shown_as_they_were_chosen() -> None:
    slots: SlotOwners[Member] = ChosenRanges()
    low = Member("low", KeySharedMeta(True, False, ((0, 9), (100, 199))))
    high = Member("high", KeySharedMeta(True, False, ((60000, 65535),)))
    slots.add(low)
    slots.add(high)
    assert hash_ranges(slots) == {low: [[0, 9], [100, 199]], high: [[60000, 65535]]}


def test_the_oldest_messages_of_the_hashes_with_most_waiting_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, limit in (("MAX_HASHES", 2), ("MAX_IDS", 3), ("STEP", 4)):
        monkeypatch.setattr(key_hashes, name, limit)
    world, keys = TopicWorld(), [f"key-{number}" for number in range(16)]
    holder = world.subscribe(sub_type=KEY_SHARED, permits=200)
    world.publish(*(keyed(key) for _ in range(5) for key in keys))
    world.nack(holder, *range(len(keys)))  # the oldest are sent again, behind the others
    world.subscribe(sub_type=KEY_SHARED, permits=100)
    subscription = world.subscription()
    queues = queues_of(subscription)
    assert queues is not None
    slots = {key: queues.slots.slot_of(key.encode()) for key in keys}
    moved = [key for key in keys if slots[key] in queues.draining]
    assert len(moved) > 2
    world.publish(keyed(moved[1]), keyed(moved[2]), keyed(moved[2]))
    found = world.do(draining_with_ids(subscription, queues))
    assert found["drainingHashesCount"] == len(moved)
    listed = {one["hash"]: one for one in found["drainingHashes"]}
    assert list(listed) == [slots[moved[at]] for at in (2, 1)]
    assert [one["waitingEntries"] for one in listed.values()] == [2, 1]
    assert [one["unackedEntries"] for one in listed.values()] == [5, 5]
    for at in (1, 2):
        offsets = [turn * len(keys) + keys.index(moved[at]) for turn in range(3)]
        expected = ["{}:{}".format(*world.topic.log.position(offset)) for offset in offsets]
        assert listed[slots[moved[at]]]["unackedMessageIds"] == expected


def test_all_hashes_that_a_consumer_drains_are_counted_and_the_lowest_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_hashes, "STEP", 4)
    world, keys = TopicWorld(), [f"key-{number}" for number in range(16)]
    holder = world.subscribe(sub_type=KEY_SHARED, permits=200)
    world.publish(*(keyed(key) for _ in range(5) for key in keys))
    others = [world.subscribe(sub_type=KEY_SHARED, permits=100) for _ in range(2)]
    subscription = world.subscription()
    queues = queues_of(subscription)
    assert queues is not None
    slots = sorted(queues.draining)
    assert len(slots) > 4
    for name, limit, listed in (("MAX_HASHES", 4, 4), ("MAX_LISTED", 6, 2), ("MAX_LISTED", 1, 1)):
        monkeypatch.setattr(key_hashes, name, limit)
        found = world.do(drained(queues, world.clock))
        assert [one["hash"] for one in found[holder]["drainingHashes"]] == slots[:listed]
        assert found[holder]["drainingHashesCount"] == len(slots)
        assert found[holder]["drainingHashesUnackedMessages"] == 5 * len(slots)
        assert all(found[other]["drainingHashesCount"] == 0 for other in others)


def test_nobody_has_no_ranges() -> None:
    assert hash_ranges(RangeHalving()) == {}


def test_every_blocker_has_a_reason_and_a_remedy() -> None:
    assert set(REASONS) == set(Blocker)
    assert all(reason.why and reason.what_to_do for reason in REASONS.values())


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_delayed_messages_name_the_time_of_the_next(sub_type: int) -> None:
    world = TopicWorld()
    world.subscribe(sub_type=sub_type, permits=10)
    later_ms = world.clock.now_ms() + 60_000
    world.publish(entry(0, deliver_at_ms=later_ms), entry(0, deliver_at_ms=later_ms + 1))
    found = world.do(why_not_delivering(world.topic, world.subscription(), None))
    assert (found["blocker"], found["msgDelayed"]) == ("delay", 2)
    assert later_ms <= found["nextDueTimestamp"] <= later_ms + 1000
    assert "stalledSeconds" not in found


def test_a_stall_says_how_long_it_has_lasted() -> None:
    world = TopicWorld()
    world.subscribe(sub_type=SHARED)
    world.publish(entry(0))
    found = world.do(why_not_delivering(world.topic, world.subscription(), 7))
    assert (found["blocker"], found["stalledSeconds"]) == ("no_permits", 7)
