"""The state of a coordinator against a model, with a crash possible after every record."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from effort import examples
from magnetar_broker.base.errors import (
    InvalidTransactionStatus,
    LimitReached,
    TransactionNotFound,
)
from magnetar_broker.base.transaction_ids import Outcome
from magnetar_broker.transactions.records import Participant, Status
from magnetar_broker.transactions.state import (
    MAX_PARTS,
    REMEMBERED,
    CoordinatorState,
)

PARTS = [Participant("a"), Participant("a", "sub"), Participant("b")]


def replayed(records: list[bytes]) -> CoordinatorState:
    state = CoordinatorState()
    for record in records:
        state.apply(record)
    return state


def seen(state: CoordinatorState) -> Any:
    """All that a state has."""
    transactions = [(one, list(one.parts)) for one in state.transactions.values()]
    return state.next, transactions, list(state.remembered.items())


class Model(RuleBasedStateMachine):
    """A state with its log, and what it has to be, as plain dicts."""

    numbers = Bundle("numbers")

    def __init__(self) -> None:
        super().__init__()
        self.state = CoordinatorState()
        self.log: list[bytes] = []
        self.highest = -1
        self.statuses: dict[int, Status] = {}
        self.parts: dict[int, list[Participant]] = {}
        self.history = [self._copy()]
        """What has to be after so many records more than those of the last snapshot."""
        self.whole = 0
        """The records of the last snapshot, which is listed as a whole."""

    def _copy(self) -> Any:
        alive = {
            least: (status, list(self.parts[least]))
            for least, status in self.statuses.items()
            if status in (Status.OPEN, Status.COMMITTING, Status.ABORTING)
        }
        return self.highest, alive

    def _logged(self, records: int = 1) -> None:
        delta = self.state.take_delta()
        assert len(delta) == records
        self.log += delta
        self.history += [self._copy()] * records

    def _refused(self, call: Callable[..., Any], least: int, *args: Any) -> None:
        status = self.statuses[least]
        ended = status in (Status.COMMITTED, Status.ABORTED)
        with pytest.raises(TransactionNotFound if ended else InvalidTransactionStatus):
            call(least, *args)
        self._logged(0)

    @rule(target=numbers, ttl_ms=st.integers(1, 1 << 40), owner=st.sampled_from(["", "role"]))
    def begin(self, ttl_ms: int, owner: str) -> int:
        new = self.state.begin(5, ttl_ms, owner, 0)
        assert new.least == self.highest + 1 and new.deadline_ms == 5 + ttl_ms
        self.highest = new.least
        self.statuses[new.least], self.parts[new.least] = Status.OPEN, []
        self._logged()
        return new.least

    @rule(least=numbers, part=st.sampled_from(PARTS))
    def add(self, least: int, part: Participant) -> None:
        if self.statuses[least] is not Status.OPEN:
            self._refused(self.state.add, least, [part])
            return
        is_new = part not in self.parts[least]
        assert self.state.add(least, [part, part]) is is_new
        if is_new:
            self.parts[least].append(part)
        self._logged(int(is_new))

    @rule(least=numbers, outcome=st.sampled_from(Outcome))
    def decide(self, least: int, outcome: Outcome) -> None:
        if self.statuses[least] is not Status.OPEN:
            self._refused(self.state.decide, least, outcome)
            return
        self.state.decide(least, outcome)
        deciding = {Outcome.COMMIT: Status.COMMITTING, Outcome.ABORT: Status.ABORTING}
        self.statuses[least] = deciding[outcome]
        self._logged()

    @rule(least=numbers)
    def end(self, least: int) -> None:
        ends = {Status.COMMITTING: Status.COMMITTED, Status.ABORTING: Status.ABORTED}
        if (status := self.statuses[least]) in ends:
            self.state.end(least)
            self.statuses[least] = ends[status]
            self._logged()

    @rule()
    def snapshot(self) -> None:
        """The log is replaced by a snapshot."""
        self.log = self.state.snapshot()
        assert self.state.take_delta() == []
        self.whole, self.history = len(self.log), [self._copy()]
        assert seen(replayed(self.log)) == seen(self.state)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Some of the last records are lost; what was decided before them is as it was."""
        kept = data.draw(st.integers(self.whole, len(self.log)), label="records kept")
        crashed = replayed(self.log[:kept])
        highest, alive = self.history[kept - self.whole]
        found = {
            least: (one.status, list(one.parts)) for least, one in crashed.transactions.items()
        }
        assert (crashed.next - 1, found) == (highest, alive)
        assert seen(replayed(crashed.snapshot())) == seen(crashed)

    @invariant()
    def the_low_watermark_is_below_all_that_live(self) -> None:
        living = {
            least
            for least, status in self.statuses.items()
            if status not in (Status.COMMITTED, Status.ABORTED)
        }
        assert set(self.state.transactions) == living
        assert self.state.low_watermark == min(living, default=self.highest + 1) - 1

    @invariant()
    def outcomes_are_remembered(self) -> None:
        ended = {Status.COMMITTED: Outcome.COMMIT, Status.ABORTED: Outcome.ABORT}
        expected = {
            least: ended[status] for least, status in self.statuses.items() if status in ended
        }
        assert self.state.remembered == expected


