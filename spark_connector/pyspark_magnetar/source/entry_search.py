"""Finds entries of a partition by reading single ones.

The binary protocol has no list of ledgers.  A reader at any position receives the first entry
at it or after it, which suffices to find the end of a ledger.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import magnetar
from magnetar.base.concurrency import gather_all
from pyspark_magnetar.source.offsets import NOTHING, Mean, Position
from pyspark_magnetar.source.view import View

SILENCE_S: Final = 1.0
"""The seconds without an entry after which the broker is asked whether more will come."""
PROBE_S: Final = 60.0
"""The time limit for the arrival of an existing entry."""
WIDTH: Final = 8
"""The number of concurrent probes, by which each round narrows the search."""


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry that was found."""

    position: Position
    mean: Mean
    stored_time_ms: int
    """The time by which the broker seeks: its own if it adds one, else the producer's."""


async def first_at(view: View, topic: str, at: Position | int = NOTHING) -> FoundEntry | None:
    """Return the first entry at or after a position; None if there is none.

    With a time in ms, it is the first entry since then, if there is one.  OperationTimeout if the
    entry does not arrive.
    """
    start: magnetar.MessageId | int
    if isinstance(at, int):
        start = at
    else:
        start = magnetar.EARLIEST if at[0] < 0 else magnetar.MessageId(at[0], max(at[1], 0))
    async with await view.reader(topic, start, inclusive=True, queue_size=1) as reader:
        give_up_s = asyncio.get_running_loop().time() + PROBE_S
        while True:
            try:
                return _found((await reader.receive_entries(1, SILENCE_S))[0])
            except magnetar.Unreadable as error:  # it exists, which is what was asked
                where = error.message_id
                return FoundEntry((where.ledger, where.entry), Mean(), 0)
            except magnetar.OperationTimeout as error:
                # promise[always]: a partition whose first entry comes late has one
                if not await _has_any(reader, at):
                    return None
                if asyncio.get_running_loop().time() >= give_up_s:
                    error.add_note(f"{topic} has entries from {at} on, and the broker sends none")
                    raise


def _found(entry: magnetar.Entry) -> FoundEntry:
    size = Mean(entry.metadata.num_messages_in_batch, entry.size)
    return FoundEntry(entry.position, size, entry.stored_time_ms)


async def _has_any(reader: magnetar.EntryReader, at: Position | int) -> bool:
    """Return whether an entry exists at or after a position, or a time."""
    last = await reader.last_message_id()
    return last.entry >= 0 and (isinstance(at, int) or (last.ledger, last.entry) >= at)


async def ledger_end(view: View, topic: str, ledger: int, known: int) -> tuple[int, Position]:
    """Return the last entry of a ledger, and the first entry after it, which must exist.

    `known` is an entry at or before the last one; -1 if none is known.
    """
    behind: Position | None = None
    low, high = known, -1  # the last entry is in [low, high)
    while high < 0 or high - low > 1:
        # Each round tries several entries at once, as a round trip costs more than a probe: first
        # at growing distances until one is after the end, then within the bounds.
        if high < 0:
            tried = [low + WIDTH**power for power in range(WIDTH)]
        else:
            step = max(1, (high - low) // WIDTH)
            tried = list(range(low + step, high, step))[: WIDTH + 1]
        found = await gather_all(first_at(view, topic, (ledger, entry)) for entry in tried)
        for entry, probed in zip(tried, found, strict=True):
            # A probe returns the next entry, so one of the same ledger moves `low` as far as it is.
            if probed is not None and probed.position[0] == ledger:
                low = max(low, probed.position[1])
            else:
                high = entry if high < 0 else min(high, entry)
                behind = behind if probed is None else probed.position
        # Entries may be deleted between two probes, so that their answers contradict each other.
        high = high if high < 0 else max(high, low + 1)
    if behind is None:
        raise magnetar.OperationTimeout(f"{topic}: nothing was found after ledger {ledger}")
    return low, behind


async def ledger_ends(
    view: View, topic: str, start: Position, end: Position, most: int
) -> list[Position]:
    """Return the last entries of at most `most` ledgers from `start` to before that of `end`.

    A ledger that was deleted, or has nothing after `start`, is omitted.
    """
    found: list[Position] = []
    ledger, known = start
    if ledger < end[0]:
        probed = await first_at(view, topic, (ledger, known + 1) if ledger >= 0 else NOTHING)
        if probed is None:
            return found
        ledger, known = probed.position
    while ledger < end[0] and len(found) < most:
        last, behind = await ledger_end(view, topic, ledger, known)
        found.append((ledger, last))
        ledger, known = behind
    return found
