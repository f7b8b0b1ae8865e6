"""Deletes segments that a topic need not keep, as `retention` decides."""

from collections.abc import Sequence
from typing import Protocol

from magnetar_broker.dispatch.topic_delays import TopicDelays
from magnetar_broker.limits.shared_limits import SharedLimits
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_broker.policies.retention import (
    KEEP_NO_UNREAD,
    CursorPosition,
    RetentionReason,
    Unread,
    Verdict,
    deletable_to,
    released_to,
    verdicts,
)
from magnetar_broker.producers.deduplication import Deduplication
from magnetar_broker.producers.transaction_buffer import TransactionBuffer
from magnetar_broker.subscriptions.read_history import ReadHistory, read_offsets
from magnetar_broker.subscriptions.topic_subscriptions import Subscriptions
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.cursors.needed import needed_by
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet
from magnetar_storage.log.ranges import RangeSet
from magnetar_storage.log.rewritable import Needed
from magnetar_storage.log.rewriting import COPY_BYTES


class TrimmableTopic(Protocol):
    """A topic's log and limits."""

    name: TopicName
    log: Log
    cursors: CursorLog
    limits: TopicLimits
    shared_limits: SharedLimits
    read_history: ReadHistory | None
    deduplication: Deduplication
    transactions: TransactionBuffer
    delays: TopicDelays


class Truncated(TrimmableTopic, Protocol):
    """The parts of a topic that `truncate` uses: those for trimming, and the subscriptions."""

    @property
    def subscriptions(self) -> Subscriptions: ...


def current_verdicts(topic: TrimmableTopic) -> list[Verdict]:
    """Return the verdict for each of a topic's segments, the oldest first."""
    log = topic.log
    # `subscriptions` would not do: a cursor that is being created counts as well.
    cursors = [
        CursorPosition(cursor.name, cursor.mark_delete) for cursor in topic.cursors.cursors.values()
    ]
    max_age_ms, now_ms = log.engine.roll.max_age_ms, topic.shared_limits.clock_watch.now_ms()
    return verdicts(
        log.segments,
        log.first_offset,
        log.size,
        cursors,
        topic.limits.retention,
        max_age_ms,
        now_ms,
        _unread(topic),
    )


def _unread(topic: TrimmableTopic) -> Unread:
    if topic.limits.unread.minutes == 0:
        return KEEP_NO_UNREAD
    given_up_ms = topic.shared_limits.unread.given_up_ms
    return Unread(read_offsets(topic).next_unread, topic.limits.unread, given_up_ms)


async def trim_topic(topic: TrimmableTopic) -> None:
    """Close the open segment if it is old enough, and delete segments that nothing retains."""
    log = topic.log
    log.rollover.roll_if_due()
    await log.rollover.idle()
    if log.segments and log.segments[0].entries is not None:
        released = released_to(current_verdicts(topic), log.first_offset)
        # promise: entries stay until deduplication has counted them durably
        released = await topic.deduplication.released_to(released)
        # promise: entries that a load needs are not deleted
        released = await topic.transactions.released_to(released)
        # Judge again: a cursor may have been moved back during the wait.
        found = current_verdicts(topic)
        deletable = min(deletable_to(found, log.first_offset), released)
        _count_unread(topic, found, deletable)
        await log.trim(deletable)
        if topic.read_history is not None:
            topic.read_history.forget_below(log.first_offset)
        # promise[always]: nothing is rewritten on a disk that has no room for the copy
        if log.engine.space.allows(min(COPY_BYTES, log.size)):
            await log.reclaim(_needed(topic, found), released)
    await topic.delays.trim()
    if log.engine.keeps_trash_ms:
        # promise: what an engine keeps is deleted later, while the topic is loaded
        await log.stored_record.empty_trash()


def _needed(topic: TrimmableTopic, found: Sequence[Verdict]) -> Needed:
    """Return the function that finds the entries that subscriptions need, or that stay unread.

    It looks both up at each call: a subscription may be deleted meanwhile, and what it has not
    acknowledged is unread then.
    """
    by_cursors, young = needed_by(topic.cursors.cursors.values()), RangeSet()
    for one in found:
        if one.stop is not None and one.keeps_unread:
            young.add(one.start, one.stop)

    def needed(start: int, stop: int, limit: int) -> OffsetSet | None:
        entries = by_cursors(start, stop, limit)
        if entries is None:
            return None
        for run in young.present(start, stop):
            for gap in read_offsets(topic).unread(*run):
                # promise: unread messages stay when others of their segment are deleted
                entries.add(*gap)
        return entries if entries.covered() <= limit else None

    return needed


def _count_unread(topic: TrimmableTopic, found: Sequence[Verdict], deletable: int) -> None:
    """Count the unread messages that stay, and those in segments that will be deleted."""
    total, limit = topic.shared_limits.unread, topic.limits.unread
    if limit.minutes == 0:
        return
    segments = {segment.id: segment for segment in topic.log.segments}
    kept = [segments[one.segment] for one in found if RetentionReason.UNREAD in one.reasons]
    limit_bytes = -1 if limit.megabytes < 0 else limit.megabytes << 20
    total.add(topic.name, [(one.sealed_ms, one.size) for one in kept], limit_bytes)
    next_unread = read_offsets(topic).next_unread
    deleted = [
        segments[one.segment].size
        for one in found
        if one.stop is not None and next_unread(one.start) < one.stop <= deletable
    ]
    if deleted:
        total.delete(topic.name, len(deleted), sum(deleted))


def end_consumed(topic: TrimmableTopic) -> None:
    """Begin a new segment if nothing needs the messages of the open one.

    `trim_topic` then deletes it; otherwise it would stay until it is full or old.
    """
    log, limits = topic.log, topic.limits
    if any(cursor.mark_delete + 1 < log.end for cursor in topic.cursors.cursors.values()):
        return
    is_read = limits.unread.minutes == 0 or (
        read_offsets(topic).next_unread(log.first_offset) >= log.end
    )
    if is_read and not limits.retention.keeps(0, 0):
        # promise: what was consumed is deleted at once while the disk lacks room
        log.rollover.roll()


async def truncate(topic: Truncated) -> None:
    """Acknowledge all messages for all subscriptions, and delete closed segments, retained or not.

    Messages that are published meanwhile stay.
    """
    log, end = topic.log, topic.log.end
    # Move the cursors first, and durably: after a crash no cursor may need deleted entries.
    for subscription in topic.subscriptions.values():
        subscription.skip(range(end))
    # promise: a topic is truncated only when all acknowledgements are durable
    await topic.cursors.durable()
    released = await topic.deduplication.released_to(end)
    await log.trim(await topic.transactions.released_to(released))
