"""A task of the sink, which encodes rows to entries and sends them to their topics."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

import magnetar
from magnetar.base.concurrency import gather_all
from magnetar.producing.batching import Packed
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.sink.arrow import signed
from pyspark_magnetar.sink.columns import DELIVER_AT, KEY, ORDERING_KEY, SinkSchema, messages_of
from pyspark_magnetar.sink.numbered import NumberedTopic
from pyspark_magnetar.sink.numbering import Numbering
from pyspark_magnetar.sink.packing import (
    cuts,
    data_of,
    offsets_of,
    ordering_key_of,
    outgoing,
    packed,
)
from pyspark_magnetar.sink.partition_sender import Entry
from pyspark_magnetar.sink.routes import Rows, by_partition, by_topic
from pyspark_magnetar.sink.topics import Sending, SharedTopic, Topic
from pyspark_magnetar.sink.values import form_of
from pyspark_magnetar.sink.write_options import Producing, WriteOptions, topic_to_write


class Task:
    """Accepts batches of rows; `finish` returns when the broker has stored all of them."""

    def __init__(
        self,
        options: WriteOptions,
        schema: SinkSchema,
        bridge: Bridge,
        turn: int,
        numbering: Numbering | None = None,
        txn: magnetar.Transaction | None = None,
    ) -> None:
        """`turn` is the first partition for rows without key; `numbering` makes writing idempotent.

        With `txn` they belong to this transaction, which begins with the first row.
        """
        self._options = options
        self._schema = schema
        self._bridge = bridge
        self._turn = turn
        self._numbering = numbering
        self._txn = txn
        self._form = form_of(list(schema.values), options.form)
        required = tuple(field.name for field in schema.values if not field.nullable)
        self._sending = Sending(options.producing, self._form.schema, required)
        self._topics: dict[str, Topic] = {}
        self.rows = 0
        """The number of rows added."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Encode and send rows; raises the error of rows that were added before."""
        if not rows.num_rows:
            return
        # A task without rows opens no transaction, which the driver would have to end.
        if self._txn is not None and not self.rows:
            self._bridge.run(self._txn.begin())
        messages = messages_of(rows, self._schema, self._form)
        for name, wanted in by_topic(messages, self._options.topic):
            self._add_to(self._topic(name), messages, wanted)
        self.rows += rows.num_rows  # promise: rows are numbered over all record batches

    def finish(self) -> dict[str, tuple[int, tuple[int, int] | None]]:
        """Wait until everything is stored; return each topic's number of messages and last id."""
        self._bridge.run(gather_all(topic.settle() for topic in self._topics.values()))
        for topic in self._topics.values():
            topic.leave()
        return {
            sender.producer.topic: (sender.messages, sender.last_id)
            for topic in self._topics.values()
            for sender in topic.senders.values()
        }

    def hand_over(self) -> tuple[int, int] | None:
        """Return the id of the task's transaction, for the driver to end; None without rows."""
        if self._txn is None or not self.rows:
            return None
        return self._bridge.run(self._txn.hand_over())

    def abandon(self) -> None:
        """Close what the failed task has opened, and abort its transaction."""
        self._bridge.run(self._close())

    async def _close(self) -> None:
        # The task has raised its error; errors of its producers add nothing.
        closing = [topic.close() for topic in self._topics.values()]
        if self._txn is not None:
            # promise: the transaction of a task that failed is closed
            closing.append(self._txn.close())
        await asyncio.gather(*closing, return_exceptions=True)

    def _topic(self, name: str) -> Topic:
        found = self._topics.get(name)
        if found is None:
            full = topic_to_write(name)
            found = self._topics[name] = (
                SharedTopic(self._bridge, full, self._sending, self._txn)
                if self._numbering is None
                else NumberedTopic(
                    self._bridge,
                    full,
                    self._sending,
                    self._numbering,
                    self._options.name_timeout_s,
                )
            )
        return found

    def _add_to(self, topic: Topic, messages: pa.RecordBatch, wanted: Rows) -> None:
        numbers: Sequence[int] = range(self.rows, self.rows + messages.num_rows)
        messages, numbers = _taken(messages, numbers, wanted)
        producing = self._options.producing
        for partition, chosen in by_partition(
            messages, topic.partitions, producing, numbers, self._turn
        ):
            sender = topic.sender(partition)
            part, rows = _taken(messages, numbers, chosen)
            if isinstance(topic, NumberedTopic):
                self._send_new(topic, partition, part, topic.numbering.ids_of(rows))
            else:
                self._bridge.run(sender.send(entries_of(part, producing)))

    def _send_new(
        self, topic: NumberedTopic, partition: int, messages: pa.RecordBatch, ids: Sequence[int]
    ) -> None:
        """Send the rows that the broker does not have: those above its highest sequence id."""
        sender = topic.sender(partition)
        # promise[bisect_right(ids, sender.last_sequence_id) -> 0]: an attempt leaves out what the
        #   one before has stored
        known = bisect_right(ids, sender.last_sequence_id)
        # The broker does not know the name: this is the first attempt, or deduplication is off.
        # The first message, sent alone, shows which.
        if known < len(ids) and sender.last_sequence_id < 0:
            topic.prove(partition, outgoing(messages, known, ids[known]), ids[known])
            known += 1
        entries = entries_of(messages.slice(known), self._options.producing, ids[known:])
        self._bridge.run(topic.sender(partition).send(entries))


