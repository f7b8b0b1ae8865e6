"""A coordinator on a local disk that stops at any operation: one outcome, told to every part."""

from collections.abc import Callable

import pytest

from effort import parts
from fakes.coordinating import RecordedEnding
from fakes.faulty_disk import Crash, FaultyDisk, nothing, seeded
from fakes.local_store import TINY
from fakes.memory_metadata import MemoryMetadata
from fakes.world import InlineWorkers, ManualClock, ManualTasks, run
from magnetar_broker.base.errors import InvalidTransactionStatus, TransactionNotFound
from magnetar_broker.base.transaction_ids import Outcome
from magnetar_broker.config import Settings
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.standalone import standalone
from magnetar_broker.transactions.coordinator import Coordinator
from magnetar_broker.transactions.records import Participant
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine

BOTH = [
    Participant("persistent://public/default/orders"),
    Participant("persistent://public/default/payments", "sub"),
]
TTL_MS = 60_000
OTHER = {Outcome.COMMIT: Outcome.ABORT, Outcome.ABORT: Outcome.COMMIT}


class Machine:
    """A broker with one coordinator in use; the metadata store is another that never fails."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.metadata = MemoryMetadata(ManualClock())
        self.ending = RecordedEnding()
        self.begun: list[int] = []
        self.ended: dict[int, Outcome] = {}
        """What a client was told that it has ended."""

    def open(self) -> None:
        self.clock = ManualClock()
        store = run(
            LocalStore.open(self.disk, InlineWorkers(self.clock), self.clock, TINY), self.clock
        )
        assert not [finding for finding in store.findings if finding.data_lost]
        tasks = ManualTasks(self.clock)
        engine = Engine(store, self.metadata, EntryCache(200), self.clock, tasks)
        _, self.broker = standalone(Settings(), engine, SoleOwner("pulsar://here:6650"))
        self.broker.coordinators.ending = self.ending
        run(self.broker.start(), self.clock)
        self.clock.pump()

    def coordinator(self) -> Coordinator:
        return run(self.broker.coordinators.of(0), self.clock)

    def begin(self) -> int:
        least = run(self.coordinator().begin(TTL_MS, "", 0), self.clock).least
        assert least not in self.begun, "a number was given out twice"
        self.begun.append(least)
        return least

    def transaction(self, outcome: Outcome) -> None:
        least = self.begin()
        run(self.coordinator().add(least, BOTH), self.clock)
        run(self.coordinator().end(least, outcome), self.clock)
        self.ended[least] = outcome

    def history(self) -> None:
        self.open()
        for outcome in (Outcome.COMMIT, Outcome.ABORT, Outcome.COMMIT):
            self.transaction(outcome)
        run(self.coordinator().add(self.begin(), BOTH), self.clock)

    def check(self) -> None:
        """What ended stays ended; when the time of the rest is over, all parts know one outcome."""
        for least, outcome in self.ended.items():
            with pytest.raises((TransactionNotFound, InvalidTransactionStatus)):
                run(self.coordinator().end(least, OTHER[outcome]), self.clock)
            run(self.coordinator().end(least, outcome), self.clock)
        self.transaction(Outcome.COMMIT)
        self.clock.advance(2 * TTL_MS / 1000)
        told: dict[int, set[tuple[Participant, Outcome]]] = {}
        for part, txn, outcome in self.ending.told:
            told.setdefault(txn.least, set()).add((part, outcome))
        for least, found in told.items():
            outcomes = {outcome for _, outcome in found}
            assert len(outcomes) == 1, "a transaction has two outcomes"
            assert {part for part, _ in found} == set(BOTH), "a part was left out"
            assert self.ended.get(least) in (None, *outcomes)
        assert self.ended.keys() <= told.keys()


def operations() -> int:
    machine = Machine()
    machine.history()
    return machine.disk.operations


SURVIVALS: list[Callable[[int], int]] = [nothing, lambda ways: ways - 1]


@pytest.mark.parametrize("part", parts(4))
def test_a_crash_leaves_one_outcome_for_all_parts(part: int) -> None:
    for operation in range(part, operations(), 4):
        for survives in (*SURVIVALS, seeded(operation)):
            machine = Machine()
            machine.disk.crash_at = operation
            with pytest.raises(Crash):
                machine.history()
            machine.disk.crash(survives)
            machine.open()
            machine.check()
