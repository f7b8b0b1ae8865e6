"""The segments of a log that could be rewritten, grouped as they are stored together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.offset_set import OffsetSet

SMALL_BYTES = 256 << 10
"""A smaller sparse segment is replaced together with a neighbour, to keep their number low."""
GROUP_BYTES = 1 << 20
"""The approximate bytes of several neighbours that one sparse segment holds."""

Needed = Callable[[int, int, int], OffsetSet | None]
"""(start, stop, limit): returns those of start..stop-1 that are needed at present; None if they are
more than `limit`."""


@dataclass
class Unit:
    """Neighbours in the segment list whose entries are in one segment of the store, if any."""

    segments: list[Segment]
    start: int
    stop: int

    @property
    def held(self) -> int:
        """The number of entries stored."""
        return sum(segment.held for segment in self.segments)

    @property
    def size(self) -> int:
        """The bytes of the payloads that are stored."""
        return sum(segment.size for segment in self.segments)

    @property
    def stored_in(self) -> SegmentId | None:
        """The segment of the store that holds the entries; None if no entry remains."""
        return self.segments[0].stored_in

    @property
    def is_small(self) -> bool:
        """Whether this is a sparse segment that is to be joined with a neighbour."""
        return not self.segments[0].is_whole and self.size <= SMALL_BYTES

    def takes(self, segment: Segment) -> bool:
        """Return whether the segment after this unit can be stored together with it."""
        return segment.kept == 0 or (not segment.is_whole and segment.kept_in == self.stored_in)


def units(record: LogRecord, before: int) -> Iterator[Unit]:
    """Yield the units that can be rewritten: settled, and ending at or below `before`."""
    unit: Unit | None = None
    start = record.first_offset
    for segment in record.segments:
        if segment.entries is None or start + segment.entries > before:
            break
        stop = start + segment.entries
        if segment.is_copied:
            # promise: a segment with a copy is not rewritten
            # Its space is to be freed by the copy, and the copy is paid for already.
            if unit is not None:
                yield unit
            unit, start = None, stop
            continue
        # Segments whose entries are in one sparse segment can only be rewritten together.
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
    """Neighbouring units that one sparse segment is to replace, and their needed entries."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.live = OffsetSet()
        """The needed entries of all units; empty until the group is ready."""
        self.bytes = 0
        """The approximate bytes of those entries."""
        self.copied_to = 0
        """The offset that copying has reached."""
        self.worth_it = False
        """Whether replacing the group frees anything."""

    def add(self, unit: Unit, size: int, worth_it: bool) -> None:
        """Add the next unit, of which about `size` bytes are needed."""
        self.units.append(unit)
        self.bytes += size
        # A small neighbour joins a group that is rewritten anyway, and causes none by itself.
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
        """The segment of the store that is being copied at present."""
        return next(unit.stored_in for unit in self.units if self.copied_to < unit.stop)

    def has_room(self, size: int) -> bool:
        """Return whether a unit of which `size` bytes are needed still fits."""
        # A single unit always fits: it may be larger than a group.
        return not self.units or self.bytes + size <= GROUP_BYTES
