"""The contents of a partition's range: the ends of its ledgers, and the size of a typical entry."""

import time
from dataclasses import replace
from typing import Final

from magnetar.base.concurrency import gather_all
from pyspark_magnetar.source.entry_search import first_at, ledger_ends
from pyspark_magnetar.source.offsets import NOTHING, Mean, Position, Range
from pyspark_magnetar.source.range_division import entries_in
from pyspark_magnetar.source.view import View

SAMPLED_ENTRIES: Final = 16
"""The number of entries below which the size of a typical entry changes nothing."""
SAMPLE_KEPT_S: Final = 60.0
MAX_LEDGERS: Final = 16
"""The most ledger ends found in one plan; each takes some dozen requests."""


class RangeContents:
    """Measures ranges for one query; the broker's answers are kept for later micro-batches."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._ends: dict[str, list[Position]] = {}
        self._means: dict[str, tuple[float, Mean]] = {}

    async def measured(self, wanted: Range, counts: bool = False) -> Range:
        """Return the range with the ends of its ledgers, and the size of a typical entry.

        Without `counts`, the size is requested only if it determines the number of tasks.
        With `counts`, the range is cut where the known ends of ledgers end.
        """
        view, topic = self._view, wanted.topic
        known = [end for end in self._ends.get(topic, ()) if end >= wanted.start]
        reached = known[-1] if known else wanted.start
        if reached[0] < wanted.end[0] and len(known) < MAX_LEDGERS:
            begin = (reached[0] + 1, -1) if known else reached
            most = MAX_LEDGERS - len(known)
            known += await ledger_ends(view, topic, begin, wanted.end, most)
        self._ends[topic] = known
        if counts and len(known) >= MAX_LEDGERS and wanted.start < known[-1] < wanted.end:
            # The rest is for later batches: its number of entries is not known.
            wanted = replace(wanted, end=known[-1])
        inside = tuple(end for end in known if end < wanted.end)
        found = replace(wanted, ledger_ends=inside)
        if entries_in(found) < SAMPLED_ENTRIES and not counts:
            return found
        return replace(found, mean=await self._mean(found))

    def mean_of(self, topic: str) -> Mean:
        """Return the last known size of a typical entry of a partition; empty if unknown."""
        return self._means.get(topic, (0.0, Mean()))[1]

    async def _mean(self, wanted: Range) -> Mean:
        kept = self._means.get(wanted.topic)
        if kept is not None and time.monotonic() - kept[0] < SAMPLE_KEPT_S:
            return kept[1]
        ledger, entry = wanted.start
        start = (ledger, entry + 1) if ledger >= 0 else NOTHING
        sampled = await gather_all(
            first_at(self._view, wanted.topic, at) for at in (start, wanted.end)
        )
        means = [one.mean for one in sampled if one is not None and one.mean.messages]
        if not means:
            return Mean()
        found = Mean(
            sum(mean.messages for mean in means) // len(means),
            max(1, sum(mean.bytes for mean in means) // len(means)),
        )
        self._means[wanted.topic] = time.monotonic(), found
        return found
