"""Which segments are offloaded, and which are deleted here afterwards."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.policies.offload_values import OffloadRules
from magnetar_broker.tiering.due_ledgers import (
    ClosedSegment,
    to_delete_here,
    to_offload,
    to_offload_before,
)

NOW = 1_000_000
SEGMENTS = [ClosedSegment(number, 100, number * 1000) for number in range(1, 6)]
BYTES = st.integers(0, 500)
TIMES = st.integers(0, NOW)
THRESHOLDS = st.integers(-1, 3000)


@st.composite
def closed_segments(draw: st.DrawFn) -> list[ClosedSegment]:
    """Draw the closed segments of a log, the oldest first; deleted files were offloaded before."""
    found, closed_ms = [], 0
    for number in range(draw(st.integers(0, 8))):
        closed_ms += draw(st.integers(0, 1000))
        offloaded_ms = draw(st.just(0) | TIMES)
        is_here = draw(st.booleans()) if offloaded_ms else True
        found.append(ClosedSegment(number, draw(BYTES), closed_ms, offloaded_ms, is_here))
    return found


def rules(size: int = -1, time_ms: int = -1, lag_ms: int = -1) -> OffloadRules:
    return OffloadRules("file:///d", "", size, time_ms, lag_ms)


def test_the_oldest_are_offloaded_until_the_others_fit() -> None:
    assert to_offload(SEGMENTS, rules(size=250), NOW) == [1, 2, 3]
    assert to_offload(SEGMENTS, rules(size=300), NOW) == [1, 2]
    assert to_offload(SEGMENTS, rules(size=500), NOW) == []


def test_what_is_offloaded_already_takes_up_room_but_is_not_offloaded_again() -> None:
    done = [SEGMENTS[0]._replace(offloaded_ms=1), *SEGMENTS[1:]]
    assert to_offload(done, rules(size=250), NOW) == [2, 3]


def test_zero_means_as_soon_as_it_is_closed_and_below_zero_never() -> None:
    for zero in (rules(size=0), rules(time_ms=0)):
        assert to_offload(SEGMENTS, zero, NOW) == [1, 2, 3, 4, 5]
    assert to_offload(SEGMENTS, rules(), NOW) == []


def test_an_old_one_is_offloaded_whatever_its_size() -> None:
    assert to_offload(SEGMENTS, rules(time_ms=2000), 4999) == [1, 2]
    assert to_offload(SEGMENTS, rules(size=400, time_ms=2000), 4000) == [1, 2]


def test_a_segment_without_bytes_is_not_offloaded() -> None:
    assert to_offload([SEGMENTS[0]._replace(size=0)], rules(size=0, time_ms=0), NOW) == []


def test_all_before_a_ledger() -> None:
    done = [SEGMENTS[0]._replace(offloaded_ms=1), *SEGMENTS[1:]]
    assert to_offload_before(done, 4) == [2, 3]
    assert to_offload_before(done, -1) == []


def test_files_are_deleted_after_the_lag() -> None:
    done = [SEGMENTS[0]._replace(offloaded_ms=5000), SEGMENTS[1]]
    assert to_delete_here(done, rules(lag_ms=1000), 5999) == []
    assert to_delete_here(done, rules(lag_ms=1000), 6000) == [1]
    assert to_delete_here(done, rules(lag_ms=0), 5000) == [1]
    assert to_delete_here(done, rules(lag_ms=-1), NOW) == []
    assert to_delete_here([done[0]._replace(is_here=False)], rules(lag_ms=0), NOW) == []


@given(closed_segments(), THRESHOLDS, THRESHOLDS, TIMES)
def test_what_stays_only_here_is_small_and_young(
    segments: list[ClosedSegment], size: int, time_ms: int, now_ms: int
) -> None:
    doomed = to_offload(segments, rules(size, time_ms), now_ms)
    assert doomed == sorted(doomed)
    chosen = {one.id: one for one in segments if one.id in doomed}
    assert all(one.is_here and not one.offloaded_ms and one.size for one in chosen.values())
    stays = [one for one in segments if one.id not in chosen and not one.offloaded_ms and one.size]
    if size >= 0:
        assert sum(one.size for one in stays) <= size
    if time_ms >= 0:
        assert all(now_ms - one.closed_ms < time_ms for one in stays)
    # Nothing is offloaded without need: each is old, or would exceed the size with the newer ones.
    for one in chosen.values():
        newer = sum(other.size for other in segments if other.id >= one.id)
        assert 0 <= size < newer or 0 <= time_ms <= now_ms - one.closed_ms


@given(closed_segments(), THRESHOLDS, TIMES)
def test_only_what_is_offloaded_is_deleted(
    segments: list[ClosedSegment], lag_ms: int, now_ms: int
) -> None:
    doomed = to_delete_here(segments, rules(lag_ms=lag_ms), now_ms)
    for one in segments:
        is_old = lag_ms >= 0 and now_ms - one.offloaded_ms >= lag_ms
        assert (one.id in doomed) == (one.offloaded_ms > 0 and one.is_here and is_old)


@given(closed_segments(), st.integers(-1, 9))
def test_nothing_is_offloaded_twice(segments: list[ClosedSegment], ledger: int) -> None:
    doomed = to_offload_before(segments, ledger)
    done = [one._replace(offloaded_ms=NOW) if one.id in doomed else one for one in segments]
    assert to_offload_before(done, ledger) == []
    assert all(one < ledger for one in doomed)
