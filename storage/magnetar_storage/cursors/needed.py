"""The entries of a log that its cursors still need."""

from collections.abc import Iterable

from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.rewritable import Needed


def needed_by(cursors: Iterable[Cursor]) -> Needed:
    """Return a function for the entries that at least one of the cursors has not acknowledged.

    It iterates over `cursors` at each call, so a view of a dict follows its changes.
    """

    def needed(start: int, stop: int, limit: int) -> OffsetSet | None:
        found = OffsetSet()
        for cursor in cursors:
            first = max(start, cursor.mark_delete + 1)
            if first < stop:
                # Counted first: gathering entries beyond the limit would cost much more.
                if stop - first - cursor.acked.count(first, stop) > limit:
                    return None
                for run in cursor.acked.missing(first, stop):
                    found.add(*run)
        return found if found.covered() <= limit else None

    return needed
