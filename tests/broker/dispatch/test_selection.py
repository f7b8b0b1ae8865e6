"""Who is next, in a ring, by partition, by priority and in turns."""

import random
from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.dispatch.selection import RoundRobin, pick_active


@dataclass(eq=False)
class Member:
    name: str
    priority: int = 0
    free: bool = True

    def can_take(self) -> bool:
        return self.free


members = st.lists(
    st.builds(Member, st.text("abcdef", min_size=1, max_size=3), st.integers(0, 2)), max_size=8
)


def test_without_consumers_none_is_picked() -> None:
    assert pick_active([], "topic", -1) is None
    assert pick_active([], "topic", 3) is None


@given(members, st.integers(0, 20))
def test_a_partition_goes_to_its_number_modulo_the_best_group(
    consumers: list[Member], partition: int
) -> None:
    picked = pick_active(consumers, "topic-partition-1", partition)
    best = min((c.priority for c in consumers), default=0)
    names = sorted(c.name for c in consumers if c.priority == best)
    if consumers:
        assert picked is not None
        assert picked.name == names[partition % len(names)]
        assert picked.priority == best


def test_nine_partitions_are_divided_among_three_consumers() -> None:
    consumers = [Member("B"), Member("C"), Member("A")]
    picked = [pick_active(consumers, "topic", partition) for partition in range(9)]
    assert [one.name for one in picked if one] == list("ABC" * 3)


def test_of_four_consumers_of_two_partitions_two_are_spare() -> None:
    consumers = [Member("C4"), Member("C2"), Member("C1"), Member("C3")]
    picked = [pick_active(consumers, "topic", partition) for partition in range(2)]
    assert [one.name for one in picked if one] == ["C1", "C2"]
    left = [one for one in consumers if one.name != "C1"]
    picked = [pick_active(left, "topic", partition) for partition in range(2)]
    assert [one.name for one in picked if one] == ["C2", "C3"]


def test_a_better_priority_leaves_the_others_spare() -> None:
    consumers = [Member("C1", 1), Member("C2", 0), Member("C3", 0), Member("C4", 1)]
    picked = [pick_active(consumers, "topic", partition) for partition in range(4)]
    assert [one.name for one in picked if one] == ["C2", "C3", "C2", "C3"]


@given(members.filter(bool), st.randoms(use_true_random=False), st.text(max_size=5))
def test_without_partitions_the_order_of_joining_does_not_matter(
    consumers: list[Member], dice: random.Random, topic: str
) -> None:
    picked = pick_active(consumers, topic, -1)
    assert picked is not None
    assert picked.priority == min(c.priority for c in consumers)
    shuffled = list(consumers)
    dice.shuffle(shuffled)
    again = pick_active(shuffled, topic, -1)
    assert again is not None
    assert again.name == picked.name


@given(members.filter(bool), st.text(max_size=5))
def test_the_leaving_of_another_changes_nothing(consumers: list[Member], topic: str) -> None:
    """A hash ring: only who was picked can be replaced by a leaving, or by a joining."""
    unique = list({c.name: c for c in consumers}.values())
    picked = pick_active(unique, topic, -1)
    for leaving in unique:
        rest = [c for c in unique if c is not leaving]
        if leaving is not picked:
            assert pick_active(rest, topic, -1) is picked


def test_topics_spread_over_the_ring() -> None:
    consumers = [Member(name) for name in ("one", "two", "three", "four")]
    picks = Counter(
        picked.name
        for number in range(400)
        if (picked := pick_active(consumers, f"topic-{number}", -1)) is not None
    )
    assert len(picks) == 4
    assert min(picks.values()) > 40


# Turns ------------------------------------------------------------------------------------


def turns_of(*consumers: Member) -> RoundRobin[Member]:
    turns: RoundRobin[Member] = RoundRobin()
    for consumer in consumers:
        turns.add(consumer)
    return turns


def serve(turns: RoundRobin[Member], times: int) -> list[str]:
    served = []
    for _ in range(times):
        consumer = turns.next()
        assert consumer is not None
        turns.served(consumer)
        served.append(consumer.name)
    return served


def test_every_consumer_gets_a_turn() -> None:
    turns = turns_of(Member("a"), Member("b"), Member("c"))
    assert serve(turns, 6) == ["a", "b", "c", "a", "b", "c"]


def test_the_turn_stays_until_something_was_given() -> None:
    turns = turns_of(Member("a"), Member("b"))
    assert turns.next() is turns.next()


def test_a_consumer_that_cannot_take_is_skipped() -> None:
    a, b, c = Member("a"), Member("b", free=False), Member("c")
    turns = turns_of(a, b, c)
    assert serve(turns, 4) == ["a", "c", "a", "c"]
    a.free = c.free = False
    assert turns.next() is None


def test_a_lower_priority_waits_until_no_better_one_is_free() -> None:
    low, high = Member("low", 5), Member("high", 1)
    turns = turns_of(low, high)
    assert serve(turns, 3) == ["high"] * 3
    high.free = False
    assert serve(turns, 2) == ["low"] * 2
    high.free = True
    assert serve(turns, 1) == ["high"]


def test_a_leaving_keeps_the_turn_of_the_others() -> None:
    a, b, c, d = (Member(name) for name in "abcd")
    turns = turns_of(a, b, c, d)
    assert serve(turns, 2) == ["a", "b"]
    turns.remove(a)
    assert serve(turns, 3) == ["c", "d", "b"]
    turns.remove(c)
    assert serve(turns, 2) == ["d", "b"]
    turns.remove(b)
    turns.remove(d)
    assert turns.next() is None


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["join", "leave", "serve"]))))
def test_between_two_turns_of_one_consumer_all_others_had_one(steps: list[tuple[int, str]]) -> None:
    """As long as no consumer joins or leaves; all of one level and free."""
    everybody = [Member(str(number)) for number in range(4)]
    turns = turns_of()
    present: list[Member] = []
    since: list[Member] = []
    for number, what in steps:
        member = everybody[number]
        if what == "serve" and present:
            consumer = turns.next()
            assert consumer in present
            turns.served(consumer)
            assert consumer not in since
            since = [*since, consumer] if len(since) + 1 < len(present) else []
        elif what == "join" and member not in present:
            turns.add(member)
            present.append(member)
            since = []
        elif what == "leave" and member in present:
            turns.remove(member)
            present.remove(member)
            since = []
