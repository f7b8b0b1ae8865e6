"""A sorted queue of entries that wait: for another delivery, for their time, or for a consumer."""

from collections.abc import Iterable, Iterator

from magnetar_broker.dispatch.base import runs_of
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.log.offset_set import OffsetSet


class OffsetQueue:
    """A sorted set of offsets, of which some may be set aside as unreadable."""

    def __init__(self) -> None:
        # Sets of ranges: a consumer that leaves may return a backlog of many thousand entries, of
        # which most are consecutive.
        self._members = OffsetSet()
        self._aside = OffsetSet()

    def __bool__(self) -> bool:
        return bool(self._members) or bool(self._aside)

    def __len__(self) -> int:
        return self._members.covered() + self._aside.covered()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the queued stretches that were not set aside, as (start, stop), in order."""
        return iter(self._members)

    def __contains__(self, offset: int) -> bool:
        return offset in self._members or offset in self._aside

    @property
    def ready(self) -> bool:
        """Whether the queue has entries that are not set aside."""
        return bool(self._members)

    def add(self, offset: int) -> None:
        """Queue an entry; repeats are harmless."""
        # What is set aside stays so until `restore`: reading it again would only fail again.
        if offset not in self._aside:
            self._members.add(offset, offset + 1)

    def add_all(self, offsets: Iterable[int]) -> None:
        """Queue entries in any order; fastest if they are consecutive."""
        if self._aside:
            offsets = [offset for offset in offsets if offset not in self._aside]
        for run in runs_of(offsets):
            self._members.add(run.start, run.stop)

    def discard(self, offset: int) -> None:
        """Remove an entry, for instance because it was acknowledged."""
        self.discard_all(range(offset, offset + 1))

    def discard_all(self, offsets: range) -> None:
        """Remove consecutive entries."""
        self._members.remove(offsets.start, offsets.stop)
        if self._aside:
            self._aside.remove(offsets.start, offsets.stop)

    def discard_acked(self, cursor: Cursor) -> None:
        """Remove acknowledged entries."""
        discard_acked(self._members, cursor)
        discard_acked(self._aside, cursor)

    def set_aside(self, offsets: range) -> None:
        """Skip these entries until `restore`: they cannot be read."""
        # A list, since the set changes while its parts are walked through.
        for start, stop in list(self._members.present(offsets.start, offsets.stop)):
            self._members.remove(start, stop)
            self._aside.add(start, stop)

    def restore(self) -> None:
        """Queue the entries again that were set aside."""
        for start, stop in self._aside:
            self._members.add(start, stop)
        self._aside.clear()

    def first_run(self, limit: int) -> tuple[int, int] | None:
        """Return the lowest consecutive entries as (offset, length <= limit); they stay queued."""
        first = self._members.next_present(0)
        if first is None:
            return None
        return first, min(self._members.next_missing(first) - first, limit)

    def move_to(self, other: "OffsetQueue") -> None:
        """Move everything to another queue."""
        # The other queue finds out by itself what cannot be read, and sets it aside.
        self.restore()
        for start, stop in self._members:
            other.add_all(range(start, stop))
        self._members.clear()

    def clear(self) -> None:
        """Remove everything."""
        self._members.clear()
        self._aside.clear()


def discard_acked(offsets: OffsetSet, cursor: Cursor) -> None:
    """Remove from a set of offsets those that a cursor has acknowledged."""
    # The bulk goes in one step; above the mark-delete only ranges that overlap are looked at.
    offsets.remove_below(cursor.mark_delete + 1)
    for start, stop in list(offsets) if cursor.acked else ():
        for run in list(cursor.acked.present(start, stop)):
            offsets.remove(*run)
