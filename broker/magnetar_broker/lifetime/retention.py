"""When stored messages are deleted: the one place that decides it.

Messages are deleted by whole segments, the oldest first.  A segment goes once no more is written
to it, no durable subscription needs anything of it, and retention does not keep it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log_record import Segment


@dataclass(frozen=True)
class Retention:
    """Keeps consumed segments while they are young and needed for the size to be kept.

    -1 is no limit, 0/0 keeps none.  As in Pulsar the size is the least that stays: a segment goes
    when there is that much without it.
    """

    minutes: int = 0
    megabytes: int = 0

    def keeps(self, age_ms: int, bytes_behind: int) -> bool:
        """Whether a consumed segment stays, given all bytes of those behind it."""
        young = self.minutes < 0 or age_ms < self.minutes * 60_000
        small = self.megabytes < 0 or bytes_behind < self.megabytes << 20
        return young and small


class Reason(StrEnum):
    """Why a segment stays."""

    OPEN = "open"
    """Messages are being added to it."""
    SUBSCRIPTION = "subscription"
    """Somebody has not acknowledged all of it."""
    RETENTION = "retention"
    """It is young, and needed for the size to be kept."""
    OLDER = "older"
    """One before it is retained: a clock was set back meanwhile."""


class Need(NamedTuple):
    """A durable subscription: all up to an offset is acknowledged."""

    subscription: str
    mark_delete: int


class Verdict(NamedTuple):
    """What becomes of a segment."""

    segment: SegmentId
    start: int
    stop: int | None
    """Its offsets, the last one exclusive; None while it is open."""
    reasons: tuple[Reason, ...] = ()
    """Why it stays; it may go when there is none."""
    needed_by: tuple[str, ...] = ()
    """The subscriptions."""
    until_ms: int | None = None
    """When it ends if it is open, else when retention's time is over; None: no time is set."""
    room: int | None = None
    """How many bytes may still come before retention's size ends; None: no size is set."""


def verdicts(
    segments: Sequence[Segment],
    first_offset: int,
    size: int,
    needs: Sequence[Need],
    retention: Retention,
    max_age_ms: int,
    now_ms: int,
) -> list[Verdict]:
    """What becomes of each segment of a log, the oldest first.

    `size` are the bytes of all of them; an open one ends at `max_age_ms`, unless it is empty.
    """
    slowest = min((need.mark_delete for need in needs), default=-1)
    found: list[Verdict] = []
    start, retained, behind = first_offset, False, size
    for segment in segments:
        if segment.entries is None:
            until_ms = segment.created_ms + max_age_ms if behind else None
            found.append(_open(segment, start, needs, until_ms))
            break
        stop, behind = start + segment.entries, behind - segment.size
        keeps = retention.keeps(now_ms - segment.sealed_ms, behind)
        needed = _needed(needs, stop) if needs and slowest + 1 < stop else ()
        reasons = ((Reason.SUBSCRIPTION,) if needed else ()) + _kept(keeps, retained)
        until_ms = room = None
        if keeps and retention.minutes >= 0:
            until_ms = segment.sealed_ms + retention.minutes * 60_000
        if keeps and retention.megabytes >= 0:
            room = (retention.megabytes << 20) - behind
        found.append(Verdict(segment.id, start, stop, reasons, needed, until_ms, room))
        start, retained = stop, retained or keeps
    return found


def _open(segment: Segment, start: int, needs: Sequence[Need], until_ms: int | None) -> Verdict:
    needed = tuple(need.subscription for need in needs)
    return Verdict(segment.id, start, None, (Reason.OPEN,), needed, until_ms)


def _kept(keeps: bool, retained: bool) -> tuple[Reason, ...]:
    if keeps:
        return (Reason.RETENTION,)
    return (Reason.OLDER,) if retained else ()


def _needed(needs: Sequence[Need], stop: int) -> tuple[str, ...]:
    return tuple(need.subscription for need in needs if need.mark_delete + 1 < stop)


def deletable_to(found: Iterable[Verdict], first_offset: int) -> int:
    """The offset below which everything may be deleted."""
    offset = first_offset
    for verdict in found:
        if verdict.reasons or verdict.stop is None:
            break
        offset = verdict.stop
    return offset


def released_to(found: Iterable[Verdict], first_offset: int) -> int:
    """The offset below which only subscriptions keep anything."""
    offset = first_offset
    for verdict in found:
        if verdict.stop is None or not {*verdict.reasons} <= {Reason.SUBSCRIPTION}:
            break
        offset = verdict.stop
    return offset
