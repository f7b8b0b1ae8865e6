"""Access modes: which producers may publish, all or one at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.base.errors import ProducerBusy, ProducerFenced
from magnetar_broker.producers.access import Access, AccessState, Claim, Mode

WAITING, EXCLUSIVE = Claim(Mode.WAITING), Claim(Mode.EXCLUSIVE)
SHARED, FENCING = Claim(Mode.SHARED), Claim(Mode.FENCING)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*Mode, None]),
        st.integers(0, 5),
        st.none() | st.integers(0, 4),
        st.booleans(),
    ),
    max_size=40,
)


def enter(access: Access[int], who: int, claim: Claim, stored: bool = True) -> AccessState:
    """The whole way in, if the epoch can be stored."""
    place = access.enter(who, claim)
    if place is AccessState.SUCCESSOR:
        inherit(access, who, claim, stored)
    return place


def inherit(access: Access[int], who: int, claim: Claim, stored: bool = True) -> None:
    if stored:
        access.epoch_for(claim)
        access.take_over(who, claim)
    else:
        access.leave(who)


class Model:
    """Which producer should be in which state, by the rules of the protocol alone."""

    def __init__(self) -> None:
        self.access: Access[int] = Access(None, "t")
        self.inside: set[int] = set()
        self.waiting: dict[int, Claim] = {}
        self.exclusive = False

    def leave(self, who: int) -> None:
        self.access.leave(who)
        self.inside.discard(who)
        self.waiting.pop(who, None)
        self.exclusive = self.exclusive and bool(self.inside)

    def enter(self, who: int, claim: Claim, stored: bool) -> None:
        before = -1 if self.access.epoch is None else self.access.epoch
        busy = self.exclusive or bool(self.waiting)
        old = claim.epoch is not None and claim.epoch < before
        mode = claim.mode
        try:
            place = enter(self.access, who, claim, stored)
        except ProducerBusy:
            assert mode is Mode.SHARED and busy
        except ProducerFenced:
            assert mode is not Mode.SHARED
            assert old or (mode is Mode.EXCLUSIVE and (busy or self.inside))
        else:
            assert not (old and mode is not Mode.SHARED)
            assert not (busy and mode in (Mode.SHARED, Mode.EXCLUSIVE))
            if place is AccessState.SHARED:
                self.inside.add(who)
            elif place is AccessState.WAITING:
                assert mode is Mode.WAITING and (busy or self.inside)
                self.waiting[who] = claim
            elif stored:
                assert mode is Mode.FENCING or not (busy or self.inside)
                assert self.access.epoch == (before + 1 if claim.epoch is None else claim.epoch)
                self.take_over(who, claim)

    def take_over(self, who: int, claim: Claim) -> None:
        self.inside, self.exclusive = {who}, True
        if claim.mode is Mode.FENCING:
            self.waiting.clear()

    def promote(self) -> None:
        while (successor := self.access.next_successor()) is not None:
            assert not self.inside and successor == next(iter(self.waiting))
            claim = self.waiting.pop(successor)
            try:
                inherit(self.access, successor, claim)
            except ProducerFenced:
                self.access.leave(successor)
            else:
                self.take_over(successor, claim)

    def check(self) -> None:
        assert {who for who in range(6) if who in self.access} == self.inside
        assert self.access.waiting == list(self.waiting)
        assert self.access.exclusive == self.exclusive
        assert not self.exclusive or len(self.inside) == 1
        assert self.inside or not self.waiting, "a producer waits for a free topic"


@settings(max_examples=examples(300))
@given(STEPS)
def test_there_is_one_exclusive_producer_or_none_and_epochs_grow(
    steps: list[tuple[Mode | None, int, int | None, bool]],
) -> None:
    model = Model()
    for mode, who, epoch, stored in steps:
        if mode is None or who in model.inside or who in model.waiting:
            model.leave(who)
        else:
            model.enter(who, Claim(mode, epoch), stored)
        model.promote()
        model.check()


def test_a_fencing_producer_names_all_that_have_to_close() -> None:
    access: Access[str] = Access(4, "t")
    access.enter("a", SHARED)
    access.enter("b", SHARED)
    access.enter("c", WAITING)
    assert access.enter("d", FENCING) is AccessState.SUCCESSOR
    assert "a" in access and access.waiting == ["c"] and access.epoch == 4
    assert access.take_over("d", FENCING) == ["a", "b", "c"]
    assert "a" not in access and access.waiting == [] and access.epoch == 5


def test_no_producer_joins_beside_a_successor() -> None:
    access: Access[str] = Access(None, "t")
    access.enter("a", EXCLUSIVE)
    with pytest.raises(ProducerBusy):
        access.enter("b", SHARED)
    with pytest.raises(ProducerBusy):
        access.check_shared()
    access.leave("a")
    access.enter("b", SHARED)
    assert access.epoch is None


def test_no_producer_joins_the_shared_ones_that_another_waits_for() -> None:
    access: Access[str] = Access(None, "t")
    access.enter("a", SHARED)
    assert access.enter("b", WAITING) is AccessState.WAITING
    with pytest.raises(ProducerBusy):
        access.enter("c", SHARED)
    access.leave("a")
    assert access.next_successor() == "b"


def test_a_producer_that_waited_too_long_is_refused_when_its_turn_comes() -> None:
    access: Access[str] = Access(1, "t")
    access.enter("a", EXCLUSIVE)
    access.take_over("a", EXCLUSIVE)
    claim = Claim(Mode.WAITING, 2)
    assert access.enter("b", claim) is AccessState.WAITING
    access.enter("c", Claim(Mode.FENCING, 9))
    assert access.epoch_for(Claim(Mode.FENCING, 9)) == 9
    access.leave("c")
    access.leave("a")
    access.epoch = 3
    assert access.next_successor() == "b"
    with pytest.raises(ProducerFenced, match="its epoch is 3, not 2"):
        access.epoch_for(claim)
