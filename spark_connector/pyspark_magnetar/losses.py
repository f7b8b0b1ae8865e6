"""Finds out whether messages that a query still had to read were deleted.

Entry numbers have legal gaps: markers of transactions, and ends of ledgers.  So only a ledger that
is gone can be a loss, and only if it had entries behind the query's position.
"""

import logging
from collections.abc import Mapping

from pyspark_magnetar.errors import REMEDY, DataLoss
from pyspark_magnetar.offsets import NOTHING, Position
from pyspark_magnetar.probing import first_at
from pyspark_magnetar.view import View

logger = logging.getLogger(__name__)


class Losses:
    """Of one query; each loss is an error, or reported once."""

    def __init__(self, view: View, fails: bool) -> None:
        self._view = view
        self._fails = fails
        self._reported: set[tuple[str, Position]] = set()
        self._observed: dict[str, Position] = {}
        """The last entry that each partition had when it was asked for last."""
        self._checked: dict[str, Position] = {}
        """Positions behind which nothing is missing."""

    def observe(self, last: Mapping[str, Position]) -> None:
        """These are the last entries now; call it for every answer, before anything is checked."""
        for topic, position in last.items():
            if position != NOTHING:
                self._observed[topic] = position

    def known_last(self, topic: str) -> Position | None:
        """What was observed last."""
        return self._observed.get(topic)

    async def check(
        self, topic: str, read: Position, last: Position, observed: Position | None
    ) -> None:
        """DataLoss, or a line in the log, if messages behind `read` were deleted.

        `observed` is the last entry that was known before `last` was.
        """
        # A compacted view ends before what was read, if the end was replaced or deleted since.
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
        following = await first_at(self._view, topic, (read[0], read[1] + 1))
        if following is None or following.position[0] == read[0] or observed == read:
            self._checked[topic] = read
            return
        first = await first_at(self._view, topic)
        if first is None or first.position[0] <= read[0]:
            self._checked[topic] = read
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
        """Once for each position."""
        if self._fails:
            raise DataLoss(f"{topic}: {why}; {REMEDY}")
        if (topic, read) not in self._reported:
            self._reported.add((topic, read))
            logger.warning("data loss in %s: %s", topic, why)
