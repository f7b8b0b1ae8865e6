"""Coordinators: durable steps, ends that are driven to their end, timeouts, and crashes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes.coordinating import CoordinatorWorld
from fakes.world import ManualPromise
from magnetar_broker.base.errors import (
    InvalidName,
    InvalidTransactionStatus,
    LimitReached,
    NotAllowed,
    NotReady,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.transactions.coordinator import RETRY_SECONDS, SPARE_DEADLINES, Coordinator
from magnetar_broker.transactions.coordinators import LOAD_SECONDS
from magnetar_broker.transactions.records import Participant, Status
from magnetar_proto.errors import InvalidTopicName
from magnetar_storage.errors import Corrupt

ORDERS = Participant("persistent://public/default/orders")
PAYMENTS = Participant("persistent://public/default/payments", "sub")
BOTH = [ORDERS, PAYMENTS]


def begun(world: CoordinatorWorld, *parts: Participant, ttl_ms: int = 60_000) -> TxnId:
    txn = world.begin_one(ttl_ms)
    world.do(world.coordinator().add(txn.least, list(parts)))
    return txn


@pytest.mark.parametrize("outcome", Outcome)
def test_an_end_is_told_to_all_parts_and_then_answered(outcome: Outcome) -> None:
    world = CoordinatorWorld()
    txn = begun(world, *BOTH)
    world.do(world.coordinator().end(txn.least, outcome))
    assert world.ending.told == [(ORDERS, txn, outcome), (PAYMENTS, txn, outcome)]
    # A client that lost the answer asks again.
    world.do(world.coordinator().end(txn.least, outcome))
    other = Outcome.ABORT if outcome is Outcome.COMMIT else Outcome.COMMIT
    with pytest.raises(TransactionNotFound, match="has ended"):
        world.do(world.coordinator().end(txn.least, other))
    assert len(world.ending.told) == 2
    figures = world.coordinator().figures
    assert (figures.begun, figures.committed + figures.aborted, figures.timed_out) == (1, 1, 0)


def test_a_transaction_without_parts_ends() -> None:
    world = CoordinatorWorld()
    txn = world.begin_one()
    world.do(world.coordinator().end(txn.least, Outcome.COMMIT))
    assert world.ending.told == [] and not world.coordinator().state.transactions


def test_the_other_outcome_is_refused_while_a_transaction_ends() -> None:
    world = CoordinatorWorld()
    world.ending.failing = lambda part: NotReady("it moves")
    txn, coordinator = begun(world, ORDERS), world.coordinator()
    ends = [world.begin(coordinator.end(txn.least, Outcome.COMMIT)) for _ in range(2)]
    world.clock.pump()
    with pytest.raises(InvalidTransactionStatus, match="COMMITTING"):
        world.do(coordinator.end(txn.least, Outcome.ABORT))
    with pytest.raises(InvalidTransactionStatus, match="COMMITTING"):
        world.do(coordinator.add(txn.least, BOTH))
    assert not any(end.done() for end in ends)
    world.ending.failing = lambda part: None
    world.clock.advance(RETRY_SECONDS)
    assert [end.result() for end in ends] == [None, None]
    assert world.ending.told == [(ORDERS, txn, Outcome.COMMIT)]


def test_only_the_part_that_failed_is_told_again() -> None:
    world = CoordinatorWorld()
    txn = begun(world, *BOTH)
    world.ending.failing = lambda part: NotReady("it moves") if part == ORDERS else None
    end = world.begin(world.coordinator().end(txn.least, Outcome.ABORT))
    world.clock.advance(5 * RETRY_SECONDS)
    assert world.ending.told == [(PAYMENTS, txn, Outcome.ABORT)] and not end.done()
    world.ending.failing = lambda part: None
    world.clock.advance(RETRY_SECONDS)
    end.result()
    assert world.ending.told == [(PAYMENTS, txn, Outcome.ABORT), (ORDERS, txn, Outcome.ABORT)]


def test_a_transaction_is_aborted_when_its_time_is_over() -> None:
    world = CoordinatorWorld()
    late, early = begun(world, ORDERS, ttl_ms=9000), begun(world, PAYMENTS, ttl_ms=3000)
    world.clock.advance(2.9)
    assert world.ending.told == []
    world.clock.advance(0.2)
    assert world.ending.told == [(PAYMENTS, early, Outcome.ABORT)]
    world.clock.advance(6)
    assert world.ending.told[1:] == [(ORDERS, late, Outcome.ABORT)]
    with pytest.raises(TransactionNotFound, match="ABORTED"):
        world.do(world.coordinator().end(late.least, Outcome.COMMIT))
    assert world.coordinator().figures.timed_out == 2


def test_a_timeout_of_ages_is_kept() -> None:
    world = CoordinatorWorld()
    txn = begun(world, ORDERS, ttl_ms=(1 << 64) - 1)
    world.clock.advance(100_000)
    assert world.ending.told == []
    world.do(world.coordinator().end(txn.least, Outcome.COMMIT))


def test_the_low_watermark_follows_the_oldest_transaction() -> None:
    world = CoordinatorWorld()
    first, second, third = (begun(world, ORDERS).least for _ in range(3))
    for least in (second, first, third):
        world.do(world.coordinator().end(least, Outcome.COMMIT))
    assert world.ending.low_watermarks == [-1, -1, 1]


def test_what_is_refused() -> None:
    world = CoordinatorWorld()
    txn, coordinator = world.begin_one(), world.coordinator()
    with pytest.raises(NotAllowed, match="timeout"):
        world.do(coordinator.begin(0, "", 0))
    with pytest.raises(LimitReached):
        world.do(coordinator.begin(1, "", 1))
    with pytest.raises(NotAllowed, match="not persistent"):
        world.do(coordinator.add(txn.least, [Participant("non-persistent://public/default/a")]))
    with pytest.raises(InvalidTopicName):
        world.do(coordinator.add(txn.least, [Participant("persistent://a")]))
    with pytest.raises(InvalidName, match="4096"):
        world.do(coordinator.add(txn.least, [Participant("a", "s" * 4097)]))
    with pytest.raises(TransactionNotFound, match="never was"):
        world.do(coordinator.add(7, BOTH))
    with pytest.raises(TransactionNotFound, match="never was"):
        world.do(coordinator.end(7, Outcome.ABORT))
    assert not coordinator.state.transactions[txn.least].parts
    for number in (16, 1 << 40):
        with pytest.raises(TransactionCoordinatorNotFound, match="no coordinator"):
            world.coordinator(number)


def test_what_was_begun_is_there_after_a_crash() -> None:
    world = CoordinatorWorld()
    txn = begun(world, *BOTH, ttl_ms=30_000)
    world.crash()
    stored = world.coordinator().state.transactions[txn.least]
    assert stored.status is Status.OPEN and list(stored.parts) == BOTH and stored.ttl_ms == 30_000
    assert world.begin_one() == TxnId(0, txn.least + 1)
    world.do(world.coordinator().end(txn.least, Outcome.COMMIT))
    world.crash()
    world.do(world.coordinator().end(txn.least, Outcome.COMMIT))
    assert world.begin_one() == TxnId(0, txn.least + 2)


def test_transactions_end_after_a_crash_though_no_client_asks() -> None:
    world = CoordinatorWorld()
    world.ending.failing = lambda part: NotReady("it moves")
    decided, opened = begun(world, ORDERS), begun(world, PAYMENTS, ttl_ms=60_000)
    world.begin(world.coordinator().end(decided.least, Outcome.COMMIT))
    world.clock.pump()
    world.crash()
    world.ending.failing = lambda part: None
    world.clock.advance(LOAD_SECONDS + RETRY_SECONDS)
    assert world.ending.told == [(ORDERS, decided, Outcome.COMMIT)]
    world.clock.advance(60)
    assert world.ending.told[1:] == [(PAYMENTS, opened, Outcome.ABORT)]


def test_nothing_is_loaded_that_was_never_used() -> None:
    world = CoordinatorWorld()
    world.clock.advance(3 * LOAD_SECONDS)
    assert not list(world.broker.coordinators) and not len(world.broker.topics)
    world.begin_one(number=3)
    world.crash()
    world.clock.advance(LOAD_SECONDS)
    assert [one.number for one in world.broker.coordinators] == [3]


def test_nobody_is_told_before_the_outcome_is_durable() -> None:
    world = CoordinatorWorld()
    txn = begun(world, ORDERS)
    world.begin(world.coordinator().end(txn.least, Outcome.COMMIT))
    while not world.ending.told:
        assert world.clock.step()
    # A crash now finds the outcome in the log.
    world.crash()
    assert world.coordinator().state.transactions[txn.least].status is Status.COMMITTING


def test_a_coordinator_that_moves_is_left_to_its_next_owner() -> None:
    world = CoordinatorWorld()
    world.ending.failing = lambda part: NotReady("it moves")
    txn, before = begun(world, ORDERS), world.coordinator()
    end = world.begin(before.end(txn.least, Outcome.COMMIT))
    world.clock.pump()
    world.unload()
    world.clock.advance(RETRY_SECONDS)
    with pytest.raises(TransactionCoordinatorNotFound, match="look it up again"):
        end.result()
    with pytest.raises(TransactionCoordinatorNotFound):
        world.do(before.begin(1000, "", 0))
    world.ending.failing = lambda part: None
    after = world.coordinator()
    assert after is not before
    world.do(after.end(txn.least, Outcome.COMMIT))
    assert world.ending.told == [(ORDERS, txn, Outcome.COMMIT)]


def test_a_defect_of_a_part_does_not_stop_a_repeated_end() -> None:
    world = CoordinatorWorld()
    txn, coordinator = begun(world, ORDERS), world.coordinator()
    world.ending.failing = lambda part: AssertionError("a defect")
    end = world.begin(coordinator.end(txn.least, Outcome.COMMIT))
    with pytest.raises(AssertionError):
        world.clock.pump()
    world.ending.failing = lambda part: None
    world.clock.pump()
    with pytest.raises(TransactionCoordinatorNotFound):
        end.result()
    world.do(coordinator.end(txn.least, Outcome.COMMIT))
    assert world.ending.told == [(ORDERS, txn, Outcome.COMMIT)]


def test_what_a_defect_has_stopped_goes_on_though_no_client_asks() -> None:
    world = CoordinatorWorld()
    txn = begun(world, ORDERS)
    world.ending.failing = lambda part: AssertionError("a defect")
    world.begin(world.coordinator().end(txn.least, Outcome.COMMIT))
    with pytest.raises(AssertionError):
        world.clock.pump()
    world.ending.failing = lambda part: None
    world.clock.advance(LOAD_SECONDS)
    assert world.ending.told == [(ORDERS, txn, Outcome.COMMIT)]
    assert not world.coordinator().state.transactions


class Story:
    """A client's transaction, step by step; a crash may come after any call of the clock."""

    def __init__(self, world: CoordinatorWorld, outcome: Outcome) -> None:
        self.world = world
        self.outcome = outcome
        self.txn: TxnId | None = None
        self.added = self.ended = False

    async def tell(self) -> None:
        coordinator = await self.world.broker.coordinators.of(0)
        self.txn = await coordinator.begin(60_000, "", 0)
        await coordinator.add(self.txn.least, BOTH)
        self.added = True
        await coordinator.end(self.txn.least, self.outcome)
        self.ended = True


