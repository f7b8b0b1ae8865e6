"""The streaming reader and the batch reader."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_magnetar.bridge import bridge_to
from pyspark_magnetar.source.acknowledging import Acknowledger
from pyspark_magnetar.source.offsets import Offset, Range, ranges
from pyspark_magnetar.source.planner import Planner
from pyspark_magnetar.source.pushed_filters import PushedFilters
from pyspark_magnetar.source.range_division import Limits, split
from pyspark_magnetar.source.read_options import ReadOptions
from pyspark_magnetar.source.tasks import read_split

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class Split(InputPartition):
    """The work of one task: a range of entries."""

    def __init__(self, wanted: Range) -> None:
        self.wanted = wanted


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver's Python process; `read` runs in those of the executors."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._made: tuple[Planner, Acknowledger | None] | None = None

    def __reduce__(self) -> tuple[type["StreamReader"], tuple[ReadOptions]]:
        # It is sent to the tasks without its connections.
        return StreamReader, (self._options,)

    def initialOffset(self) -> dict[str, Any]:
        # A constant: Spark asks several times, and does not store the answer.
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self._options.limits
        if limits.messages is not None:
            return ReadMaxRows(limits.messages)
        return ReadAllAvailable() if limits.bytes is None else ReadMaxBytes(limits.bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.stop_at_what_there_is()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        current = Offset.from_json(start)
        found = self._planner.next_offset(current, self._limits(limit))
        # Spark commits a batch only when a later one has data; but this one is finished.
        self._ack(current, found)
        return start if found is current else found.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planner.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        found = ranges(Offset.from_json(start), Offset.from_json(end))
        return [Split(wanted) for wanted in split(found, self._options.sizes)]

    def commit(self, end: dict[str, Any]) -> None:
        finished = Offset.from_json(end)
        self._ack(finished, finished)

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        assert isinstance(partition, Split)  # Spark passes what `partitions` returned
        return read_split(self._options, partition.wanted)

    def _limits(self, limit: ReadLimit) -> Limits:
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        if isinstance(limit, ReadMaxRows):
            return replace(self._options.limits, messages=limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            return replace(self._options.limits, bytes=limit.max_bytes)
        return self._options.limits

    def _ack(self, finished: Offset, latest: Offset) -> None:
        acknowledger = self._parts[1]
        if acknowledger is not None:
            # A partition is protected from its start on.
            began = {topic: start.position for topic, start in latest.began_at.items()}
            acknowledger.ack({**began, **finished.positions})

    @property
    def _planner(self) -> Planner:
        return self._parts[0]

    @property
    def _parts(self) -> tuple[Planner, Acknowledger | None]:
        if self._made is None:
            bridge = bridge_to(self._options.connecting)
            subscription = self._options.subscription
            self._made = (
                Planner(self._options, bridge),
                None if subscription is None else Acknowledger(bridge, subscription),
            )
        return self._made


class BatchReader(DataSourceReader):
    """Reads once, from the start to the end as of the planning of the query."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Split]:
        planner = Planner(self._options, bridge_to(self._options.connecting))
        found = planner.whole()
        return [Split(wanted) for wanted in split(found, self._options.sizes)]

    def read(self, partition: InputPartition | None) -> Iterator["RecordBatch"]:
        # In place of an empty list of partitions Spark passes None, or from 4.3 on a partition
        # whose value is None.
        if partition is None or (type(partition) is InputPartition and partition.value is None):
            return iter(())
        assert isinstance(partition, Split)  # Spark passes what `partitions` returned
        return read_split(self._options, partition.wanted)


class FilteringBatchReader(BatchReader):
    """Skips tasks in whose range no row can pass the query's filters.

    It is a separate class because Spark refuses queries of readers with `pushFilters` unless
    spark.sql.python.filterPushdown.enabled is set.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._pushed = PushedFilters()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pushed = PushedFilters.of(filters)
        return filters

    def partitions(self) -> Sequence[Split]:
        return [one for one in super().partitions() if self._pushed.keeps(one.wanted)]
