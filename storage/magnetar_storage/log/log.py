"""A log: the entries of one topic, over a versioned list of single-writer segments.

Taking a log over is: claim its record, settle the end of the last segment, and only then
create a new segment, list it, and append to it.

This module has no coroutine that handles exceptions, so that it can be compiled.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import LogClosed, StorageError, WriterFailed
from magnetar_storage.interfaces import ABSENT, Version
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log_reader import LogReader
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.log_state import LogState
from magnetar_storage.log.offloading import LogOffloading
from magnetar_storage.log.rewritable import Needed
from magnetar_storage.log.rewriting import COPY_BYTES, Rewriting
from magnetar_storage.log.rollover import Rollover
from magnetar_storage.log.stored_record import StoredRecord
from magnetar_storage.runtime.compiling import mypyc_attr
from magnetar_storage.runtime.mutex import Mutex


# A run is in no reference cycle once it was reported; tests have subclasses that are not compiled.
@mypyc_attr(acyclic=True, allow_interpreted_subclasses=True)
class LogRun:
    """A run of entries on its way into a log; the segment's writer calls it with the outcome.

    One object for the whole way: most runs of a broker with many topics have one entry.
    """

    __slots__ = ("added", "counts", "first_entry", "ledger", "log", "offset", "payloads", "size")

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.counts: list[int] = []
        """The number of messages in each entry."""
        self.size = 0
        """Bytes of the payloads."""
        self.added = 0
        """The bytes of these that `Log.before_append` added."""
        self.log: Log | None = None
        """The log to which the run was appended; None before."""
        self.offset = self.ledger = self.first_entry = -1
        """The offset, ledger and entry of the first entry, from the append on."""

    def on_durable(self, error: BaseException | None) -> None:
        """Handle the outcome; called once.  Without `error` the run is durable and can be read."""
        raise NotImplementedError

    def __call__(self, error: BaseException | None) -> None:
        """Take the outcome of the append: move the log's end, then report."""
        log = self.log
        assert log is not None
        if error is None:
            payloads, counts = self.payloads, self.counts
            n = len(payloads)
            # Before the report: a client with a receipt may read the run at once.
            end = log.end = self.offset + n
            # promise[without if end < log.visible_limit else log.visible_limit]: what is in open
            #   transactions is not visible
            log.visible_end = end if end < log.visible_limit else log.visible_limit
            # Most runs have one entry, for which a sum would take longer than the rest of this.
            log.messages_end += counts[0] if n == 1 else sum(counts)
            log.tail.append(self.offset, payloads, counts, self.size)
            # A run of the segment before may become durable after a rollover.
            if self.ledger == log.open_segment and log.writer is not None:
                log.open_bytes += self.size
                if log.open_entries >= log.roll_entries or log.open_bytes >= log.roll_bytes:
                    log.rollover.roll_if_due()
            else:
                # Durable only now, though its segment is not open any more: `Rollover` counts it
                # there.
                log.ending_bytes += self.size
        else:
            log.fail(error)
        self.on_durable(error)