@pytest.mark.parametrize("outcome", Outcome)
def test_a_crash_at_every_step(outcome: Outcome) -> None:
    """What was answered holds, and one outcome is told to all parts or to none."""
    step, done = 0, False
    while not done:
        world = CoordinatorWorld()
        story = Story(world, outcome)
        under_way: ManualPromise = world.begin(story.tell())
        taken = 0
        while taken < step and world.clock.step():
            taken += 1
        done = under_way.done()
        told = list(world.ending.told)
        world.crash()
        world.clock.advance(LOAD_SECONDS)
        _check(world, story, told)
        step += 1
    assert step > 10


def _check(world: CoordinatorWorld, story: Story, told: Sequence[object]) -> None:
    state, txn = world.coordinator().state, story.txn
    if txn is None:
        assert all(
            one.status is Status.OPEN and not one.parts for one in state.transactions.values()
        )
        return
    if txn.least in state.transactions:
        assert state.transactions[txn.least].status is Status.OPEN  # the decided ones have ended
        assert not told and not story.ended
        assert not story.added or list(state.transactions[txn.least].parts) == BOTH
    else:
        assert state.remembered[txn.least] is story.outcome
        assert {part for part, *_ in world.ending.told} == set(BOTH)
    assert {(one, outcome) for _, one, outcome in world.ending.told} <= {(txn, story.outcome)}
    assert world.begin_one().least > txn.least


