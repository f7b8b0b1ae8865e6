"""What of a log could be thinned: who needs which entries, and what is stored together."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from magnetar_storage.cursor import Cursor
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log_record import LogRecord, Segment
from magnetar_storage.offsets import OffsetSet

SMALL_BYTES = 256 << 10
"""A keeper of less is replaced together with a neighbour, so that there are not too many."""
GROUP_BYTES = 1 << 20
"""What one keeper is to hold of several neighbours."""

Needed = Callable[[int, int, int], OffsetSet | None]
"""Of start..stop-1, what somebody needs at present; None if that is more than a limit."""


def needed_by(cursors: Iterable[Cursor]) -> Needed:
    """What is not acknowledged by all of these cursors; give it a view, not a copy."""

    def needed(start: int, stop: int, limit: int) -> OffsetSet | None:
        found = OffsetSet()
        for cursor in cursors:
            first = max(start, cursor.mark_delete + 1)
            if first < stop:
                if stop - first - cursor.acked.count(first, stop) > limit:
                    return None
                for run in cursor.acked.missing(first, stop):
                    found.add(*run)
        return found if found.covered() <= limit else None

    return needed


@dataclass
class Unit:
    """Neighbours in the segment list whose entries are in one segment of the store, if any."""

    segments: list[Segment]
    start: int
    stop: int

    @property
    def held(self) -> int:
        """How many entries are stored."""
        return sum(segment.held for segment in self.segments)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def stored_in(self) -> SegmentId | None:
        return self.segments[0].stored_in

    @property
    def is_small(self) -> bool:
        """Whether it is a keeper that a neighbour may be put to."""
        return not self.segments[0].is_whole and self.size <= SMALL_BYTES

    def takes(self, segment: Segment) -> bool:
        """Whether a segment behind this one belongs to it."""
        return segment.kept == 0 or (not segment.is_whole and segment.kept_in == self.stored_in)


def units(record: LogRecord, before: int) -> Iterator[Unit]:
    """What can be thinned on its own: settled, and ending at or below `before`."""
    unit: Unit | None = None
    start = record.first_offset
    for segment in record.segments:
        if segment.entries is None or start + segment.entries > before:
            break
        stop = start + segment.entries
        if unit is not None and unit.takes(segment):
            unit.segments.append(segment)
            unit.stop = stop
        else:
            if unit is not None:
                yield unit
            unit = Unit([segment], start, stop)
        start = stop
    if unit is not None:
        yield unit


class Group:
    """Neighbouring units that one keeper is to replace, and what is needed of them; not empty."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.live = OffsetSet()
        """What is needed of all of them, once that is asked for."""
        self.bytes = 0
        """Of what is needed, as estimated."""
        self.copied_to = 0
        """The offset at which copying has arrived."""
        self.worth_it = False

    def add(self, unit: Unit, size: int, worth_it: bool) -> None:
        self.units.append(unit)
        self.bytes += size
        self.worth_it = self.worth_it or worth_it

    @property
    def start(self) -> int:
        return self.units[0].start

    @property
    def stop(self) -> int:
        return self.units[-1].stop

    @property
    def segments(self) -> list[Segment]:
        return [segment for unit in self.units for segment in unit.segments]

    @property
    def copied_from(self) -> SegmentId | None:
        """What is being copied at present."""
        return next(unit.stored_in for unit in self.units if self.copied_to < unit.stop)

    def has_room(self, size: int) -> bool:
        return not self.units or self.bytes + size <= GROUP_BYTES
