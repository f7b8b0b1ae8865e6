"""The offloading of one topic's ledgers: how it is started, and how it ended."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.policies.offload_values import OffloadRules
from magnetar_broker.tiering.due_ledgers import (
    ClosedSegment,
    to_delete_here,
    to_offload,
    to_offload_before,
)
from magnetar_storage.errors import Corrupt, LogClosed, StorageError
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import Segment


class OffloadState(StrEnum):
    """The outcome of the last offload that was asked for since the topic was loaded."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


class OffloadStatus(NamedTuple):
    """The state of the last offload that was asked for."""

    state: OffloadState = OffloadState.NOT_RUN
    last_error: str = ""
    """The reason of an `ERROR`."""
    first_not_offloaded: tuple[SegmentId, int] = (-1, -1)
    """The position of the first entry that is only here, after a `SUCCESS`."""


class OffloadFigures(NamedTuple):
    """The figures of a topic's offloading since the topic was loaded."""

    last_ledger: SegmentId = 0
    """The ledger that was offloaded last; 0 for none."""
    succeeded_ms: int = 0
    failed_ms: int = 0
    """The times at which offloading a ledger last succeeded and last failed; 0 for never."""


NO_DRIVER: Final = (
    "no offload driver is configured: set managedLedgerOffloadDriver, or offloadPolicies of the "
    "topic or its namespace"
)


class OffloadRunning(Exception):
    """An offload of the topic is running: wait until it has ended."""


class TopicOffloading:
    """Offloads closed ledgers of one topic, and deletes their files some time after that."""

    def __init__(
        self, log: Log, rules: Callable[[], OffloadRules], clock_watch: ClockWatch
    ) -> None:
        """`rules` returns the rules in effect."""
        self._log = log
        self._rules = rules
        self._clock_watch = clock_watch
        self._status = OffloadStatus()
        self._figures = OffloadFigures()
        self._damaged: set[SegmentId] = set()
        """Ledgers of which entries are damaged: they stay here until they are asked for again."""

    def status(self) -> OffloadStatus:
        """Return the state of the last offload that was asked for."""
        return self._status

    def figures(self) -> OffloadFigures:
        """Return the figures since the topic was loaded."""
        return self._figures

    def start(self, before: tuple[SegmentId, int]) -> None:
        """Start to offload the closed ledgers that end before a position; `status` has the outcome.

        `OffloadRunning` is raised if an offload that was asked for is running.  As in Pulsar, the
        request is accepted without a driver, and with the position of no message; the status has
        the reason.
        """
        if self._status.state is OffloadState.RUNNING:
            raise OffloadRunning("an offload of the topic is running: retry when it has ended")
        rules = self._rules()
        if not rules.place:
            self._status = OffloadStatus(OffloadState.ERROR, rules.trouble or NO_DRIVER)
            return
        if not self._has(*before):
            why = (
                f"invalid position for offload: {before[0]}:{before[1]} is not of this topic; "
                "name an entry that it has, or the next one"
            )
            self._status = OffloadStatus(OffloadState.ERROR, why)
            return
        self._status = OffloadStatus(OffloadState.RUNNING)
        self._log.engine.tasks.spawn(self._requested(before[0], rules.place))

    def _has(self, ledger: SegmentId, entry: int) -> bool:
        """Return whether the log has an entry at a position, or will have it next."""
        log = self._log
        for segment, base in zip(log.segments, log.bases, strict=True):
            if segment.id == ledger:
                stop = segment.entries
                # The next ledger is listed a moment before the end of this one is.
                if stop is None or segment is log.segments[-1]:
                    stop = log.end + 1 - base
                return 0 <= entry < stop
        return False

    async def _requested(self, before: SegmentId, place: str) -> None:
        self._damaged.clear()
        try:
            await self._copy_all(to_offload_before(self._closed(), before), place)
        except Exception as error:
            self._status = OffloadStatus(OffloadState.ERROR, str(error))
            if not isinstance(error, StorageError):
                raise  # a defect, which is reported
        else:
            self._status = OffloadStatus(OffloadState.SUCCESS, "", self._first_not_offloaded())

    async def run_due(self) -> None:
        """Do what the rules ask for now: offload, delete unused objects, delete here.

        Each is done although another one fails; the first error is raised at the end.
        """
        rules, log = self._rules(), self._log
        log.entries.prefers_copies = not rules.files_first
        now_ms = self._clock_watch.now_ms()
        # promise[always]: what is deleted here was offloaded for as long as the policy says
        dropped = to_delete_here(self._closed(), rules, now_ms)
        copied = to_offload(self._closed(), rules, now_ms) if rules.place else []
        failure: StorageError | None = None
        for work in (
            partial(log.offloading.drop, dropped),
            partial(self._copy_all, copied, rules.place),
            log.offloading.delete_unused,
        ):
            try:
                await work()
            except LogClosed:
                raise
            except StorageError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _copy_all(self, ledgers: Sequence[SegmentId], place: str) -> None:
        """Offload ledgers; leave out damaged ones, and raise the first such error at the end."""
        damage: Corrupt | None = None
        for ledger in ledgers:
            try:
                is_copied = await self._log.offloading.copy(ledger, place)
            except LogClosed:
                raise
            except Corrupt as error:
                # Not tried again with each round: the whole ledger would be read each time.
                self._damaged.add(ledger)
                damage = damage or error
                self._failed()
            except StorageError:
                self._failed()
                raise
            else:
                if is_copied:
                    self._figures = self._figures._replace(
                        last_ledger=ledger, succeeded_ms=self._clock_watch.now_ms()
                    )
        if damage is not None:
            raise damage

    def _failed(self) -> None:
        self._figures = self._figures._replace(failed_ms=self._clock_watch.now_ms())

    def _closed(self) -> list[ClosedSegment]:
        """Return the closed ledgers; of rewritten ones a part is left, which stays here."""
        return [
            ClosedSegment(
                one.id,
                one.size,
                one.sealed_ms,
                0 if one.copy is None else one.copy.completed_ms,
                one.is_whole and not one.is_remote and one.id not in self._damaged,
            )
            for one in self._log.segments
            if one.entries is not None
        ]

    def _first_not_offloaded(self) -> tuple[SegmentId, int]:
        """Return the position of the first entry that is only here; (-1, -1) if there is none."""
        left = ((one.id, 0) for one in self._log.segments if not one.is_copied)
        return next(left, (-1, -1))


def offloaded_size(segments: Sequence[Segment]) -> int:
    """Return the bytes of the offloaded ledgers."""
    return sum(segment.size for segment in segments if segment.is_copied)
