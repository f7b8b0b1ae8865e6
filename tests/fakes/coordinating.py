"""Coordinators of transactions over stores in memory, and their calls to topics."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fakes.logs import LogWorld
from magnetar_broker.base.transaction_ids import COORDINATORS, Outcome, TxnId
from magnetar_broker.config import Settings
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.standalone import standalone
from magnetar_broker.transactions.coordinator import Coordinator
from magnetar_broker.transactions.records import Participant


class RecordedEnding:
    """Records its calls, over all restarts of the broker, and fails on request."""

    def __init__(self) -> None:
        self.told: list[tuple[Participant, TxnId, Outcome]] = []
        self.low_watermarks: list[int] = []
        self.failing: Callable[[Participant], Exception | None] = lambda part: None

    async def end(
        self, part: Participant, txn: TxnId, outcome: Outcome, low_watermark: int
    ) -> None:
        if (error := self.failing(part)) is not None:
            raise error
        assert low_watermark < txn.least
        self.told.append((part, txn, outcome))
        self.low_watermarks.append(low_watermark)


class CoordinatorWorld(LogWorld):
    """A started broker; `crash` ends its process and starts it again."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.ending = RecordedEnding()
        self.settings = replace(Settings(), **settings)
        self.start()

    def start(self) -> None:
        self.directory, self.broker = standalone(
            self.settings, self.engine, SoleOwner("pulsar://here:6650")
        )
        self.broker.coordinators.ending = self.ending
        self.do(self.broker.start())
        self.clock.pump()

    def crash(self) -> None:
        """Drop everything pending in the process, keep what is stored, and restart."""
        self.clock.forget()
        self.store.crash()
        self.start()

    def coordinator(self, number: int = 0) -> Coordinator:
        return self.do(self.broker.coordinators.of(number))

    def begin_one(self, ttl_ms: int = 60_000, number: int = 0) -> TxnId:
        return self.do(self.coordinator(number).begin(ttl_ms, "", 0))

    def unload(self, number: int = 0) -> None:
        """Close the partition of a coordinator, as before a move."""
        self.do(self.directory.opening.unload(COORDINATORS.with_partition(number)))
