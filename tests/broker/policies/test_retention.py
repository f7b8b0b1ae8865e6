"""The data that retention keeps, and the data that may be deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.policies.retention import (
    KEEP_NO_UNREAD,
    CursorPosition,
    Retention,
    RetentionReason,
    Unread,
    Verdict,
    deletable_to,
    released_to,
    verdicts,
)
from magnetar_storage.log.log_record import Segment
from magnetar_storage.log.ranges import RangeSet

MEGABYTE = 1 << 20
MINUTE_MS = 60_000
NOW_MS = 1_000 * MINUTE_MS
FIRST = 100
ROLL_MINUTES = 240


def segments(*sealed: tuple[int, int, int], opened: int = 0) -> tuple[Segment, ...]:
    """Return segments of (entries, megabytes, minutes since sealed), then an open one."""
    made = [
        Segment(number, 0, entries, entries, size * MEGABYTE, NOW_MS - age * MINUTE_MS)
        for number, (entries, size, age) in enumerate(sealed)
    ]
    return (*made, Segment(len(made), NOW_MS - opened * MINUTE_MS))


def judged(
    retention: Retention,
    *sealed: tuple[int, int, int],
    needs: dict[str, int] | None = None,
    open_bytes: int = 0,
    unread: Unread = KEEP_NO_UNREAD,
) -> list[Verdict]:
    return verdicts(
        segments(*sealed),
        FIRST,
        sum(size for _, size, _ in sealed) * MEGABYTE + open_bytes,
        [CursorPosition(name, FIRST + offset) for name, offset in (needs or {}).items()],
        retention,
        ROLL_MINUTES * MINUTE_MS,
        NOW_MS,
        unread,
    )


def gone(found: list[Verdict]) -> int:
    assert released_to(found, FIRST) == deletable_to(found, FIRST)
    return deletable_to(found, FIRST) - FIRST


THREE = ((10, 4, 30), (10, 4, 20), (10, 4, 10))


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        (Retention(), 30),
        (Retention(minutes=-1, megabytes=-1), 0),
        (Retention(minutes=-1, megabytes=9), 0),
        (Retention(minutes=-1, megabytes=8), 10),
        (Retention(minutes=-1, megabytes=5), 10),
        (Retention(minutes=-1, megabytes=4), 20),
        (Retention(minutes=-1, megabytes=1), 20),
        (Retention(minutes=15, megabytes=-1), 20),
        (Retention(minutes=20, megabytes=-1), 20),
        (Retention(minutes=21, megabytes=-1), 10),
        (Retention(minutes=100, megabytes=8), 10),
        (Retention(minutes=5, megabytes=1000), 30),
        (Retention(minutes=0, megabytes=1000), 30),
        (Retention(minutes=1000, megabytes=0), 30),
    ],
)
def test_segments_may_go_when_too_old_or_too_many(retention: Retention, expected: int) -> None:
    assert gone(judged(retention, *THREE)) == expected


def test_nothing_goes_without_segments() -> None:
    assert verdicts((), 5, 0, [], Retention(), 1, NOW_MS) == []
    assert released_to([], 5) == deletable_to([], 5) == 5


def test_what_is_open_stays_until_it_rolls_over() -> None:
    found = judged(Retention(), (10, 1, 1), open_bytes=7, needs={"a": 9})
    assert found[-1].reasons == (RetentionReason.OPEN,)
    assert found[-1].until_ms == NOW_MS + ROLL_MINUTES * MINUTE_MS
    assert found[-1].needed_by == ("a",)
    assert found[-1].stop is None
    assert judged(Retention())[-1].until_ms is None, "an empty one never does"


def test_what_is_open_counts_for_the_size() -> None:
    assert gone(judged(Retention(-1, 9), *THREE, open_bytes=MEGABYTE - 1)) == 0
    assert gone(judged(Retention(-1, 9), *THREE, open_bytes=MEGABYTE)) == 10
    assert gone(judged(Retention(-1, 9), *THREE, open_bytes=9 * MEGABYTE)) == 30


def test_the_verdict_names_the_subscriptions() -> None:
    found = judged(Retention(), *THREE, needs={"ahead": 29, "slow": 12, "middle": 19})
    assert [verdict.needed_by for verdict in found[:3]] == [(), ("slow",), ("slow", "middle")]
    assert [verdict.reasons for verdict in found[:3]] == [
        (),
        (RetentionReason.SUBSCRIPTION,),
        (RetentionReason.SUBSCRIPTION,),
    ]
    assert deletable_to(found, FIRST) == FIRST + 10
    assert released_to(found, FIRST) == FIRST + 30


def test_a_subscription_and_retention_may_both_keep_it() -> None:
    found = judged(Retention(25, 4), *THREE, needs={"slow": -1})
    assert [verdict.reasons for verdict in found[:3]] == [
        (RetentionReason.SUBSCRIPTION,),
        (RetentionReason.SUBSCRIPTION,),
        (RetentionReason.SUBSCRIPTION, RetentionReason.RETENTION),
    ]
    assert found[2].until_ms == NOW_MS + 15 * MINUTE_MS
    assert found[2].room == 4 * MEGABYTE
    assert released_to(found, FIRST) == FIRST + 20


def test_without_a_limit_there_is_no_end() -> None:
    found = judged(Retention(-1, -1), *THREE)
    assert {(verdict.until_ms, verdict.room) for verdict in found} == {(None, None)}


def test_what_is_older_goes_first_even_if_a_clock_was_set_back() -> None:
    found = judged(Retention(25, -1), (10, 1, 5), (10, 1, 30))
    assert [verdict.reasons for verdict in found[:2]] == [
        (RetentionReason.RETENTION,),
        (RetentionReason.OLDER,),
    ]
    assert gone(found) == 0


def test_unread_segments_stay_where_there_is_no_retention() -> None:
    unread = Unread(held(0, 15).next_missing, Retention(25, 4))
    found = judged(Retention(), *THREE, unread=unread)
    assert [verdict.reasons for verdict in found[:3]] == [
        (),
        (),  # the newer one has the size
        (RetentionReason.UNREAD,),
    ]
    assert found[2].until_ms == NOW_MS + 15 * MINUTE_MS
    assert found[2].room == 4 * MEGABYTE
    assert deletable_to(found, FIRST) == FIRST + 20


def test_retention_is_named_before_what_is_unread() -> None:
    unread = Unread(RangeSet().next_missing, Retention(-1, -1))
    found = judged(Retention(-1, -1), *THREE, unread=unread)
    assert {verdict.reasons for verdict in found[:3]} == {(RetentionReason.RETENTION,)}


def test_what_was_closed_before_a_time_is_given_up() -> None:
    unread = Unread(RangeSet().next_missing, Retention(-1, -1), NOW_MS - 20 * MINUTE_MS)
    assert deletable_to(judged(Retention(), *THREE, unread=unread), FIRST) == FIRST + 20


def test_what_was_consumed_behind_unread_messages_can_be_deleted() -> None:
    unread = Unread(without(0, 10).next_missing, Retention(-1, -1))
    found = judged(Retention(), *THREE, needs={"sub": 29}, unread=unread)
    assert [verdict.reasons for verdict in found[:3]] == [(RetentionReason.UNREAD,), (), ()]
    assert deletable_to(found, FIRST) == FIRST
    assert released_to(found, FIRST) == FIRST + 30


def without(start: int, stop: int) -> RangeSet:
    ranges = held(0, 100)
    ranges.remove(FIRST + start, FIRST + stop)
    return ranges


def held(start: int, stop: int) -> RangeSet:
    ranges = RangeSet()
    ranges.add(FIRST + start, FIRST + stop)
    return ranges


class Model:
    """The rules of retention for each entry: slow, but simple."""

    def __init__(
        self,
        sealed: list[tuple[int, int, int]],
        open_bytes: int,
        marks: dict[str, int],
        retention: Retention,
    ) -> None:
        self.of_entry = [n for n, (entries, _, _) in enumerate(sealed) for _ in range(entries)]
        self.sealed, self.open_bytes = sealed, open_bytes
        self.marks, self.retention = marks, retention

    def retained(self, number: int) -> bool:
        _, _, age = self.sealed[number]
        too_old = self.retention.minutes != -1 and age >= self.retention.minutes
        behind = sum(size for _, size, _ in self.sealed[number + 1 :]) * MEGABYTE + self.open_bytes
        too_many = self.retention.megabytes != -1 and behind >= self.retention.megabytes * MEGABYTE
        return not too_old and not too_many

    def kept_by_retention(self, entry: int) -> bool:
        """Tell whether retention keeps an entry, for itself or because of an older one."""
        return any(self.retained(number) for number in range(self.of_entry[entry] + 1))

    def wanted(self, entry: int) -> set[str]:
        return {name for name, mark in self.marks.items() if mark < entry}

    def users(self, number: int) -> set[str]:
        entries = [e for e, of in enumerate(self.of_entry) if of == number]
        return set().union(*(self.wanted(entry) for entry in entries))

    def stays(self, entry: int) -> bool:
        """Tell whether the entry exists after tidying."""
        number = self.of_entry[entry]
        used = any(self.users(earlier) for earlier in range(number + 1))
        return used or self.kept_by_retention(entry)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 100)), max_size=6),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from("abc"), st.integers(-1, 30), max_size=3),
    st.builds(Retention, st.integers(-1, 100), st.integers(-1, 20)),
)
def test_retention_matches_a_plain_model(
    sealed: list[tuple[int, int, int]],
    open_bytes: int,
    marks: dict[str, int],
    retention: Retention,
) -> None:
    model = Model(sealed, open_bytes, marks, retention)
    found = judged(retention, *sealed, needs=marks, open_bytes=open_bytes)
    entries = range(len(model.of_entry))
    assert len(found) == len(sealed) + 1
    assert [e for e in entries if not model.stays(e)] == list(
        range(deletable_to(found, FIRST) - FIRST)
    )
    assert [e for e in entries if not model.kept_by_retention(e)] == list(
        range(released_to(found, FIRST) - FIRST)
    )
    for number, verdict in enumerate(found[:-1]):
        retained = model.retained(number)
        assert set(verdict.needed_by) == model.users(number)
        assert (RetentionReason.SUBSCRIPTION in verdict.reasons) == bool(model.users(number))
        assert (RetentionReason.RETENTION in verdict.reasons) == retained
        older = any(model.retained(earlier) for earlier in range(number))
        assert (RetentionReason.OLDER in verdict.reasons) == (older and not retained)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 100)), max_size=6),
    st.builds(Retention, st.integers(0, 100), st.integers(-1, 20)),
    st.integers(0, 200),
)
def test_the_reported_end_is_the_time_when_retention_ends(
    sealed: list[tuple[int, int, int]], retention: Retention, later: int
) -> None:
    """Nothing more is published: only time passes."""
    size, now_ms = sum(size for _, size, _ in sealed) * MEGABYTE, NOW_MS + later * MINUTE_MS
    before = judged(retention, *sealed)
    after = verdicts(segments(*sealed), FIRST, size, [], retention, 1, now_ms)
    for earlier, found in zip(before[:-1], after[:-1], strict=True):
        stays = RetentionReason.RETENTION in found.reasons
        assert stays == (earlier.until_ms is not None and now_ms < earlier.until_ms)