class Log(LogState):
    """Append, delete what is not needed, open and close.

    `entries` reads, `rollover` begins segments, `stored_record` changes the record.  When appending
    ends for good `failed` is set, once: open the log again then.

    It is a `LogState` and does not have one: offsets, positions, `end` and `failed` are what its
    callers use most, for every run, and a forwarding property takes five times as long as an
    attribute.  Collaborators get a `LogState`, so that they cannot append, open or close.
    """

    def __init__(self, key: str, engine: Engine, record: LogRecord, version: Version) -> None:
        super().__init__(key, engine, record)
        self.stored_record = StoredRecord(self, version)
        self.entries = LogReader(self)
        self.rollover = Rollover(self, self.stored_record)
        self.compacting = Mutex(engine.clock)
        """Held while compacted data is being written; that ends soon when the log fails."""
        self._rewriting: Rewriting | None = None
        self._offloading: LogOffloading | None = None
        self.before_append: Callable[[LogRun], None] | None = None
        """Called for each run before it is appended, if messages are counted (`next_message`); it
        may add to the payloads."""

    # Opening and closing --------------------------------------------------------

    @classmethod
    async def open(cls, key: str, engine: Engine, create: bool) -> "Log | None":
        """Claim the log and settle its end; None if it does not exist and `create` is false."""
        found = await engine.metadata.get(key)
        if found is None:
            if not create:
                return None
            record = LogRecord(
                created_ms=engine.clock.now_ms(), has_broker_metadata=engine.adds_broker_metadata
            )
            version = await engine.metadata.put(key, record.encode(), ABSENT)
        else:
            record, version = LogRecord.decode(key, found.value), found.version
        log = Log(key, engine, record, version)
        await log._take_over()
        await log.stored_record.discard_undeleted()
        if engine.adds_broker_metadata and not log.record.has_broker_metadata:
            # promise: a log's record says that there is broker metadata before there is any
            await log.stored_record.commit(lambda record: replace(record, has_broker_metadata=True))
        if log.record.has_broker_metadata:
            log.next_message = log.messages_end
        return log

    async def _take_over(self) -> None:
        """Settle what an earlier owner left open; that owner can append nothing more then."""
        unsettled = [s for s in self.record.segments if s.entries is None]
        if unsettled:
            # First of all: a living owner's next change of the record must fail.
            await self.stored_record.commit(lambda record: replace(record, epoch=record.epoch + 1))
            for segment in unsettled:
                end = await self.engine.store.recover(segment.id)
                settled = segment.settled(end, self.engine.clock.now_ms())
                await self.stored_record.commit(partial(LogRecord.with_segment, changed=settled))
        await self._drop_empty()
        self.index()
        record = self.record
        self.end = record.first_offset + sum(s.entries or 0 for s in record.segments)
        self.next_offset = self.visible_end = self.end
        self.messages_end = record.first_messages + sum(s.messages for s in record.segments)
        # Before anything is read: cursors count holes as acknowledged.
        await self.entries.find_holes()
        # Deletions that a crash interrupted.
        await self.stored_record.empty_trash()

    async def _drop_empty(self) -> None:
        # A segment that was begun, and got no entry before its owner ended, has no offset at all.
        empty = tuple(s.id for s in self.record.segments if s.entries == 0)
        if empty:
            kept = tuple(s for s in self.record.segments if s.entries != 0)
            await self.stored_record.commit(
                lambda record: replace(record, segments=kept, trash=record.trash + empty)
            )

    async def close(self) -> None:
        """Seal the open segment; the log must not be used afterwards."""
        await self._end_work(LogClosed(f"{self.key} was closed"))
        writer = self.end_segment()
        await self.rollover.discard_unlisted()
        if writer is not None:
            await self.rollover.settle(writer)
        self.entries.close()

    async def delete(self) -> None:
        """Delete every segment and every copy, then the record.

        Copies whose place cannot be reached are deleted later (`left_objects.py`).
        """
        await self._end_work(LogClosed(f"{self.key} was deleted"))
        self.engine.damage.forget_segments([segment.id for segment in self.record.segments])
        await self.rollover.discard_unlisted()
        # Not sealed: its entries go, and the store fails its appends when it deletes the segment.
        self.writer = None
        # A change of cursors or delays that is still running may list a segment meanwhile.
        while not await self.stored_record.remove():
            await self.stored_record.commit(LogRecord.emptied)
            # `_end_work` has waited for those that write to trash.
            await self.stored_record.purge()
            await self.offloading.purge()
        await self.stored_record.discard_undeleted()
        self.index()

    async def _end_work(self, reason: StorageError) -> None:
        """Prevent further work from beginning, and wait for what is running; it ends soon."""
        # Set first, since running work checks it.  Not by `fail`: its listener is for failures, and
        # the caller ends this log itself.
        self.failed = self.failed or reason
        if self._rewriting is not None:
            await self._rewriting.ended()
        if self._offloading is not None:
            await self._offloading.ended()
        await self.compacting.idle()
        await self.rollover.idle()

    @classmethod
    async def remove(cls, key: str, engine: Engine) -> None:
        """Delete a log that is not open, whatever its state; a missing log is not an error."""
        found = await engine.metadata.get(key)
        if found is not None:
            log = Log(key, engine, LogRecord.decode(key, found.value), found.version)
            await log.delete()

    # Appending ------------------------------------------------------------------

    def append(self, run: LogRun) -> None:
        """Queue a run, whose entries must not change any more, and set its position.

        Its `on_durable` is called in the order of the appends, after `end` has moved and the run
        can be read.  Await `rollover.start_writing` once before.
        """
        writer = self.writer
        if self.failed is not None:
            raise self.failed.again()
        if writer is None:
            raise WriterFailed(f"{self.key} is not open for writing: call start_writing first")
        if self.next_message >= 0:
            if self.before_append is not None:
                self.before_append(run)
            self.next_message += sum(run.counts)
        payloads = run.payloads
        n = len(payloads)
        run.log = self
        run.offset = self.next_offset
        run.ledger = self.open_segment
        # The run itself is the callback: a bound method would be one object more for each run.
        run.first_entry = writer.append(payloads, run.counts, run)
        # After the append: a run that the writer rejects must not leave offsets without entries.
        self.next_offset += n
        self.open_entries += n
        # Acknowledgements for which no client waits join the round of these entries, so that they
        # cost no sync of their own: `CursorLog._gathered` sets this, and its flush unsets it.
        if self.with_next_append is not None:
            self.with_next_append()

    # Deleting -------------------------------------------------------------------

    async def trim(self, before: int) -> int:
        """Delete settled segments that end at or below offset `before`; returns their number."""
        doomed: list[Segment] = []
        first = self.first_offset
        for segment in self.record.segments:
            # Only from the front: all offsets are derived from that of the first segment kept.
            if segment.entries is None or first + segment.entries > before:
                break
            first += segment.entries
            doomed.append(segment)
        if not doomed:
            return 0
        ids = frozenset(segment.id for segment in doomed)
        await self.stored_record.commit(lambda record: record.without(ids))
        self.index()
        self.entries.moved(doomed)
        self.holes.remove_below(self.first_offset)
        self.hidden.remove_below(self.first_offset)
        self.reclaimed()
        await self.stored_record.empty_trash()
        return len(doomed)

    @property
    def offloading(self) -> LogOffloading:
        """The part that moves segments to a store of objects; few logs need it."""
        if self._offloading is None:
            self._offloading = LogOffloading(self, self.stored_record, self.entries)
        return self._offloading

    async def reclaim(self, needed: Needed, before: int, max_bytes: int = COPY_BYTES) -> int:
        """Delete entries that are not needed from segments that end at or below `before`.

        Copies about `max_bytes` at most.  Returns how many bytes of payloads were deleted.
        """
        if self._rewriting is None:
            self._rewriting = Rewriting(self, self.stored_record, self.entries)
        return await self._rewriting.run(needed, before, max_bytes)
