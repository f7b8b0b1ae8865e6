"""The assignment of rows to topics and partitions."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from magnetar.producing.routing import SINGLE, partition_of
from pyspark_magnetar.sink.arrow import by_distinct, signed
from pyspark_magnetar.sink.columns import KEY, PARTITION, TOPIC
from pyspark_magnetar.sink.write_options import Producing

TURN_ROWS = 1000
"""The number of consecutive rows without key that go to the same partition."""

Rows: TypeAlias = pa.Array | None
"""The indexes of rows; None: all rows."""


def by_topic(messages: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of each topic: `topic` for all rows, or else that of their column."""
    if topic is not None:
        yield topic, None
        return
    column = messages.column(TOPIC)
    if column.null_count:
        raise ValueError(
            f"{column.null_count} rows have no {TOPIC}: fill it in, or set the option 'topic'"
        )
    found = pc.dictionary_encode(column)
    yield from zip(found.dictionary.to_pylist(), groups(found.indices), strict=True)


def by_partition(
    messages: pa.RecordBatch, count: int, producing: Producing, numbers: Sequence[int], turn: int
) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each partition: chosen by the row, or by its key, or in turn.

    Rows with the same `numbers` go to the same partitions if `turn` and the options are the
    same.
    """
    if count == 1:
        yield 0, None
        return
    choices = []
    if PARTITION in messages.schema.names:
        choices.append(_chosen(messages.column(PARTITION), count))
    if KEY in messages.schema.names:
        hashing = producing.hashing
        keys = messages.column(KEY)
        choices.append(by_distinct(keys, lambda key: _of_key(key, count, hashing), pa.int32()))
    turns = pa.scalar(turn % count, pa.int32())
    if producing.routing != SINGLE:
        turns = pa.array([(turn + number // TURN_ROWS) % count for number in numbers], pa.int32())
    elif not choices:
        yield turn % count, None
        return
    found = pc.dictionary_encode(pc.coalesce(*choices, turns))
    yield from zip(found.dictionary.to_pylist(), groups(found.indices), strict=True)


def _of_key(key: str | bytes | None, count: int, hashing: str) -> int | None:
    return None if key is None else partition_of(key, count, hashing)


def _chosen(column: pa.Array, count: int) -> pa.Array:
    chosen = pc.if_else(pc.less(column, signed(0)), pa.scalar(None, pa.int32()), column)
    highest = pc.max(chosen).as_py()
    if highest is not None and highest >= count:
        raise ValueError(
            f"column {PARTITION!r} is {highest}: expected at most {count - 1}, or null"
        )
    return chosen


def groups(numbers: pa.Array) -> Iterator[Rows]:
    """Yield the rows of each number, from 0 on."""
    highest = pc.max(numbers).as_py()
    if highest == 0:
        yield None
        return
    for number in range((highest or 0) + 1):
        yield pc.indices_nonzero(pc.equal(numbers, number))
