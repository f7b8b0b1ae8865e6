"""Decides which segments (ledgers) are offloaded, and deleted here afterwards.  Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from magnetar_broker.policies.offload_values import OffloadRules
from magnetar_storage.interfaces import SegmentId


class ClosedSegment(NamedTuple):
    """A segment to which nothing is added any more, as far as offloading is concerned."""

    id: SegmentId
    size: int
    """The bytes of the segment; one without bytes is not offloaded."""
    closed_ms: int
    offloaded_ms: int = 0
    """The time at which the object was complete; 0 if there is none, or not a complete one."""
    is_here: bool = True
    """Whether the file is in the data directory."""


def to_offload(
    segments: Sequence[ClosedSegment], rules: OffloadRules, now_ms: int
) -> list[SegmentId]:
    """Return the segments to offload now, the oldest first; `segments` are in that order, too.

    As in Pulsar, a segment is offloaded if it and the newer closed ones exceed the size, or if it
    was closed long enough ago.
    """
    found: list[SegmentId] = []
    size = 0
    for segment in reversed(segments):
        size += segment.size
        exceeds = 0 <= rules.size_threshold < size
        is_old = 0 <= rules.time_threshold_ms <= now_ms - segment.closed_ms
        if (exceeds or is_old) and _is_offloadable(segment):
            found.append(segment.id)
    return found[::-1]


def to_offload_before(segments: Iterable[ClosedSegment], ledger: SegmentId) -> list[SegmentId]:
    """Return the segments to offload that end before a ledger, in the order of `segments`."""
    return [one.id for one in segments if one.id < ledger and _is_offloadable(one)]


def _is_offloadable(segment: ClosedSegment) -> bool:
    return segment.is_here and not segment.offloaded_ms and segment.size > 0


def to_delete_here(
    segments: Iterable[ClosedSegment], rules: OffloadRules, now_ms: int
) -> list[SegmentId]:
    """Return the segments whose files are to be deleted, because the objects are old enough."""
    # promise[without one.offloaded_ms and]: only what was offloaded completely is deleted here
    return [
        one.id
        for one in segments
        if one.offloaded_ms
        and one.is_here
        and 0 <= rules.deletion_lag_ms <= now_ms - one.offloaded_ms
    ]
