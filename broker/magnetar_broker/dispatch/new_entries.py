"""The entries that a dispatcher delivers for the first time, in the order of the log."""

from collections.abc import Callable

from magnetar_broker.dispatch.base import Delays
from magnetar_broker.dispatch.damage_notices import DamageNotices
from magnetar_broker.dispatch.offset_queue import OffsetQueue
from magnetar_broker.dispatch.sequential_source import SequentialSource
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import next_in_neither


class NewEntries:
    """The place that a dispatcher has reached in the log, and the entries from there on.

    They come from the cache of recent entries, or from `source`, which calls `ready` when it has
    read them.
    """

    def __init__(
        self, log: Log, cursor: Cursor, delays: Delays | None, ready: Callable[[], None]
    ) -> None:
        """`delays` is None for a dispatcher that delivers delayed entries in order, too."""
        self.read_offset = cursor.next_unacked(0)
        self.source = SequentialSource(log, ready)
        self.cursor = cursor
        """The cursor, or the view of it that delivery follows (`DeliveryCursor`)."""
        self._log = log
        self._delays = delays
        self._cached = log.engine.cached_runs
        self._catches_up = False  # whether `source` may hold entries

    def next(self) -> int:
        """Return the next entry to be delivered for the first time; not before the end if none."""
        # Single acknowledgements and skips may have left gaps ahead: never send those entries.
        offset = self.cursor.next_unacked(max(self.read_offset, self._log.first_offset))
        if self._delays is not None:
            waiting = self._delays.waiting
            if waiting and offset in waiting:
                return next_in_neither(self.cursor.acked, waiting, offset)
        return offset

    def take(self, offset: int, max_entries: int, max_bytes: int) -> Run | None:
        """Return entries from `offset` on, all of one segment; None if none are available yet.

        They stay new until the caller moves `read_offset` after those that it has sent.
        """
        log, source = self._log, self.source
        # promise[min(log.segment_end(offset), log.visible_end) -> log.segment_end(offset)]: a
        #   subscription does not read after an open transaction
        end = min(log.segment_end(offset), log.visible_end)
        if offset >= end:
            self._caught_up()
            return None
        if source.failure is not None and source.stops_at(offset):
            return None
        max_entries = min(max_entries, end - offset)
        run = log.tail.get(offset, max_entries, max_bytes)
        if run is None:
            self._catches_up = True
            return source.take(offset, max_entries)
        # promise: entries delivered from the cache count as read
        log.entries.from_cache += len(run.payloads)
        # promise: runs delivered from the cache are counted
        self._cached.add(len(run.payloads))
        if self._catches_up:
            self._caught_up()
        return run

    def _caught_up(self) -> None:
        # Entries read ahead would only keep memory from subscriptions that still lag.
        self._catches_up = False
        self.source.clear()

    def pass_over_damage(self, waiting: OffsetQueue, notices: DamageNotices) -> int:
        """Set aside new entries that cannot be read, to read on after them; return their number."""
        lost = notices.give_up(self.source)
        # Damage acknowledges nothing: what cannot be read stays in the backlog and is tried again
        # when a consumer joins.  Until then the entries after it are delivered.
        for start, stop in self.cursor.acked.missing(lost.start, lost.stop):
            waiting.add_all(range(start, stop))
        waiting.set_aside(lost)
        self.read_offset = max(self.read_offset, lost.stop)
        return len(lost)

    def rewind(self) -> None:
        """Start again from the cursor, which was moved."""
        self.source.retry()
        self.read_offset = self.cursor.next_unacked(self._log.first_offset)
