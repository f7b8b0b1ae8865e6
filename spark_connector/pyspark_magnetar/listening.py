"""A listener that prints the backlog of queries after each micro-batch."""

import json
import sys
from typing import Any, TextIO

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class BacklogListener(StreamingQueryListener):
    """Prints the backlog; register it with `spark.streams.addListener(BacklogListener())`.

    The source puts its backlog into `sources[].latestOffset` of the progress: entries, messages
    and bytes, and messages by partition.  All but the entries are estimates.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore the event: there is no progress yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        for source in progress.sources:
            line = backlog_line(source.latestOffset)
            if line is not None:
                name = progress.name or str(progress.id)
                print(f"{name} batch {progress.batchId}: {line}", file=self._out or sys.stdout)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignore the event: a query without new messages has no backlog."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Ignore the event: the last progress was printed."""


def backlog_line(latest_offset: str | None) -> str | None:
    """Return the backlog as a line of text; None if the offset is not from this source."""
    try:
        report: Any = json.loads(latest_offset or "")
        backlog = report["backlog"]
    except (ValueError, TypeError, KeyError):
        return None
    behind = sorted(backlog["partitions"].values())
    if not behind:
        return "nothing behind the latest message"
    return (
        f"{backlog['msgs']} messages in {backlog['entries']} entries ({backlog['bytes']} bytes) "
        f"behind the latest; by partition at most {behind[-1]}, at least {behind[0]}, on average "
        f"{sum(behind) / len(behind):.1f}"
    )
