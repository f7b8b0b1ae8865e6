"""The division of ranges among micro-batches, and among tasks. Pure.

Both divisions count entries, whose number follows from the ends of the ledgers; the mean of an
entry converts messages and bytes to entries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pyspark_magnetar.source.offsets import Position, Range

LEAST_MESSAGES: Final = 50_000
"""The size below which a range is not divided: a task costs some 50 ms, whatever it reads."""
MAX_TASKS: Final = 10_000


class Run(NamedTuple):
    """Consecutive entries of one ledger, both ends included."""

    ledger: int
    first: int
    last: int

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


def runs(wanted: Range) -> list[Run]:
    """Return the runs of a range, as far as its ledgers are known."""
    found: list[Run] = []
    start_ledger, start_entry = wanted.start
    for ledger, last in (*wanted.ledger_ends, wanted.end):
        first = start_entry + 1 if ledger == start_ledger else 0
        if last >= first and (not found or found[-1].ledger != ledger):
            found.append(Run(ledger, first, last))
        elif found and found[-1].ledger == ledger:
            found[-1] = Run(ledger, found[-1].first, max(last, found[-1].last))
    return found


def entries_in(wanted: Range) -> int:
    """Return the number of entries, at most: some may be markers."""
    return sum(run.entries for run in runs(wanted))


def position_after(wanted: Range, entries: int) -> Position:
    """Return the last of the first `entries` entries, or the range's end."""
    for run in runs(wanted):
        if entries <= run.entries:
            return run.ledger, run.first + max(entries, 1) - 1
        entries -= run.entries
    return wanted.end


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of tasks; 0 or None: not limited."""

    target_bytes: int = 64 << 20
    min_partitions: int = 0
    max_records: int | None = None


def split(found: Sequence[Range], sizes: Sizes) -> list[Range]:
    """Divide the ranges into those of tasks; equal arguments give equal results."""
    pieces = [_pieces(wanted, sizes) for wanted in found]
    short = min(sizes.min_partitions, MAX_TASKS) - sum(pieces)
    if short > 0 and found:
        entries = [entries_in(wanted) for wanted in found]
        total = max(sum(entries), 1)
        goal = short + sum(pieces)
        # Rounded up, so that the sum reaches the goal.
        pieces = [
            max(count, min(own, -(-goal * own // total)))
            for count, own in zip(pieces, entries, strict=True)
        ]
    parts = (_cut(wanted, count) for wanted, count in zip(found, pieces, strict=True))
    return [part for several in parts for part in several]


def _pieces(wanted: Range, sizes: Sizes) -> int:
    messages, size = wanted.mean
    entries = entries_in(wanted)
    count = 1
    if messages:
        by_size = -(-entries * size // sizes.target_bytes)
        count = max(1, min(by_size, entries * messages // LEAST_MESSAGES))
        if sizes.max_records is not None:
            count = max(count, -(-entries // max(1, sizes.max_records // messages)))
    elif sizes.max_records is not None:
        count = entries  # their size is not known: one entry per task is the minimum
    return max(1, min(count, entries, MAX_TASKS))


def _cut(wanted: Range, count: int) -> list[Range]:
    if count < 2:
        return [wanted]
    total = entries_in(wanted)
    cuts = [position_after(wanted, total * index // count) for index in range(1, count)]
    parts = []
    start, skipped = wanted.start, wanted.skipped
    # promise[(*dict.fromkeys(cuts), wanted.end) -> dict.fromkeys(cuts)]: the tasks cover a range to
    #   its end
    for end in (*dict.fromkeys(cuts), wanted.end):
        if start < end:
            inside = tuple(at for at in wanted.ledger_ends if start <= at <= end)
            parts.append(
                replace(
                    wanted,
                    start=start,
                    end=end,
                    skipped=skipped,
                    kept=wanted.kept if end == wanted.end else 0,
                    ledger_ends=inside,
                )
            )
            start, skipped = end, 0
    return parts


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one micro-batch; None means no limit."""

    messages: int | None = None
    bytes: int | None = None


def messages_in(wanted: Range) -> int:
    """Return the estimated number of messages, at least one per entry."""
    return entries_in(wanted) * max(wanted.mean.messages, 1)


def bytes_in(wanted: Range) -> int:
    """Return the estimated number of bytes."""
    return entries_in(wanted) * max(wanted.mean.bytes, 1)


def limited(found: Sequence[Range], limits: Limits) -> Mapping[str, Position]:
    """Return the end of each range, so that all ranges together stay within the limits.

    The limits are shared in proportion to the contents, and each range gets at least one entry.
    """
    share = 1.0
    if limits.messages is not None:
        share = min(share, limits.messages / max(1, sum(map(messages_in, found))))
    if limits.bytes is not None:
        share = min(share, limits.bytes / max(1, sum(map(bytes_in, found))))
    if share >= 1:
        return {wanted.topic: wanted.end for wanted in found}
    return {
        wanted.topic: position_after(wanted, max(1, int(entries_in(wanted) * share)))
        for wanted in found
    }