Model.TestCase.settings = settings(max_examples=examples(300), stateful_step_count=30)
TestModel = Model.TestCase


def test_the_limit_of_transactions() -> None:
    state = CoordinatorState()
    state.begin(0, 1, "", 2)
    state.begin(0, 1, "", 2)
    with pytest.raises(LimitReached, match="maxActiveTransactionsPerCoordinator"):
        state.begin(0, 1, "", 2)
    assert state.next == 2
    state.decide(0, Outcome.ABORT)
    state.end(0)
    assert state.begin(0, 1, "", 2).least == 2


def test_the_limit_of_parts_refuses_all_of_a_request() -> None:
    state = CoordinatorState()
    state.begin(0, 1, "", 0)
    state.add(0, [Participant(str(number)) for number in range(MAX_PARTS)])
    state.take_delta()
    with pytest.raises(LimitReached, match=str(MAX_PARTS)):
        state.add(0, [Participant("0"), Participant("one more")])
    assert state.take_delta() == [] and len(state.transactions[0].parts) == MAX_PARTS
    assert not state.add(0, [Participant("0")])


def test_the_limit_of_the_parts_of_all_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar_broker.transactions.state.MAX_PARTS_OF_ALL", 5)
    state = CoordinatorState()
    first, second = (state.begin(0, 1, "", 0).least for _ in range(2))
    parts = [Participant(str(number)) for number in range(3)]
    state.add(first, parts)
    with pytest.raises(LimitReached, match="limit is 5"):
        state.add(second, parts)
    state.add(second, parts[:2])
    replayed = CoordinatorState()
    for record in state.snapshot():
        replayed.apply(record)
    for one in (state, replayed):
        one.decide(first, Outcome.ABORT)
        one.end(first)  # makes room
        one.add(second, parts)
        with pytest.raises(LimitReached):
            one.add(second, [Participant(f"more {number}") for number in range(3)])


def test_as_many_outcomes_as_stated_are_remembered() -> None:
    state = CoordinatorState()
    for least in range(REMEMBERED + 3):
        state.begin(0, 1, "", 0)
        state.decide(least, Outcome.COMMIT)
        state.end(least)
    assert list(state.remembered) == list(range(3, REMEMBERED + 3))
    with pytest.raises(TransactionNotFound, match="never was"):
        state.one(2)
    with pytest.raises(TransactionNotFound, match="COMMITTED"):
        state.one(3)
    again = replayed(state.snapshot())
    assert again.remembered == state.remembered and again.next == state.next


def test_a_number_is_not_used_again_after_all_is_forgotten() -> None:
    state = CoordinatorState()
    state.begin(0, 1, "", 0)
    state.decide(0, Outcome.ABORT)
    state.end(0)
    state.remembered.clear()
    assert replayed(state.snapshot()).begin(0, 1, "", 0).least == 1
