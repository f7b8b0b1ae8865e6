"""Runs of entries for a log, created by a test instead of a producer."""

from collections.abc import Sequence

from magnetar_storage.log.log import Log, LogRun
from magnetar_storage.log.positions import Position
from magnetar_storage.runtime.execution import Done


class Run(LogRun):
    """Entries, and the callback for their outcome."""

    def __init__(self, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> None:
        super().__init__()
        self.payloads, self.counts = list(payloads), list(counts)
        self.size = sum(map(len, payloads))
        self._done = done

    def on_durable(self, error: BaseException | None) -> None:
        self._done(error)


def append(log: Log, payloads: Sequence[bytes], counts: Sequence[int], done: Done) -> Position:
    """Queue entries of `counts` messages each; return the position of the first."""
    run = Run(payloads, counts, done)
    log.append(run)
    return run.ledger, run.first_entry