def test_deadlines_of_transactions_that_have_ended_take_no_room() -> None:
    world = CoordinatorWorld()
    coordinator = world.coordinator()
    begun(world, ttl_ms=1000)  # the next deadline, behind which the others would stay
    for _ in range(2 * SPARE_DEADLINES):
        world.do(coordinator.end(begun(world, ttl_ms=1 << 40).least, Outcome.COMMIT))
    assert len(coordinator._deadlines) < SPARE_DEADLINES + 10


def test_open_transactions_end_though_transactions_were_switched_off() -> None:
    world = CoordinatorWorld()
    txn = begun(world, ORDERS, ttl_ms=30_000)
    world.settings = replace(world.settings, transaction_coordinator_enabled=False)
    world.crash()
    world.clock.advance(LOAD_SECONDS + 30)
    assert world.ending.told == [(ORDERS, txn, Outcome.ABORT)]


def test_a_coordinator_that_cannot_be_loaded_keeps_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = CoordinatorWorld()
    for number in (2, 3):
        world.begin_one(number=number)
    world.crash()
    of = world.broker.coordinators.of

    async def of_some(number: int) -> Coordinator:
        if number == 2:
            raise Corrupt("cursor segment", 0, "damaged", 7, 0, 0)
        return await of(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.broker.coordinators, "of", of_some)
        world.clock.advance(LOAD_SECONDS)
    assert [one.number for one in world.broker.coordinators] == [3]
    assert "coordinator 2 cannot be loaded now" in caplog.text
