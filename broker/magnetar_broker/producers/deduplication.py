"""Deduplication of one topic: entries that a producer sends again are answered, not stored again.

An entry is a copy if its lowest sequence id was published before under its producer's name.  The
receipt of a copy waits until the original is durable; if storing that fails, neither gets one.
Only the last chunk of a message counts.
"""

import logging
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import groupby

from magnetar_broker.base.errors import NotReady
from magnetar_broker.producers.appender import PublishRun
from magnetar_broker.producers.deduplication_state import DeduplicationState
from magnetar_broker.producers.sequences import OFF, Sequences
from magnetar_proto.chunks import chunk_of, chunks_among
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadMetadata
from magnetar_proto.wire import to_signed64
from magnetar_storage.cursors.attached_state import DEDUPLICATION
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.log.log import Log
from magnetar_storage.runtime.execution import Timer, settling
from magnetar_storage.runtime.mutex import Mutex

logger = logging.getLogger(__name__)

READ_ENTRIES = 1000
READ_BYTES = 4 << 20


@dataclass(frozen=True)
class DeduplicationRules:
    """The number of names that are kept, their idle time, and the intervals of snapshots."""

    max_names: int = 10_000
    idle_ms: int = 360 * 60_000
    snapshot_entries: int = 1000
    snapshot_seconds: int = 120
    """The interval of snapshots by time; 0 disables them."""


