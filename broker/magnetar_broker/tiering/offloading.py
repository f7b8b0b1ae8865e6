"""The offloading of one topic's ledgers: how it is started, and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from magnetar_broker.base.errors import BrokerError
from magnetar_storage.interfaces import SegmentId
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


@dataclass
class OffloadCounts:
    """The numbers of what one process has offloaded, read and deleted since its start."""

    offloaded_bytes: int = 0
    offload_errors: int = 0
    """The ledgers that could not be offloaded; each further attempt counts again."""
    read_bytes: int = 0
    read_errors: int = 0
    """The reads of offloaded ledgers that failed."""
    deleted: int = 0
    """The objects that were deleted."""


class OffloadRunning(BrokerError):
    """An offload of the topic is running: wait until it has ended."""


class Offloading(Protocol):
    """Offloads the closed ledgers of one topic."""

    async def start(self, before: tuple[SegmentId, int]) -> None:
        """Begin to offload all closed ledgers before a position, and return; see `status`.

        `OffloadRunning` is raised if an offload that was asked for is running.
        """

    def status(self) -> OffloadStatus:
        """Return the state of the last offload that was asked for."""

    def figures(self) -> OffloadFigures:
        """Return the figures since the topic was loaded."""


class WithoutDriver:
    """The offloading of a topic that no driver is configured for."""

    WHY = (
        "no offload driver is configured: set managedLedgerOffloadDriver, or offloadPolicies of "
        "the topic or its namespace"
    )

    def __init__(self) -> None:
        self._status = OffloadStatus()

    async def start(self, before: tuple[SegmentId, int]) -> None:
        """Fail: as in Pulsar, the request is accepted and the status has the reason."""
        self._status = OffloadStatus(OffloadState.ERROR, self.WHY)

    def status(self) -> OffloadStatus:
        return self._status

    def figures(self) -> OffloadFigures:
        return OffloadFigures()


def is_offloaded(segment: Segment) -> bool:
    """Return whether a ledger has a complete copy in a store of objects."""
    return False


def offloaded_size(segments: Sequence[Segment]) -> int:
    """Return the bytes of the offloaded ledgers."""
    return sum(segment.size for segment in segments if is_offloaded(segment))
