"""The segment list of a log whose record is lost, rebuilt from its segments.  Pure.

Every segment knows the offset of its first entry, so that gaps show.  A gap between segments is
listed like a rewritten segment without remaining entries, so that no offset changes.
"""

from bisect import bisect
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import segment_ids
from magnetar_storage.log.log_record import Segment


class Placed(NamedTuple):
    """A segment with its place in the log."""

    first_offset: int
    segment: Segment
    first_messages: int | None = None
    """The number of messages in the log before the segment; None if unknown."""

    @property
    def stop(self) -> int:
        """The offset after the segment's last entry."""
        return self.first_offset + (self.segment.entries or 0)

    @property
    def messages_stop(self) -> int | None:
        """The number of messages in the log up to the segment's end; None if unknown."""
        return None if self.first_messages is None else self.first_messages + self.segment.messages


class SegmentList(NamedTuple):
    """The values in a record that describe a log's segments."""

    first_offset: int
    first_messages: int
    segments: tuple[Segment, ...]
    left_out: tuple[SegmentId, ...] = ()
    """Older segments that cannot precede the listed ones, as of a deleted log of this name."""

    @property
    def absent(self) -> int:
        """The number of entries missing after the first one; they were deleted or are lost."""
        return sum(one.entries or 0 for one in self.segments if one.kept == 0)


def listed(placed: Iterable[Placed], end: int, now_ms: int) -> SegmentList:
    """Return the list of the segments of a log that had at least `end` entries."""
    # Ids grow with time, so the order of creation is that of the offsets.
    kept, left_out = _fitting(sorted(placed, key=lambda one: (one.segment.id, one.first_offset)))
    if not kept:
        return SegmentList(end, end, (), left_out)
    whole: list[Placed] = []
    for one in kept:
        _append(whole, one)
    if whole[-1].stop < end:
        # The offsets up to `end` must not be used again: cursors have acknowledged them.
        whole.append(_gap(whole[-1], end, None))
    closed = [one.segment.created_ms for one in whole[1:]] + [now_ms]
    segments = tuple(
        one.segment if one.segment.sealed_ms else replace(one.segment, sealed_ms=ms)
        for one, ms in zip(whole, closed, strict=True)
    )
    return SegmentList(whole[0].first_offset, _first_messages(whole), segments, left_out)


def _fitting(ordered: Sequence[Placed]) -> tuple[list[Placed], tuple[SegmentId, ...]]:
    """Return the newest segments that can follow each other, and the ids of the others.

    A segment of the store wins over objects, which a copy of the data directory may have written.
    """
    here = _chain([one for one in ordered if not one.segment.is_remote])
    certain = {one.segment.id for one in here}
    # promise: no object takes the place of a segment that is in the store
    fitting = [one for one in ordered if one.segment.id in certain or _fits_between(one, here)]
    kept = _chain(fitting, certain)
    ids = {one.segment.id for one in kept}
    return kept, tuple(one.segment.id for one in ordered if one.segment.id not in ids)


def _chain(ordered: Sequence[Placed], certain: Collection[SegmentId] = ()) -> list[Placed]:
    """Return the newest segments that can follow each other, and all that are `certain`."""
    # From the newest back: if a deleted log had the same name, its segments are older, and begin
    # at offsets that the present log has as well.
    kept: list[Placed] = []
    ended = False
    for one in reversed(ordered):
        if one.segment.id not in certain:
            ended = ended or (bool(kept) and not _precedes(one, kept[-1]))
            if ended:
                continue
        kept.append(one)
    return kept[::-1]


def _fits_between(one: Placed, here: Sequence[Placed]) -> bool:
    """Return whether an object can be listed between two neighbours of a chain of segments."""
    if not one.segment.is_remote:
        return False
    at = bisect(here, one.segment.id, key=lambda other: other.segment.id)
    follows = at == 0 or _precedes(here[at - 1], one)
    return follows and (at == len(here) or _precedes(one, here[at]))


def _precedes(one: Placed, other: Placed) -> bool:
    """Return whether a segment can precede another one, with a gap in between."""
    if one.stop < other.first_offset:
        # The element for the gap needs an id of its own, between theirs.
        return _id_between(one.segment.id, other.segment.id) is not None
    return one.stop == other.first_offset


def _append(whole: list[Placed], one: Placed) -> None:
    """Add the next segment, after an element for the gap before it."""
    if whole and whole[-1].stop < one.first_offset:
        whole.append(_gap(whole[-1], one.first_offset, one))
    before = whole[-1].messages_stop if whole else None
    if one.first_messages is None and before is not None:
        one = one._replace(first_messages=before)
    whole.append(one)


def _gap(before: Placed, stop: int, after: Placed | None) -> Placed:
    """Return an element for the gap after a segment, up to an offset."""
    entries = messages = stop - before.stop
    first, until = before.messages_stop, None if after is None else after.first_messages
    if first is not None and until is not None:  # else each entry counts as one message
        messages = until - first
    number = _id_between(before.segment.id, None if after is None else after.segment.id)
    assert number is not None, "`_precedes` has looked for it"
    created_ms = before.segment.sealed_ms or before.segment.created_ms
    return Placed(before.stop, Segment(number, created_ms, entries, messages, kept=0), first)


def _id_between(one: SegmentId, other: SegmentId | None) -> SegmentId | None:
    """Return an id for the gap between two segments; None if there is no such id."""
    # The next id of the same directory, if that is free; else the next one of any directory.
    candidates = (segment_ids.following(one), one + 1)
    return next((n for n in candidates if other is None or n < other), None)


def _first_messages(whole: Sequence[Placed]) -> int:
    """Return the messages before the first segment; the number of entries if unknown."""
    before = 0
    for one in whole:
        if one.first_messages is not None:
            return max(one.first_messages - before, 0)
        before += one.segment.messages
    return whole[0].first_offset
