"""The streaming reader and the batch reader."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from pyspark_magnetar.bridge import bridge_to
from pyspark_magnetar.entries import read_range
from pyspark_magnetar.offsets import Offset, Position, Range, ranges
from pyspark_magnetar.read_options import ReadOptions
from pyspark_magnetar.rows import record_batches
from pyspark_magnetar.tail import Tail, require_kept

if TYPE_CHECKING:
    from pyarrow import RecordBatch

POLL_S = 0.2
LONGEST_POLL_S = 1.0
"""Spark asks for the latest offset without pause: an answer of "nothing new" takes this long."""


class Split(InputPartition):
    """One task's part: a range of entries."""

    def __init__(self, wanted: Range) -> None:
        self.wanted = wanted


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's Python process; `read` runs in the executors'."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._tail: Tail | None = None
        self._last: dict[str, Position] = {}
        self._stop_at: dict[str, Position] | None = None

    def __reduce__(self) -> tuple[type["StreamReader"], tuple[ReadOptions]]:
        # To the tasks it travels without its connections.
        return StreamReader, (self._options,)

    def initialOffset(self) -> dict[str, Any]:
        # A constant: Spark asks several times and stores none of the answers.
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._stop_at = self._ask_last()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        current = Offset.from_json(start)
        give_up_s = time.monotonic() + LONGEST_POLL_S
        while True:
            last = self._ask_last() if self._stop_at is None else self._stop_at
            latest = self._advance(current, last)
            if latest is not current:
                return latest.to_json()
            if self._stop_at is not None or time.monotonic() >= give_up_s:
                return start
            time.sleep(POLL_S)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return Offset(self._last).to_json() if self._last else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Split(wanted) for wanted in ranges(Offset.from_json(start), Offset.from_json(end))]

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        return read_split(self._options, partition)

    def _ask_last(self) -> dict[str, Position]:
        bridge = bridge_to(self._options.connecting)
        if self._tail is None:
            self._tail = Tail(bridge.client, self._options.topic)
        self._last = bridge.run(self._tail.last_positions())
        return self._last

    def _advance(self, current: Offset, last: dict[str, Position]) -> Offset:
        for topic, position in current.positions.items():
            require_kept(topic, position, last.get(topic, (-1, -1)))
        new = {topic: end for topic, end in last.items() if topic not in current.positions}
        if not new:
            return current.advanced(last, {})
        # Partitions that appear in a running query were empty when it began: none is skipped.
        if self._options.start == "latest" and not current.positions:
            return current.advanced(last, new)
        assert self._tail is not None  # created by `_ask_last`, which returned `last`
        bridge = bridge_to(self._options.connecting)
        return current.advanced(last, bridge.run(self._tail.first_positions(new)))


class BatchReader(DataSourceReader):
    """Reads once, from the start to what was the end when the query was planned."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.start == "latest":
            return []
        bridge = bridge_to(self._options.connecting)
        tail = Tail(bridge.client, self._options.topic)
        last = bridge.run(tail.last_positions())
        first = bridge.run(tail.first_positions(last))
        return [Split(wanted) for wanted in ranges(Offset(), Offset(last, first))]

    def read(self, partition: InputPartition | None) -> Iterator["RecordBatch"]:
        # None stands for an empty list of partitions.
        return iter(()) if partition is None else read_split(self._options, partition)


def read_split(options: ReadOptions, split: InputPartition) -> Iterator["RecordBatch"]:
    """The messages of one split, in the executor that was given it."""
    assert isinstance(split, Split)  # Spark passes what `partitions` returned
    return record_batches(read_range(bridge_to(options.connecting), split.wanted))