def _taken(
    messages: pa.RecordBatch, numbers: Sequence[int], wanted: Rows
) -> tuple[pa.RecordBatch, Sequence[int]]:
    if wanted is None:
        return messages, numbers
    return messages.take(wanted), [numbers[row] for row in wanted.to_pylist()]


def entries_of(
    messages: pa.RecordBatch, producing: Producing, ids: Sequence[int] = ()
) -> Iterator[Entry]:
    """Yield the entries of these messages; `ids`, if given, are their sequence ids."""
    borders: list[int] = []
    if producing.is_by_key:
        messages, borders = _by_key(messages)
    if DELIVER_AT in messages.schema.names:
        borders = sorted({*borders, *_around_delayed(messages.column(DELIVER_AT))})
    # Without ids of their own, messages of a batch are numbered from the first one's.
    parts = packed(messages, pa.array(ids, pa.int64()) if isinstance(ids, list) else None)
    ends, data = offsets_of(parts), data_of(parts)
    keys, ordering_keys = _column(messages, KEY), _column(messages, ORDERING_KEY)
    for start, end in cuts(parts, borders, producing.batching):
        if end - start == 1:
            yield outgoing(messages, start, ids[start] if ids else None)
            continue
        yield Packed(
            end - start,
            bytes(data[ends[start] : ends[end]]),
            keys[start].as_py(),
            ordering_key_of(ordering_keys[start].as_py()),
            (ids[start], ids[end - 1]) if ids else (),
        )


def _column(messages: pa.RecordBatch, name: str) -> pa.Array:
    if name in messages.schema.names:
        return messages.column(name)
    return pa.nulls(messages.num_rows)


def _by_key(messages: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    """Sort messages by key; return them, and the rows where the key changes."""
    columns = [
        pc.dictionary_encode(_column(messages, name), null_encoding="encode").indices
        for name in (ORDERING_KEY, KEY)
    ]
    table = pa.RecordBatch.from_arrays(columns, ["ordering_key", "key"])
    keys = [("ordering_key", "ascending"), ("key", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)
    sorted_table = table.take(order)
    borders: set[int] = set()
    for column in sorted_table.columns:
        borders.update(pc.run_end_encode(column).run_ends.to_pylist())
    return messages.take(order), sorted(borders)


def _around_delayed(times: pa.Array) -> Iterator[int]:
    """Yield borders around delayed messages: the broker delays entries, not single messages."""
    for row in pc.indices_nonzero(pc.fill_null(times, signed(0))).to_pylist():
        yield row
        yield row + 1
