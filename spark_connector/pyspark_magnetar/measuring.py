"""What a range of a partition holds: the ends of its ledgers, and what a typical entry has."""

import time
from dataclasses import replace
from typing import Final

from magnetar.concurrency import gather_all
from pyspark_magnetar.offsets import NOTHING, Mean, Position, Range
from pyspark_magnetar.planning import entries_in
from pyspark_magnetar.probing import first_at, ledger_ends
from pyspark_magnetar.view import View

SAMPLED_ENTRIES: Final = 16
"""With fewer entries in a partition's range, what a typical entry has changes nothing."""
SAMPLE_KEPT_S: Final = 60.0
MAX_LEDGERS: Final = 16
"""Ends that are looked for in one plan, as each takes some dozen requests."""


class Measuring:
    """Of one query: what the broker has answered is kept for the next micro-batches."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._ends: dict[str, list[Position]] = {}
        self._means: dict[str, tuple[float, Mean]] = {}

    async def measured(self, wanted: Range, counts: bool = False) -> Range:
        """The range with the ends of its ledgers, and what a typical entry has.

        Without `counts` the latter is only asked for where it decides how many tasks there are.
        With it, the range ends where no more ends of ledgers are known.
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
            # What is behind is for later batches: nothing tells how much that is.
            wanted = replace(wanted, end=known[-1])
        inside = tuple(end for end in known if end < wanted.end)
        found = replace(wanted, ledger_ends=inside)
        if entries_in(found) < SAMPLED_ENTRIES and not counts:
            return found
        return replace(found, mean=await self._mean(found))

    def mean_of(self, topic: str) -> Mean:
        """What a typical entry of a partition had last; an empty one if nothing is known."""
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
