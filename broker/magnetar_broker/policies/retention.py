"""Decides which segments (ledgers) of a topic may be deleted; nothing else decides it.  Pure.

Messages are deleted by whole segments, the oldest first.  A segment is deleted once it is closed,
all durable subscriptions have acknowledged it, and retention does not keep it.  Without retention,
a segment with messages that no subscription has acknowledged is kept for longer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log.log_record import Segment


@dataclass(frozen=True)
class Retention:
    """Keeps acknowledged segments that are within both the time and the size.

    -1 means no limit, 0/0 keeps none.  As in Pulsar the size is a minimum: a segment is deleted
    only if at least that much remains without it.
    """

    minutes: int = 0
    megabytes: int = 0

    def keeps(self, age_ms: int, bytes_behind: int) -> bool:
        """Return whether an acknowledged segment is kept; `bytes_behind` is the size behind it."""
        young = self.minutes < 0 or age_ms < self.minutes * 60_000
        small = self.megabytes < 0 or bytes_behind < self.megabytes << 20
        return young and small

    def until_ms(self, sealed_ms: int) -> int | None:
        """Return the time at which a segment closed at `sealed_ms` is old enough; None: never."""
        return None if self.minutes < 0 else sealed_ms + self.minutes * 60_000

    def room(self, bytes_behind: int) -> int | None:
        """Return the bytes that can be added until a segment exceeds the size; None if any can."""
        return None if self.megabytes < 0 else (self.megabytes << 20) - bytes_behind


class RetentionReason(StrEnum):
    """The reason why a segment is kept."""

    OPEN = "open"
    """Messages are still added to the segment."""
    SUBSCRIPTION = "subscription"
    """A durable subscription has not acknowledged the whole segment."""
    RETENTION = "retention"
    """The segment is younger than the retention time and within the retention size."""
    UNREAD = "unread"
    """No durable subscription has acknowledged the whole segment, which is young and small enough.
    """
    OLDER = "older"
    """An older one is retained: possible after the clock was set back."""


OF_MESSAGES = {RetentionReason.SUBSCRIPTION, RetentionReason.UNREAD}
"""The reasons that apply to single messages; other messages of the segment can be deleted."""


class CursorPosition(NamedTuple):
    """The position of a durable subscription: everything up to it is acknowledged."""

    subscription: str
    mark_delete: int


class Unread(NamedTuple):
    """The rule that keeps messages that no durable subscription has acknowledged."""

    next_unread: Callable[[int], int]
    """Returns the first offset, from one on, that no subscription holds or has acknowledged."""
    retention: Retention
    """How long, and up to which size of the topic, all other messages are kept."""
    given_up_ms: int = 0
    """Segments closed at this time or before exceed the limit of all topics together."""

    def keeps(self, segment: Segment, behind: int, now_ms: int) -> bool:
        """Return whether a segment's unread messages stay; `behind` is the size of newer ones."""
        age_ms = now_ms - segment.sealed_ms
        return segment.sealed_ms > self.given_up_ms and self.retention.keeps(age_ms, behind)


KEEP_NO_UNREAD = Unread(lambda offset: offset, Retention())


class Verdict(NamedTuple):
    """The decision whether a segment is kept, and its reasons."""

    segment: SegmentId
    start: int
    stop: int | None
    """The offsets of the segment, the last one exclusive; None while it is open."""
    reasons: tuple[RetentionReason, ...] = ()
    """The reasons why the segment is kept; if there are none, it can be deleted."""
    needed_by: tuple[str, ...] = ()
    """The subscriptions that need the segment."""
    until_ms: int | None = None
    """The time at which the segment closes, or its retention ends; None if neither is limited."""
    room: int | None = None
    """The bytes that can be added before the segment exceeds the retention size; None if unlimited.
    """
    keeps_unread: bool = False
    """Whether the segment keeps messages that no durable subscription holds or has acknowledged."""


def verdicts(
    segments: Sequence[Segment],
    first_offset: int,
    size: int,
    cursors: Sequence[CursorPosition],
    retention: Retention,
    max_age_ms: int,
    now_ms: int,
    unread: Unread = KEEP_NO_UNREAD,
) -> list[Verdict]:
    """Return a verdict for each segment of a log, the oldest first.

    `size` are the bytes of all of them; an open one ends at `max_age_ms`, unless it is empty.
    """
    # promise[min -> max]: the slowest subscription keeps its messages
    slowest = min((cursor.mark_delete for cursor in cursors), default=-1)
    found: list[Verdict] = []
    start, retained, behind = first_offset, False, size
    for segment in segments:
        if segment.entries is None:
            until_ms = segment.created_ms + max_age_ms if behind else None
            found.append(_open(segment, start, cursors, until_ms))
            break
        stop, behind = start + segment.entries, behind - segment.size
        keeps = retention.keeps(now_ms - segment.sealed_ms, behind)
        needed = _needed(cursors, stop) if cursors and slowest + 1 < stop else ()
        reasons: tuple[RetentionReason, ...] = (RetentionReason.SUBSCRIPTION,) if needed else ()
        keeps_unread = unread.keeps(segment, behind, now_ms)
        until_ms = room = None
        if keeps:
            reasons += (RetentionReason.RETENTION,)
            until_ms, room = retention.until_ms(segment.sealed_ms), retention.room(behind)
        elif keeps_unread and unread.next_unread(start) < stop:
            # promise: messages that no subscription has acknowledged are kept
            reasons += (RetentionReason.UNREAD,)
            until_ms = unread.retention.until_ms(segment.sealed_ms)
            room = unread.retention.room(behind)
        elif retained:
            reasons += (RetentionReason.OLDER,)
        verdict = Verdict(segment.id, start, stop, reasons, needed, until_ms, room, keeps_unread)
        found.append(verdict)
        start, retained = stop, retained or keeps
    return found


def _open(
    segment: Segment, start: int, cursors: Sequence[CursorPosition], until_ms: int | None
) -> Verdict:
    needed = tuple(cursor.subscription for cursor in cursors)
    return Verdict(segment.id, start, None, (RetentionReason.OPEN,), needed, until_ms)


def _needed(cursors: Sequence[CursorPosition], stop: int) -> tuple[str, ...]:
    return tuple(cursor.subscription for cursor in cursors if cursor.mark_delete + 1 < stop)


def deletable_to(found: Iterable[Verdict], first_offset: int) -> int:
    """Return the offset below which everything may be deleted."""
    offset = first_offset
    for verdict in found:
        if verdict.reasons or verdict.stop is None:
            break
        offset = verdict.stop
    return offset


def released_to(found: Iterable[Verdict], first_offset: int) -> int:
    """Return the offset below which only single messages are needed: held ones, or unread ones."""
    offset = first_offset
    for verdict in found:
        if verdict.stop is None or not {*verdict.reasons} <= OF_MESSAGES:
            break
        offset = verdict.stop
    return offset
