"""The plan of the next micro-batch, in the driver's Python process."""

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any, Final

import magnetar
from magnetar.base.concurrency import gather_all
from magnetar_proto.ids import EARLIEST
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.options.places import Place
from pyspark_magnetar.source.losses import Losses
from pyspark_magnetar.source.offsets import (
    NOTHING,
    VERSION,
    Offset,
    Position,
    Range,
    Start,
    ranges,
)
from pyspark_magnetar.source.range_contents import RangeContents
from pyspark_magnetar.source.range_division import (
    Limits,
    bytes_in,
    entries_in,
    limited,
    messages_in,
)
from pyspark_magnetar.source.read_options import ReadOptions
from pyspark_magnetar.source.start_positions import starts_of
from pyspark_magnetar.source.tail import GIVE_UP_S, Seen, Tail
from pyspark_magnetar.source.view import View

logger = logging.getLogger(__name__)

LONGEST_POLL_S: Final = 1.0
"""The delay of an answer "nothing new": Spark asks for the latest offset without pause."""


class Planner:
    """Plans the micro-batches of one query."""

    def __init__(self, options: ReadOptions, bridge: Bridge) -> None:
        self._options = options
        self._bridge = bridge
        self._view = View(bridge.client, options.reads_compacted)
        self._losses = Losses(self._view, options.fails_on_loss)
        self._tail = Tail(bridge, self._view, options.topics, options.polling, self._losses.observe)
        self._first: frozenset[str] | None = None
        """The partitions that existed when the query was started."""
        self._stop_at: Seen | None = None
        self._contents = RangeContents(self._view)
        self._planned_s = float("-inf")
        self._reached = Offset()

    def stop_at_what_there_is(self) -> None:
        """Read up to the present end of the topics, and nothing that comes later."""
        self._stop_at = self._tail.now()

    def next_offset(self, current: Offset, limits: Limits) -> Offset:
        """Return the end of the batch after `current`, or `current` itself if nothing is new."""
        give_up_s = time.monotonic() + LONGEST_POLL_S
        seen = self._stop_at or self._tail.seen()
        while True:
            found = self._bridge.run(self._planned(current, seen, limits))
            self._reached = found
            wait_s = give_up_s - time.monotonic()
            if found is not current or self._stop_at is not None or wait_s <= 0:
                return found
            seen = self._tail.wait(seen, wait_s)

    def whole(self) -> list[Range]:
        """Return all ranges from the start to the end in the options, and close the planner."""
        try:
            return self._bridge.run(self._whole(self._tail.now()))
        finally:
            self._tail.close()

    def report(self) -> dict[str, Any] | None:
        """Return the latest positions and the backlog behind the last plan, as far as known."""
        seen = self._stop_at or self._tail.last_seen
        if seen is None:
            return None
        latest = self._reached.advanced(seen.last, {})
        if not self._reached.positions:
            return latest.to_json()
        known = replace(latest, began_at={}, means={}, ledger_ends={})
        left = [
            replace(wanted, mean=self._contents.mean_of(wanted.topic))
            for wanted in ranges(replace(self._reached, began_at={}), self._only_known(known))
        ]
        backlog = {
            "entries": sum(map(entries_in, left)),
            "msgs": sum(map(messages_in, left)),
            "bytes": sum(map(bytes_in, left)),
            "partitions": {wanted.topic: messages_in(wanted) for wanted in left},
        }
        return {"v": VERSION, "p": known.to_json().get("p", {}), "backlog": backlog}

    def _only_known(self, latest: Offset) -> Offset:
        positions = {
            topic: at for topic, at in latest.positions.items() if topic in self._reached.positions
        }
        return replace(latest, positions=positions)

    async def _planned(self, current: Offset, seen: Seen, limits: Limits) -> Offset:
        """Return the plan, and retry for some time if the broker is not available."""
        give_up_s = time.monotonic() + GIVE_UP_S
        while True:
            try:
                return await self._plan(current, seen, limits)
            except magnetar.MagnetarError as error:
                if not error.retriable or time.monotonic() >= give_up_s:
                    raise
                logger.warning("the next micro-batch could not be planned: %s", error)
                await asyncio.sleep(self._options.polling.poll_s)

    async def _plan(self, current: Offset, seen: Seen, limits: Limits) -> Offset:
        await self._check(current, seen)
        began = await self._began(current, seen)
        starts = {**{topic: current.start_of(topic) for topic in current.positions}, **began}
        found = [
            Range(topic, start.position, seen.last[topic], start.messages)
            for topic, start in starts.items()
            if start is not None and start.position < seen.last.get(topic, NOTHING)
        ]
        if not found:
            return current.advanced({}, began)
        counts = limits != Limits() or self._options.polling.min_messages is not None
        found = await gather_all(self._contents.measured(wanted, counts) for wanted in found)
        if self._waits_for_more(found):
            return current.advanced({}, began)
        self._planned_s = time.monotonic()
        return current.advanced(
            limited(found, limits),
            began,
            {wanted.topic: wanted.ledger_ends for wanted in found},
            {wanted.topic: wanted.mean for wanted in found if wanted.mean.messages},
        )

    async def _whole(self, seen: Seen) -> list[Range]:
        starts = await self._began(Offset(), seen)
        found = []
        for topic in sorted(seen.last):
            place = None if self._options.bounds.end is None else self._options.bounds.end.of(topic)
            end, kept = _stop(seen.last[topic], place)
            start = starts[topic]
            if start.position < end:
                found.append(Range(topic, start.position, end, start.messages, kept))
        return await gather_all(map(self._contents.measured, found))

    async def _check(self, current: Offset, seen: Seen) -> None:
        for topic in current.positions:
            if topic not in seen.last:
                self._losses.report(topic, current.positions[topic], "the topic was deleted")
        await gather_all(
            self._losses.check(topic, read, seen.last[topic])
            for topic, read in current.positions.items()
            if topic in seen.last
        )

    async def _began(self, current: Offset, seen: Seen) -> dict[str, Start]:
        """Return the start of each partition that the query has not read."""
        if self._first is None:
            self._first = frozenset() if current.positions else frozenset(seen.last)
        bounds = self._options.bounds
        wanted = {}
        for topic, last in seen.last.items():
            if topic not in current.positions:
                # Partitions that appear in a running query were empty at its start.
                is_new = bool(current.positions) or topic not in self._first
                place = None if is_new else bounds.start.of(topic) or bounds.default_start
                wanted[topic] = (place or Place(EARLIEST), last)
        return await starts_of(self._view, wanted) if wanted else {}

    def _waits_for_more(self, found: list[Range]) -> bool:
        polling = self._options.polling
        if polling.min_messages is None or self._stop_at is not None:
            return False
        if time.monotonic() - self._planned_s >= polling.max_delay_s:
            return False
        return sum(map(messages_in, found)) < polling.min_messages


def _stop(last: Position, place: Place | None) -> tuple[Position, int]:
    """Return the end of a batch read in a partition, and the number of messages of that entry."""
    at = None if place is None else place.at
    if at is None or isinstance(at, int) or at.is_latest:
        return last, 0  # times are compared message by message
    if at.is_earliest:
        return NOTHING, 0
    if last < (at.ledger, at.entry):
        return last, 0
    return (at.ledger, at.entry), at.batch_index + 1
