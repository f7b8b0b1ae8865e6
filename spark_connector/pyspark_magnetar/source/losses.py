"""Detects messages that were deleted before a query has read them.

Entry numbers have regular gaps: markers of transactions, and ends of ledgers.  Only a ledger that
is missing can therefore be a loss, and only if it had entries after the query's position.
"""

import logging
from collections.abc import Mapping

from pyspark_magnetar.errors import REMEDY, DataLoss
from pyspark_magnetar.source.entry_search import first_at
from pyspark_magnetar.source.offsets import NOTHING, Position
from pyspark_magnetar.source.view import View

logger = logging.getLogger(__name__)


class Losses:
    """Detects the losses of one query; each is an error, or is reported once."""

    def __init__(self, view: View, fails: bool) -> None:
        self._view = view
        self._fails = fails
        self._reported: set[tuple[str, Position]] = set()
        self._observed: dict[str, Position] = {}
        """The last entry of each partition when the broker was last asked."""
        self._continued: dict[str, dict[Position, int]] = {}
        """The ledger in which a partition continued, by partition and former last entry."""
        self._checked: dict[str, Position] = {}
        """Positions, by partition, after which nothing is missing."""

    def observe(self, last: Mapping[str, Position]) -> None:
        """Record the last entries; call this with every answer of the broker."""
        for topic, position in last.items():
            if position == NOTHING:
                continue
            before = self._observed.get(topic, position)
            if before[0] != position[0]:  # promise: a ledger that was read and deleted is not lost
                self._continued.setdefault(topic, {})[before] = position[0]
            self._observed[topic] = position

    async def check(self, topic: str, read: Position, last: Position) -> None:
        """Raise DataLoss, or log a line, if messages after `read` were deleted."""
        # The end of a compacted view moves back if it is replaced or deleted after it was read.
        # promise[without or self._view.compacted]: the end of a compacted view does not mean a loss
        if NOTHING in (last, read) or self._view.compacted:
            return
        if last < read:
            self.report(
                topic,
                read,
                f"the topic ends at {last[0]}:{last[1]}, but the query has read "
                f"{read[0]}:{read[1]}: it was deleted and recreated",
            )
            return
        if last[0] == read[0] or self._checked.get(topic) == read:
            return
        continued = self._continued.get(topic, {})
        following = await first_at(self._view, topic, (read[0], read[1] + 1))
        if following is None:
            return  # it was deleted: its task, or the next check, reports that
        first = following
        if following.position[0] > continued.get(read, read[0]):
            first = await first_at(self._view, topic) or following
        if first.position[0] <= continued.get(read, read[0]):
            self._checked[topic] = read
            self._continued[topic] = {at: ledger for at, ledger in continued.items() if at >= read}
            return
        at = first.position
        self.report(
            topic,
            read,
            f"the query has read up to {read[0]}:{read[1]}, and the first message that is left is "
            f"{at[0]}:{at[1]}: what was between was deleted, by retention or a time to live, or "
            "the topic was recreated",
        )

    def report(self, topic: str, read: Position, why: str) -> None:
        """Report a loss, once for each position."""
        if self._fails:
            raise DataLoss(f"{topic}: {why}; {REMEDY}")
        if (topic, read) not in self._reported:
            self._reported.add((topic, read))
            logger.warning("data loss in %s: %s", topic, why)