class Deduplication:
    """The deduplication of a topic; while it is on (`set_enabled`), call `sort` for every run."""

    def __init__(
        self, log: Log, cursors: CursorLog, sequences: Sequences, rules: DeduplicationRules
    ) -> None:
        self.state = DeduplicationState()
        self._log = log
        self._cursors = cursors
        self._sequences = sequences
        self.rules = rules
        self.present: Container[str] = ()
        """Names that are kept however long they are idle: those of connected producers."""
        self._switching = Mutex(log.engine.clock)
        self._held: list[tuple[int, Callable[[bool], None]]] = []
        """Calls to make when the log is durable up to an offset: the answers to copies."""
        self._settled = 0
        """The offset before which entries are counted in the durable state."""
        self._timer: Timer | None = None
        self._over = False

    @property
    def on(self) -> bool:
        """Whether deduplication is on."""
        return self.state.on

    # Switching ----------------------------------------------------------------------------

    async def set_enabled(self, wanted: bool) -> None:
        """Switch deduplication on or off, as the policy says; durable on return."""
        # Most topics follow a policy that did not change: no task and no lock for these.
        if wanted == self._is_settled and not self._switching.is_held:
            return
        async with self._switching.held():
            if wanted and not self.on:
                await self._begin()
            elif not wanted and (self.on or self._sequences.covered != OFF):
                await self._stop()

    @property
    def _is_settled(self) -> bool | None:
        """Whether deduplication is on, if that is durable; None if it is not durable yet."""
        if self.on:
            return True
        return False if self._sequences.covered == OFF else None

    async def _begin(self) -> None:
        if self._sequences.covered == OFF:
            self._sequences.cover(self._log.end)
            self.state.on = self.state.watching = True
            await self._durable()
        else:
            self._settled = self._sequences.covered
            # promise[await self._catch_up() -> self._sequences.cover(self._log.end)]: entries
            #   after the kept state are counted again
            await self._catch_up()
            self.state.on = self.state.watching = True
            self.write()

    async def _stop(self) -> None:
        self.state.on = False
        self._sequences.stop()
        self._cancel_timer()
        self._release()
        await self._durable()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _catch_up(self) -> None:
        """Count the entries that were published after the state was last stored.

        Entries that cannot be read are not counted: a copy of one is stored as new.
        """
        offset, end = self._sequences.covered, self._log.end
        now_ms = self._log.engine.clock.now_ms()
        while offset < end:
            try:
                run = await self._log.entries.read(offset, READ_ENTRIES, READ_BYTES)
            except (Corrupt, NoSegment) as error:
                logger.error(
                    "deduplication of %s skips entries that cannot be read, so that copies of them "
                    "are stored again: %s",
                    self._log.key,
                    error,
                )
                offset = self._log.entries.behind_damage(offset, error)
                continue
            if not run.payloads:
                break
            offset = run.first + len(run.payloads)
            for at, payload in enumerate(run.payloads, run.first):
                published = _published(payload)
                if published is not None:
                    self._sequences.count(*published, at + 1, now_ms)
        self._sequences.cover(end)

    # Publishing ---------------------------------------------------------------------------

    def sort(self, run: PublishRun) -> Iterator[PublishRun]:
        """Yield the parts of a run that are new; append each before asking for the next one.

        Its copies are held back, and answered in order with the rest.
        """
        ids, chunks = run.sequence_ids, _unfinished(run)
        # By name, since the same producer has another id and connection after a reconnect.
        name = run.producer.name
        # The usual run: single messages whose ids count up. One comparison instead of one each.
        if not chunks and not any(run.highest_ids) and self._sequences.push(name, ids):
            run.top = ids[-1]
            yield run
            return
        verdicts = self._sequences.sort(name, ids, run.highest_ids, chunks)
        start = 0
        for is_copy, tops in groupby(verdicts, lambda top: top is None):
            stop = start + len(found := list(tops))
            # No new run if nothing is divided.
            part = run if stop - start == len(ids) else run.part(start, stop)
            start = stop
            if is_copy:
                # The original may still be on its way to the disk, and may fail.
                self._when_durable(part.answer_if)
            else:
                part.top = max(top for top in found if top is not None)
                yield part
        self._release()

    def on_durable(self, run: PublishRun) -> None:
        """Count a durable run; call it for every run while `watching`."""
        if self._held:
            self._release()
        if not self.on or self._over:
            return
        sequences, clock = self._sequences, self._log.engine.clock
        sequences.count(run.producer.name, run.top, self._log.end, clock.now_ms())
        # The state that is stored bounds how many entries a load has to read again.
        if sequences.unwritten >= self.rules.snapshot_entries:
            self.write()
        elif self._timer is None and self.rules.snapshot_seconds > 0:
            self._timer = clock.later(self.rules.snapshot_seconds, self._write_in_time)

    def marked(self) -> None:
        """Make the calls that waited for a marker; call it for every marker that is durable."""
        if self._held:
            self._release()

    async def last_sequence_id(self, name: str) -> int:
        """Return the highest durable sequence id of a name; -1 if there is none.

        `NotReady` if it cannot become durable.
        """
        if not self.on:
            return -1
        await self._settled_so_far()
        return self._sequences.highest(name)

    async def _settled_so_far(self) -> None:
        """Wait until all that was appended so far is durable; `NotReady` if the log failed."""
        promise = self._log.engine.clock.promise()
        settle = settling(promise)
        failure = NotReady(f"pending messages of {self._log.key} could not be stored; try again")
        self._when_durable(lambda is_well: settle(None if is_well else failure))
        self._release()
        await promise

    def _when_durable(self, call: Callable[[bool], None]) -> None:
        """Make the call once everything appended so far is durable (True), or failed (False)."""
        # promise[self._log.next_offset -> 0]: a copy is answered only when the first one is durable
        self._held.append((self._log.next_offset, call))

    def _release(self) -> None:
        """Make the calls that are due; all of them with False if the log failed."""
        # Two reasons to fail what waits: the topic is closed, or its log has failed.
        is_well, end = not self._over and self._log.failed is None, self._log.end
        while self._held and (self._held[0][0] <= end or not is_well):
            self._held.pop(0)[1](is_well)
        self.state.watching = self.state.on or bool(self._held)

    def close(self) -> None:
        """Stop when the topic is dropped or closed, and its clients are disconnected."""
        self._over = True
        self._cancel_timer()
        self._release()

    # Being durable ------------------------------------------------------------------------

    @property
    def unwritten(self) -> int:
        """The number of entries that would be read again if the topic were loaded now."""
        return self._sequences.unwritten

    async def released_to(self, offset: int) -> int:
        """Return the offset up to which entries below `offset` may be deleted.

        The counts of those entries are made durable first, because the entries cannot be read again
        after they are deleted.
        """
        if not self.on:
            return offset
        if self._settled < offset:
            # Before the wait: what is counted meanwhile is not in the state that is written.
            covered = self._sequences.covered
            await self._durable()
            self._settled = covered
        return min(offset, self._settled)

    def write(self) -> None:
        """Store the counted ids with the cursors; names that were idle too long are removed."""
        if self.on and self._sequences.unwritten:
            self._cancel_timer()
            since_ms = self._log.engine.clock.now_ms() - self.rules.idle_ms
            self._sequences.purge(since_ms, self.present.__contains__)
            self._cursors.state_changed(DEDUPLICATION)

    def _write_in_time(self) -> None:
        self._timer = None
        self.write()

    async def _durable(self) -> None:
        promise = self._log.engine.clock.promise()
        self._cursors.state_changed(DEDUPLICATION, settling(promise))
        await promise


def _unfinished(run: PublishRun) -> set[int]:
    """Return the indexes of chunks that are not the last of their message."""
    if not run.chunked:
        return set()
    return {at for at, chunk in chunks_among(run.payloads).items() if not chunk.is_last}


def _is_unfinished(entry: bytes) -> bool:
    """Return whether an entry is a chunk that is not the last of its message."""
    chunk = chunk_of(entry)
    return chunk is not None and not chunk.is_last


def _published(entry: bytes) -> tuple[str, int] | None:
    """Return the producer's name and highest sequence id of an entry; None if it does not count."""
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return None
    # The broker wrote a marker: its name and ids are of no producer.
    if metadata.HasField("marker_type") or _is_unfinished(entry):
        return None
    ids = (metadata.sequence_id, metadata.highest_sequence_id)
    return metadata.producer_name, max(map(to_signed64, ids))
