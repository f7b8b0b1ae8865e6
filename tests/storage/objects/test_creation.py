"""Creating an object once, with a store whose answers are late, lost, doubled or ambiguous."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.faulty_objects import WRITES, Fault, FaultyObjects
from fakes.world import InlineWorker, ManualClock, ManualPromise, start
from magnetar_storage.errors import AccessDenied, Unavailable
from magnetar_storage.objects.creation import NONCE_BYTES, attempt, create_once

MINE, OTHERS = b"m" * NONCE_BYTES, b"o" * NONCE_BYTES
LIMIT = 60.0


class World:
    """A store of objects with a list of faults, and a clock that runs as long as it must."""

    def __init__(self, *faults: Fault | None) -> None:
        self.clock = ManualClock()
        self.worker = InlineWorker(self.clock)
        self.objects = FaultyObjects(self.clock.now_ms)
        self.faults = deque(faults)
        self.objects.fault = self._fault
        self.objects.wait = lambda: self.clock.advance(20)
        self.started = self.clock.uptime()

    def create(self, nonce: bytes = MINE, name: str = "a") -> ManualPromise:
        return start(
            create_once(self.objects, self.worker, self.clock, name, nonce, [b"data"], LIMIT)
        )

    def finish(self, *outcomes: ManualPromise) -> None:
        """Let time pass until all have ended, which must be soon behind the limit."""
        while not all(outcome.done() for outcome in outcomes):
            self.clock.pump()
            self.clock.advance(0.1)
            assert self.clock.uptime() - self.started < 5 * LIMIT

    def _fault(self, operation: str, name: str) -> Fault | None:
        return self.faults.popleft() if self.faults else None


def outcome_of(outcome: ManualPromise) -> bool | None:
    """Return the outcome of a creation; None if it is unknown."""
    try:
        result: bool = outcome.result()
    except Unavailable:
        return None
    return result


def created(world: World) -> bool | None:
    outcome = world.create()
    world.finish(outcome)
    return outcome_of(outcome)


def test_an_object_is_created_with_its_nonce_in_front() -> None:
    world = World()
    assert created(world)
    assert world.objects.content("a") == MINE + b"data"
    assert world.objects.log == ["create a"]  # an answer that is certain needs no second request


def test_another_creators_object_stays() -> None:
    world = World()
    world.objects.put("a", OTHERS + b"data")
    assert created(world) is False
    assert world.objects.content("a") == OTHERS + b"data"


@pytest.mark.parametrize("fault", [Fault.LANDED, Fault.DOUBLED])
def test_a_write_that_took_place_is_recognized(fault: Fault) -> None:
    world = World(fault)
    assert created(world)
    assert world.objects.log == ["create a", "read a"]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.BUSY, Fault.CONFLICT])
def test_a_write_that_did_not_take_place_is_tried_again(fault: Fault) -> None:
    world = World(fault)
    assert created(world)
    assert world.objects.log == ["create a", "read a", "create a"]


def test_a_write_that_lands_between_two_attempts_is_recognized() -> None:
    world = World(Fault.LATE)
    outcome = world.create()
    world.clock.pump()
    assert world.objects.land()
    world.finish(outcome)
    assert outcome.result()


def test_a_write_that_lands_after_another_creators_changes_nothing() -> None:
    world = World(Fault.LATE, Fault.PRECONDITION)
    outcome = world.create()
    world.clock.pump()
    world.objects.put("a", OTHERS)
    assert world.objects.land()
    world.finish(outcome)
    assert outcome.result() is False
    assert world.objects.content("a") == OTHERS


def test_a_store_that_stays_away_is_reported_after_the_limit() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.BUSY
    outcome = world.create()
    world.finish(outcome)
    with pytest.raises(Unavailable, match=r"creating object a is unknown after 60 s \(read a: 503"):
        outcome.result()
    assert LIMIT <= world.clock.uptime() - world.started < 2 * LIMIT
    # Pauses grow to two seconds.
    assert 30 < world.objects.log.count("create a") < 40


def test_conflicts_without_end_are_reported_after_the_limit() -> None:
    world = World()
    world.objects.fault = lambda operation, name: Fault.CONFLICT if operation == "create" else None
    outcome = world.create()
    world.finish(outcome)
    with pytest.raises(Unavailable, match="every attempt met another write, or got no answer"):
        outcome.result()


@pytest.mark.parametrize("faults", [(Fault.EXPIRED,), (Fault.CONFLICT, Fault.EXPIRED)])
def test_refused_credentials_are_reported_at_once(faults: tuple[Fault, ...]) -> None:
    world = World(*faults)
    outcome = world.create()
    world.clock.pump()
    with pytest.raises(AccessDenied):
        outcome.result()


def test_a_short_object_of_another_creator_is_not_ones_own() -> None:
    objects = FaultyObjects()
    objects.put("a", MINE[:-1])
    assert attempt(objects, "a", MINE, [MINE]) is False
    objects.put("b", b"")
    assert attempt(objects, "b", MINE, [MINE]) is False


FAULTS = st.lists(
    st.sampled_from([None, None, *(one for one in WRITES if one is not Fault.EXPIRED)]),
    max_size=12,
)


@settings(max_examples=examples(2000))
@given(FAULTS, FAULTS, st.data())
def test_at_most_one_creator_wins_and_is_told_so(
    before: list[Fault | None], rest: list[Fault | None], data: st.DataObject
) -> None:
    world = World(*before)

    def dice() -> bool:
        return data.draw(st.booleans())

    first = world.create(MINE)
    if dice():
        world.clock.pump()
    world.faults.extend(rest)
    second = world.create(OTHERS)
    while not (first.done() and second.done()):
        world.clock.pump()
        if dice():
            world.objects.land()
        world.clock.advance(0.5)
    known = {one: outcome_of(of) for one, of in ((MINE, first), (OTHERS, second))}
    owner = world.objects.content("a")[:NONCE_BYTES] if world.objects.names() else None
    while dice() and world.objects.land():
        pass
    for nonce, outcome in known.items():
        if outcome is True:
            assert owner == nonce
        if outcome is False:
            assert owner not in (None, nonce)
    # Late writes may create the object, but never replace it.
    if owner is not None:
        assert world.objects.content("a")[:NONCE_BYTES] == owner
    # Whoever does not know asks again, and then the answer agrees with what happened.
    world.objects.fault = None
    for nonce, outcome in known.items():
        again = world.create(nonce)
        world.finish(again)
        assert outcome is None or again.result() is outcome
    winners = [world.create(nonce) for nonce in (MINE, OTHERS)]
    world.finish(*winners)
    assert sum(winner.result() for winner in winners) <= 1
