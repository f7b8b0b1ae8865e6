"""Metadata over a store that is away for a time, or loses answers."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.unreliable_metadata import Fate, UnreliableMetadata
from fakes.world import ManualClock, ManualPromise, run, start
from magnetar_storage.errors import (
    BadVersion,
    DiskFull,
    Fenced,
    ProcessUnavailable,
    StorageError,
    Unavailable,
)
from magnetar_storage.interfaces import ABSENT, Guard, Lease, Version
from magnetar_storage.metadata.retrying import RETRY_SECONDS, RetryingMetadata

KEY = "/key"
UNANSWERED = (Fate.LOST, Fate.NOT_MADE, Fate.LATE)


class World:
    """An unreliable store, and the one over it that repeats calls."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.below = UnreliableMetadata(self.clock)
        self.store = RetryingMetadata(self.below, self.clock)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run(work, self.clock)

    def after(self, seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work`, which takes this time or less."""
        outcome = start(work)
        self.clock.advance(seconds)
        return outcome.result()

    def values(self) -> list[bytes | None]:
        """Return what was written, in order."""
        return [landed.value for landed in self.below.landed]

    def away(self, seconds: float) -> None:
        """Let the store be away for a time."""
        self.below.is_away = True
        self.clock.later(seconds, self.back)

    def back(self) -> None:
        self.below.is_away = False


@pytest.fixture
def world() -> World:
    return World()


def test_a_call_that_is_answered_makes_one_round_trip(world: World) -> None:
    version = world.do(world.store.put(KEY, b"one", ABSENT))
    version = world.do(world.store.put(KEY, b"two", version))
    assert world.do(world.store.get(KEY)) == (b"two", version)
    assert world.do(world.store.list("/")) == [KEY]
    assert world.do(world.store.read_under("/")) == [(KEY, (b"two", version))]
    world.do(world.store.delete(KEY, version))
    assert world.below.calls == ["put", "put", "get", "list", "read_under", "delete"]


def test_a_refusal_is_reported_at_once(world: World) -> None:
    version = world.do(world.store.put(KEY, b"one", ABSENT))
    world.below.calls.clear()
    for write in (
        lambda: world.store.put(KEY, b"two", ABSENT),
        lambda: world.store.put(KEY, b"one", version + 1),
        lambda: world.store.delete(KEY, version + 1),
    ):
        with pytest.raises(BadVersion):
            world.do(write())
    with pytest.raises(Fenced):
        world.do(world.store.put(KEY, b"two", version, guard=Guard("/leader", 1)))
    assert world.below.calls == ["put", "put", "delete", "put"]


@pytest.mark.parametrize("refusal", [DiskFull("full"), ProcessUnavailable("the link has ended")])
def test_what_does_not_pass_is_reported_at_once(world: World, refusal: StorageError) -> None:
    asked: list[str] = []

    async def refuse(key: str, *_: object) -> Any:
        asked.append(key)
        raise refusal

    world.below.put = world.below.get = refuse  # type: ignore[method-assign, assignment]
    for call in (world.store.put(KEY, b"one", ABSENT), world.store.get(KEY)):
        with pytest.raises(type(refusal)):
            world.do(call)
    assert asked == [KEY, KEY]


def test_a_write_under_a_lease_that_has_ended_is_refused_at_once(world: World) -> None:
    lease: Lease = world.do(world.store.lease(10))
    world.do(world.store.revoke(lease))
    with pytest.raises(Unavailable):
        world.do(world.store.put(KEY, b"", ABSENT, lease))


# Away for a time --------------------------------------------------------------------------------


def test_calls_wait_for_a_store_that_is_away_for_two_seconds(world: World) -> None:
    version = world.do(world.store.put(KEY, b"one", ABSENT))
    calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: world.store.put(KEY, b"two", version),
        lambda: world.store.put("/new", b"", ABSENT),
        lambda: world.store.put("/any", b""),
        lambda: world.store.delete("/any"),
        lambda: world.store.get(KEY),
        lambda: world.store.list("/"),
        lambda: world.store.read_under("/"),
    ]
    for call in calls:
        world.away(2)
        begun = start(call())
        world.clock.advance(1.9)
        assert not begun.done()
        world.clock.advance(1.1)
        assert begun.done()
    assert world.do(world.store.get(KEY)).value == b"two"
    assert world.values() == [b"one", b"two", b"", b"", None]


def test_the_later_of_two_writes_without_a_condition_is_the_last(world: World) -> None:
    world.below.pause()
    earlier = start(world.store.put(KEY, b"earlier"))
    world.below.fates.append(Fate.NOT_MADE)
    later = start(world.store.put(KEY, b"later"))
    world.below.resume()
    world.clock.advance(1)
    assert earlier.done() and later.done()
    assert world.do(world.store.get(KEY)).value == b"later"


def test_calls_wait_for_a_store_that_answers_late(world: World) -> None:
    world.below.pause()
    begun = start(world.store.put(KEY, b"one", ABSENT))
    world.clock.advance(2)
    assert not begun.done()
    world.below.resume()
    world.clock.pump()
    assert begun.result() == 1
    assert world.below.calls == ["put"]


def test_a_store_that_stays_away_ends_all_calls_at_one_time(world: World) -> None:
    """A broker that stops waits once, and not for each of its topics in turn."""
    world.below.is_away = True
    first = start(world.store.put("/1", b"", ABSENT))
    world.clock.advance(RETRY_SECONDS - 1)
    second = start(world.store.put("/2", b"", ABSENT))
    reading = start(world.store.get("/3"))
    assert not first.done()
    world.clock.advance(1)
    for begun in (first, second):
        with pytest.raises(Unavailable, match="whether it was written is unknown"):
            begun.result()
    with pytest.raises(Unavailable):
        world.do(world.store.put("/4", b"", ABSENT))
    assert not reading.done()  # reads have a time of their own
    world.clock.advance(RETRY_SECONDS)
    with pytest.raises(Unavailable):
        reading.result()


@pytest.mark.parametrize("answered", [True, False])
def test_each_outage_has_the_whole_time(world: World, answered: bool) -> None:
    """An outage ends with an answer, or if nothing was asked for long."""
    world.below.is_away = True
    with pytest.raises(Unavailable):
        world.after(RETRY_SECONDS, world.store.put("/1", b"", ABSENT))
    if answered:
        world.below.is_away = False
        world.do(world.store.put("/2", b"", ABSENT))
    else:
        world.clock.advance(RETRY_SECONDS + 1)
    world.away(2)
    assert world.after(3, world.store.put("/3", b"", ABSENT))


def refused(world: World) -> None:
    with pytest.raises(BadVersion):
        world.do(world.store.put(KEY, b"mine", ABSENT))


def found_made(world: World) -> None:
    world.below.fates.append(Fate.LOST)
    world.do(world.store.delete(KEY, world.below._values[KEY].version))


def found_refused(world: World) -> None:
    world.below.fates.append(Fate.NOT_MADE)
    refused(world)


@pytest.mark.parametrize("outcome", [refused, found_made, found_refused])
def test_an_outage_ends_with_any_outcome_of_a_write(
    world: World, outcome: Callable[[World], None]
) -> None:
    world.do(world.store.put(KEY, b"before"))
    world.below.is_away = True
    with pytest.raises(Unavailable):
        world.after(RETRY_SECONDS, world.store.put("/1", b"", ABSENT))
    world.below.is_away = False
    outcome(world)
    world.away(2)
    assert world.after(3, world.store.put("/2", b"", ABSENT))


def test_an_outage_ends_with_the_refusal_of_a_repetition(world: World) -> None:
    guard = Guard("/leader", world.do(world.store.put("/leader", b"")))
    world.below.fates.append(Fate.NOT_MADE)
    begun = start(world.store.put(KEY, b"mine", ABSENT, guard=guard))
    world.do(world.below.store("/leader", b"another"))
    world.clock.advance(1)
    with pytest.raises(Fenced):
        begun.result()
    world.clock.advance(RETRY_SECONDS - 2)
    world.away(2)
    assert world.after(3, world.store.put("/2", b"", ABSENT))


def test_a_call_that_is_given_up_leaves_no_timer(world: World) -> None:
    world.below.is_away = True
    waiting = world.store.get(KEY)
    waiting.send(None)
    waiting.close()
    before = len(world.below.calls)
    world.clock.advance(60)
    assert len(world.below.calls) == before


# Lost answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", UNANSWERED)
def test_a_write_takes_place_once_whatever_becomes_of_its_answer(world: World, fate: Fate) -> None:
    world.below.fates.append(fate)
    version = world.after(1, world.store.put(KEY, b"one", ABSENT))
    world.below.fates.append(fate)
    version = world.after(1, world.store.put(KEY, b"two", version))
    assert world.do(world.store.get(KEY)) == (b"two", version)
    world.below.fates.append(fate)
    world.after(1, world.store.delete(KEY, version))
    assert world.values() == [b"one", b"two", None]


@pytest.mark.parametrize("fate", UNANSWERED)
def test_a_write_that_another_one_has_overtaken_is_refused(world: World, fate: Fate) -> None:
    version = world.do(world.store.put(KEY, b"one", ABSENT))
    for write in (
        lambda: world.store.put(KEY, b"mine", version),
        lambda: world.store.put(KEY, b"mine", ABSENT),
        lambda: world.store.delete(KEY, version),
    ):
        world.do(world.below.store(KEY, b"other"))
        world.below.fates.append(fate)
        with pytest.raises(BadVersion):
            world.after(1, write())
    world.do(world.below.remove(KEY))
    world.below.fates.append(fate)
    with pytest.raises(BadVersion):
        world.after(1, world.store.put(KEY, b"mine", version))
    assert b"mine" not in world.values()


def overtaken(
    world: World, write: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]
) -> Any:
    """Return the outcome of a write that takes place without an answer, before `other` does."""
    world.below.fates.append(Fate.LOST)
    world.below.lost_reads.append(True)
    begun = start(write)
    world.do(other)
    world.clock.advance(1)
    return begun.result()


def test_a_refusal_may_follow_a_write_that_another_one_has_replaced(world: World) -> None:
    version = world.do(world.store.put(KEY, b"before", ABSENT))
    below = world.below
    with pytest.raises(BadVersion):
        overtaken(world, world.store.put(KEY, b"mine", version), below.store(KEY, b"other"))
    assert world.values() == [b"before", b"mine", b"other"]
    version = below.landed[-1].version
    with pytest.raises(BadVersion):
        overtaken(world, world.store.put(KEY, b"mine", version), below.remove(KEY))
    version = world.do(below.store(KEY, b"again"))
    with pytest.raises(BadVersion):
        overtaken(world, world.store.delete(KEY, version), below.store(KEY, b"other"))
    assert world.values()[2:] == [b"other", b"mine", None, b"again", None, b"other"]


def test_an_absent_key_that_another_one_deletes_is_created_twice(world: World) -> None:
    version = overtaken(world, world.store.put(KEY, b"mine", ABSENT), world.below.remove(KEY))
    assert world.values() == [b"mine", None, b"mine"]
    assert world.do(world.store.get(KEY)) == (b"mine", version)


def test_a_deletion_that_another_one_has_made_returns(world: World) -> None:
    version = world.do(world.store.put(KEY, b"before", ABSENT))
    world.do(world.below.remove(KEY))
    world.below.fates.append(Fate.NOT_MADE)
    world.after(1, world.store.delete(KEY, version))
    assert world.values() == [b"before", None]


def test_a_write_that_took_place_before_its_guard_ended_is_not_refused(world: World) -> None:
    guard = Guard("/leader", world.do(world.store.put("/leader", b"", ABSENT)))
    world.below.fates.append(Fate.LOST)
    world.below.lost_reads.append(True)
    begun = start(world.store.put(KEY, b"one", ABSENT, guard=guard))
    world.do(world.below.store("/leader", b"another"))
    world.clock.advance(1)
    assert begun.result() == world.do(world.store.get(KEY)).version
    # One that did not take place is.
    world.below.fates.append(Fate.NOT_MADE)
    with pytest.raises(Fenced):
        world.after(1, world.store.put(KEY, b"two", begun.result(), guard=guard))


def test_a_write_without_condition_is_repeated_until_it_is_answered(world: World) -> None:
    world.below.fates += [Fate.LOST, Fate.NOT_MADE]
    version = world.after(1, world.store.put(KEY, b"one"))
    assert world.do(world.store.get(KEY)) == (b"one", version)
    assert world.below.calls == ["put", "put", "put", "get"]


def test_later_writes_of_a_key_wait_for_one_that_is_repeated(world: World) -> None:
    world.below.fates += [Fate.NOT_MADE]
    writes = [start(world.store.put(KEY, b"%d" % number)) for number in range(3)]
    writes.append(start(world.store.delete(KEY)))
    other = start(world.store.put("/other", b""))
    assert other.done() and not any(write.done() for write in writes)
    world.clock.advance(1)
    assert all(write.done() for write in writes)
    assert world.values() == [b"", b"0", b"1", b"2", None]


# Any sequence -------------------------------------------------------------------------------------

FATES = st.lists(st.sampled_from(Fate), max_size=8)
OUTAGE = st.integers(0, 2 * int(RETRY_SECONDS * 10))
"""In tenths of a second."""


class Rival:
    """Another process, which changes the key at some time."""

    def __init__(self, world: World, at: float | None, deletes: bool) -> None:
        self._world = world
        self._deletes = deletes
        if at is not None:
            world.clock.later(at, self._change)

    def _change(self) -> None:
        below = self._world.below
        start(below.remove(KEY) if self._deletes else below.store(KEY, b"rival")).result()


@settings(max_examples=examples(2000))
@given(
    FATES,
    st.lists(st.booleans(), max_size=8),
    st.none() | st.integers(0, 120).map(lambda tenths: tenths / 20),
    st.booleans(),
    OUTAGE,
    OUTAGE,
    st.booleans(),
)
def test_outcomes_are_told_apart(
    fates: list[Fate],
    lost_reads: list[bool],
    rival_at: float | None,
    rival_deletes: bool,
    away_at: int,
    away_for: int,
    deletes: bool,
) -> None:
    world = World()
    expected: Version = world.do(world.store.put(KEY, b"before", ABSENT))
    world.below.landed.clear()
    world.below.fates.extend(fates)
    world.below.lost_reads.extend(lost_reads)
    Rival(world, rival_at, rival_deletes)
    world.clock.later(away_at / 10, lambda: world.away(away_for / 10))
    began = world.clock.uptime()
    begun = start(
        world.store.delete(KEY, expected) if deletes else world.store.put(KEY, b"mine", expected)
    )
    ended: list[float] = []
    begun.when_done(lambda: ended.append(world.clock.uptime()))
    world.clock.advance(3 * RETRY_SECONDS)
    check(world, begun, ended[0] - began, b"mine" if not deletes else None)


def check(world: World, begun: ManualPromise, seconds: float, value: bytes | None) -> None:
    """Check the outcome against what has landed."""
    landed = world.below.landed
    own = [one for one in landed if one.value == value]
    rival = [one for one in landed if one.value != value]
    assert seconds <= RETRY_SECONDS
    try:
        version = begun.result()
    except BadVersion:
        # It did not take place, or the rival has changed what it wrote.
        assert rival and (not own or own[0].version < rival[-1].version)
    except Unavailable:
        assert seconds > RETRY_SECONDS - 0.01, "it was given up early"
    else:
        assert len(own) >= 1 and (value is None or own[0].version == version)
    if value is not None:
        assert len(own) <= 1, "it took place twice"
