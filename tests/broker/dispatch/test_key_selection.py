"""Who owns which slot, through joins and leaves."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples, some
from magnetar_broker.base.errors import ConsumerUnassigned
from magnetar_broker.dispatch.key_selection import (
    ChosenRanges,
    HashRing,
    KeySharedMeta,
    RangeHalving,
    SlotOwners,
)
from magnetar_proto.hashes import range_slot, ring_slot

SLOTS = range(1, 65536)


@dataclass(eq=False)
class Member:
    """A consumer, as far as selection sees it."""

    name: str
    key_shared: KeySharedMeta = field(default_factory=KeySharedMeta)


def owners(slots: SlotOwners[Member]) -> set[Member | None]:
    """Who owns any slot."""
    return {slots.owner(slot) for slot in SLOTS}


Stretches = list[tuple[int, Member | None]]


def held(slots: SlotOwners[Member]) -> Stretches:
    """The stretches, those of one owner that follow each other as one."""
    found = list(zip(slots.ends, slots.owners, strict=True))
    return [one for one, after in pairwise(found) if one[1] is not after[1]] + found[-1:]


def moves(before: Stretches, after: Stretches) -> set[tuple[Member | None, Member | None]]:
    """From whom to whom slots went."""
    slots = {min(end, SLOTS[-1]) for end, _ in before + after}
    pairs = ((owner_in(before, slot), owner_in(after, slot)) for slot in slots)
    return {(one, other) for one, other in pairs if one is not other}


def owner_in(found: Stretches, slot: int) -> Member | None:
    return found[bisect_left(found, slot, key=lambda stretch: stretch[0])][1]


def stretches(slots: SlotOwners[Member]) -> list[tuple[int, str | None]]:
    """Ends, and the names of the owners."""
    return [
        (e, None if o is None else o.name) for e, o in zip(slots.ends, slots.owners, strict=True)
    ]


def chosen(name: str, *ranges: tuple[int, int]) -> Member:
    return Member(name, KeySharedMeta(sticky=True, ranges=ranges))


# Any history ------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[], SlotOwners[Member]]] = {
    "ring": lambda: HashRing(10),
    "ring of colliding points": lambda: HashRing(500),
    "halving": RangeHalving,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@given(
    history=st.lists(
        st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 9)), max_size=12
    )
)
@settings(max_examples=examples(25))
def test_slots_have_one_owner_and_only_those_move_that_must(
    make: Callable[[], SlotOwners[Member]], history: Sequence[tuple[bool, str, int]]
) -> None:
    slots, members = make(), list[Member]()
    before = held(slots)
    for joins, name, which in history:
        if joins or not members:
            member = Member(name)
            assert slots.check(member.key_shared) is None
            members.append(member)
            slots.add(member)
        elif members:
            member = members.pop(which % len(members))
            slots.remove(member)
        after = held(slots)
        allowed: set[Member | None] = {*members} or {None}
        assert {owner for _, owner in after} <= allowed
        assert all(member in move for move in moves(before, after)), "bystanders exchanged slots"
        assert slots.ends == sorted(slots.ends)
        assert slots.ends[-1] >= SLOTS[-1]
        before = after


def test_when_the_last_joiner_leaves_all_is_as_before() -> None:
    for make in MAKERS.values():
        slots = make()
        for number in range(5):
            slots.add(Member(f"c{number}"))
        before = held(slots)
        last = Member("last")
        slots.add(last)
        assert held(slots) != before
        slots.remove(last)
        assert moves(held(slots), before) == set()


# The ring ---------------------------------------------------------------------------------------


def test_a_slot_is_of_the_next_point_and_the_last_ones_of_the_first_point() -> None:
    slots: HashRing[Member] = HashRing(100)
    members = [Member("one"), Member("two")]
    for member in members:
        slots.add(member)
    points = {
        ring_slot(f"{member.name}\0000\000{number}".encode()): member
        for member in reversed(members)
        for number in range(100)
    }
    for slot in some(SLOTS, 7):
        at = min((point for point in points if point >= slot), default=min(points))
        assert slots.owner(slot) is points[at]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30))
@settings(max_examples=examples(25))
def test_after_any_history_a_point_is_of_the_first_that_claimed_it(
    history: list[tuple[str, int]],
) -> None:
    slots: HashRing[Member] = HashRing(300)
    members: list[Member] = []
    for name, which in history:
        if which < len(members):
            slots.remove(members.pop(which))
        else:
            members.append(Member(name))
            slots.add(members[-1])
        claims = [(point, slots._claims[point][0]) for point in sorted(slots._claims)]
        last = claims[0][1] if claims else None
        assert slots.ends == [*(point for point, _ in claims), SLOTS[-1]]
        assert slots.owners == [*(member for _, member in claims), last]


def test_points_that_collide_queue_behind_the_holder() -> None:
    slots: HashRing[Member] = HashRing(1)
    names: dict[int, str] = {}
    name = other = ""
    for number in range(5000):
        name = f"c{number}"
        other = names.setdefault(ring_slot(f"{name}\0000\0000".encode()), name)
        if other != name:
            break
    twins = [Member(name), Member(other)]
    assert name != other
    for twin in twins:
        slots.add(twin)
    assert owners(slots) == {twins[0]}
    slots.remove(twins[0])
    assert owners(slots) == {twins[1]}


def test_consumers_of_one_name_have_points_of_their_own_and_numbers_are_used_again() -> None:
    slots: HashRing[Member] = HashRing(100)
    same = [Member("same") for _ in range(3)]
    for member in same:
        slots.add(member)
    shares = Counter(id(slots.owner(slot)) for slot in SLOTS)
    assert set(shares) == set(map(id, same)) and min(shares.values()) > 10_000
    before = held(slots)
    slots.remove(same[1])
    slots.add(again := Member("same"))
    assert moves(before, held(slots)) == {(same[1], again)}


# Halving ----------------------------------------------------------------------------------------


def test_the_documents_ranges_of_four_consumers_and_their_merges() -> None:
    slots: RangeHalving[Member] = RangeHalving()
    c1, c2, c3, c4 = members = [Member(f"C{number}") for number in range(1, 5)]
    seen = []
    for member in members:
        slots.add(member)
        seen.append(stretches(slots))
    assert seen == [
        [(65536, "C1")],
        [(32768, "C2"), (65536, "C1")],
        [(16384, "C3"), (32768, "C2"), (65536, "C1")],
        [(16384, "C3"), (32768, "C2"), (49152, "C4"), (65536, "C1")],
    ]
    slots.remove(c1)
    assert stretches(slots) == [(16384, "C3"), (32768, "C2"), (65536, "C4")]
    slots.remove(c3)
    assert stretches(slots) == [(32768, "C2"), (65536, "C4")]
    slots.remove(c4)
    assert stretches(slots) == [(65536, "C2")]
    slots.remove(c2)
    assert owners(slots) == {None}


def test_when_no_range_can_be_halved_no_consumer_may_join() -> None:
    slots: RangeHalving[Member] = RangeHalving()
    slots._ranges = {end: Member(str(end)) for end in range(1, 65537)}
    with pytest.raises(ConsumerUnassigned, match="65536 consumers"):
        slots.check(KeySharedMeta())


# Chosen ranges ----------------------------------------------------------------------------------


def test_consumers_have_what_they_chose_and_the_rest_has_no_owner() -> None:
    slots: ChosenRanges[Member] = ChosenRanges()
    slots.add(chosen("b", (30_000, 39_999)))
    slots.add(a := chosen("a", (50_000, 65_535), (0, 9_999), (20_000, 29_999)))
    assert stretches(slots) == [
        (9_999, "a"), (19_999, None), (29_999, "a"), (39_999, "b"), (49_999, None), (65_535, "a"),
        (65_536, None),
    ]  # fmt: skip
    slots.remove(a)
    assert stretches(slots) == [(29_999, None), (39_999, "b"), (65_535, None)]


def test_a_key_goes_by_its_slot_in_the_whole_range() -> None:
    slots: ChosenRanges[Member] = ChosenRanges()
    slots.add(member := chosen("a", (293, 293)))
    assert slots.owner(slots.slot_of(b"key1")) is member
    assert slots.owner(slots.slot_of(b"key2")) is None
    assert range_slot(b"key1") == 293


def test_conflicting_consumers() -> None:
    slots: ChosenRanges[Member] = ChosenRanges()
    slots.add(holder := chosen("a", (10, 20), (40, 50)))
    for start, end in [(5, 10), (20, 30), (12, 13), (0, 65_535), (30, 40)]:
        assert slots.check(chosen("b", (start, end)).key_shared) is holder
    assert slots.check(chosen("b", (0, 9), (21, 39), (51, 60)).key_shared) is None


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ((), "at least one"),
        (((5, 4),), "ends before"),
        (((0, 10), (10, 20)), "overlap"),
        (((30, 40), (0, 100)), "overlap"),
    ],
)
def test_invalid_ranges(ranges: tuple[tuple[int, int], ...], why: str) -> None:
    with pytest.raises(ConsumerUnassigned, match=why):
        ChosenRanges[Member]().check(KeySharedMeta(sticky=True, ranges=ranges))
