"""A task of the source: reads its range, and converts it to record batches."""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import magnetar
from pyspark_magnetar.bridge import Bridge, bridge_to
from pyspark_magnetar.options.places import Places
from pyspark_magnetar.rows.batches import MakeValues, record_batches
from pyspark_magnetar.rows.decoding import Decoded, decode
from pyspark_magnetar.rows.value_columns import ValueColumns
from pyspark_magnetar.source.keys import key_reader
from pyspark_magnetar.source.offsets import Position, Range
from pyspark_magnetar.source.range_reader import RangeReading, read_range
from pyspark_magnetar.source.read_options import ReadOptions
from pyspark_magnetar.source.topic_schema import version_finder
from pyspark_magnetar.source.view import View

if TYPE_CHECKING:
    from pyarrow import RecordBatch

logger = logging.getLogger(__name__)

Decoder = Callable[[magnetar.Entry], Decoded | None]


def read_split(options: ReadOptions, wanted: Range) -> Iterator["RecordBatch"]:
    """Yield the messages of a range, in the executor."""
    how = RangeReading(
        options.queue_size,
        options.skips_unreadable,
        options.fails_on_loss,
        key_reader(options.keys),
    )
    bridge = bridge_to(options.connecting)
    entries = read_range(bridge, View(bridge.client, options.reads_compacted), wanted, how)
    decoder = _decoder(options, wanted)
    if options.skips_unreadable:
        decoder = _skipping(decoder)
    return record_batches(entries, options.columns, decoder, _make_values(options, bridge))


def _make_values(options: ReadOptions, bridge: Bridge) -> MakeValues | None:
    schema = options.value_schema
    if schema is None:
        return None
    find = version_finder(bridge)
    return lambda: ValueColumns(schema, options.values.on_corrupt, find)


def _skipping(decoder: Decoder) -> Decoder:
    """Return a decoder that skips entries which cannot be decoded."""

    def decode_or_skip(entry: magnetar.Entry) -> Decoded | None:
        try:
            return decoder(entry)
        except magnetar.Unreadable as error:
            logger.warning("left out: %s", error)
            return None

    return decode_or_skip


def _decoder(options: ReadOptions, wanted: Range) -> Decoder:
    """Return the function that decodes the wanted messages of an entry, usually all."""
    since = _time(options.bounds.since, wanted.topic, 0)
    until = _time(options.bounds.until, wanted.topic, 2**64)
    partly: dict[Position, tuple[int, int]] = {}
    if wanted.kept:
        partly[wanted.end] = (0, wanted.kept)
    if wanted.skipped:
        first = wanted.start[0], wanted.start[1] + 1
        partly[first] = (wanted.skipped, partly.get(first, (0, 0))[1])
    if not partly and since == 0 and until == 2**64:
        return decode

    def chosen(entry: magnetar.Entry) -> Decoded | None:
        if not since <= entry.stored_time_ms < until:
            return None
        return decode(entry, *partly.get(entry.position, ()))

    return chosen


def _time(places: Places | None, topic: str, default: int) -> int:
    place = None if places is None else places.of(topic)
    return place.at if place is not None and isinstance(place.at, int) else default
