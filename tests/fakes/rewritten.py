"""A log of short segments that is rewritten, and the entries that must remain."""

from typing import Any

from fakes.logs import LogWorld, numbered
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.cursors.needed import needed_by
from magnetar_storage.log.log import Log
from magnetar_storage.log.roll_limits import RollLimits

BY_TEN = RollLimits(max_entries=10, min_age_ms=0)
EVER = 1 << 40


class RewrittenLog(LogWorld):
    """A log with one cursor, and the entries that were appended."""

    def __init__(self, entries: int = 0, cache_bytes: int = 0) -> None:
        super().__init__(BY_TEN, cache_bytes)
        self.cursors = {"one": Cursor(-1)}
        self.log = self.opened()
        for payload in numbered(0, entries):
            self.append(self.log, payload)

    def opened(self) -> Log:
        log = self.open()
        log.on_reclaimed = self.skip_holes
        self.log = log
        self.skip_holes()
        return log

    def skip_holes(self) -> None:
        for cursor in self.cursors.values():
            cursor.skip_reclaimed(self.log.first_offset, self.log.holes)

    def reclaim(self, before: int = EVER, max_bytes: int = EVER) -> int:
        return self.do(self.log.reclaim(needed_by(self.cursors.values()), before, max_bytes))

    def begin_reclaim(self) -> Any:
        return self.begin(self.log.reclaim(needed_by(self.cursors.values()), EVER))

    def ack_all_but(self, *needed: int) -> None:
        offsets = set(range(self.log.end)) - set(needed)
        self.cursors["one"].ack(sorted(offsets))

    def there(self) -> dict[int, bytes]:
        """Return everything that can be read, by offset."""
        found: dict[int, bytes] = {}
        offset = 0
        while (run := self.do(self.log.entries.read(offset, 7, 100))).payloads:
            assert run.first >= offset
            found.update(enumerate(run.payloads, run.first))
            offset = run.first + len(run.payloads)
        assert offset <= self.log.end
        return found

    @property
    def needed(self) -> dict[int, bytes]:
        """The entries that must exist, by offset."""
        return {
            offset: b"%d" % offset
            for offset in range(self.log.end)
            if not all(cursor.is_acked(offset) for cursor in self.cursors.values())
        }

    def stored(self) -> set[int]:
        """Return the record's segments of the store, which must be all that exist."""
        assert self.store.ids() == self.log.record.listed
        assert not self.log.record.trash
        return self.log.record.stored
