"""The stored data of a topic and the positions of its cursors: `internalStats`, `internal-info`."""

from collections.abc import Iterator

from magnetar_broker.base.formats import iso
from magnetar_broker.base.topic_properties import of_users
from magnetar_broker.dispatch.base import Blocker
from magnetar_broker.dispatch.compacted import shown
from magnetar_broker.statistics.shapes import Json, position
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_storage.cursors.cursor_log import DurableCursor
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import Segment

MAX_RANGES = 1000
"""The most ranges of individual acknowledgements that are listed for one cursor."""
NO_LEDGER = {
    "ledgerId": -1,
    "entries": -1,
    "size": -1,
    "offloaded": False,
    "underReplicated": False,
}
NO_CURSOR: Json = {
    "waitingReadOp": False,
    "pendingReadOps": 0,
    "messagesConsumedCounter": 0,
    "cursorLedger": 0,
    "cursorLedgerLastEntry": 0,
    "active": False,
    "numberOfEntriesSinceFirstNotAckedMessage": 0,
    "totalNonContiguousDeletedMessagesRange": 0,
    "subscriptionHavePendingRead": False,
    "subscriptionHavePendingReplayRead": False,
}
"""The cursor of a subscription of a non-persistent topic."""


def internal_stats(topic: AnyTopic, metadata: bool) -> Json:
    """Return segments and cursors; `metadata` adds each segment's part of the topic's record."""
    if isinstance(topic, Topic):
        return _persistent(topic, metadata)
    return {
        "entriesAddedCounter": topic.appender.messages_in,
        "numberOfEntries": 0,
        "totalSize": 0,
        "currentLedgerEntries": 0,
        "currentLedgerSize": 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "cursors": dict.fromkeys(topic.subscriptions, NO_CURSOR),
    }


def _persistent(topic: Topic, metadata: bool) -> Json:
    log, record = topic.log, topic.log.record
    cursors = {name: _cursor(one) for name, one in topic.subscriptions.items()}
    compacted = record.compacted
    last = log.segments[-1] if log.segments else None
    return {
        "entriesAddedCounter": log.end,
        "numberOfEntries": log.end - log.first_offset - log.holes.count(log.first_offset, log.end),
        "totalSize": log.size,
        "currentLedgerEntries": 0 if last is None else log.end - log.bases[-1],
        "currentLedgerSize": 0 if last is None else log.size_of(last),
        "lastLedgerCreatedTimestamp": iso(0 if last is None else last.created_ms),
        "waitingCursorsCount": sum(one["waitingReadOp"] for one in cursors.values()),
        "pendingAddEntriesCount": pending_entries(topic),
        "lastConfirmedEntry": position(*log.position(log.end - 1)),
        "state": _state(log),
        "ledgers": [_ledger(log, segment, metadata) for segment in log.segments],
        "cursors": cursors,
        "properties": of_users(record.properties),
        "schemaLedgers": [],
        "compactedLedger": NO_LEDGER
        if compacted is None or not compacted.parts
        else NO_LEDGER
        | {
            "ledgerId": compacted.parts[-1].segment,
            "entries": compacted.entries,
            "size": compacted.size,
        },
    }


def _state(log: Log) -> str:
    if log.terminated:
        return "Terminated"
    return "LedgerOpened" if log.is_writing else "ClosedLedger"


def _ledger(log: Log, segment: Segment, metadata: bool) -> Json:
    found: Json = {
        "ledgerId": segment.id,
        "entries": segment.held,
        "size": segment.size,
        "offloaded": segment.is_copied,
        "underReplicated": False,
    }
    if metadata:
        state = "OPEN" if segment.entries is None else "CLOSED"
        found["metadata"] = f"state={state}, created={iso(segment.created_ms)}, log={log.key}" + (
            "" if segment.is_whole else f", kept in {segment.kept_in}"
        )
    return found


def _cursor(one: Subscription) -> Json:
    log, cursor, dispatcher = one.topic.log, one.cursor, one.dispatcher
    used, read_offset = bool(one.consumers), min(dispatcher.read_offset, log.end)
    caught_up = used and dispatcher.blocker() is Blocker.CAUGHT_UP
    is_stored = isinstance(cursor, DurableCursor) and log.record.cursor_segment is not None
    return {
        "markDeletePosition": position(*log.position(cursor.mark_delete)),
        "readPosition": position(*_next_position(log, read_offset)),
        "waitingReadOp": caught_up,
        "pendingReadOps": int(used and dispatcher.blocker() is Blocker.READING),
        "messagesConsumedCounter": cursor.mark_delete + 1 + cursor.acked.covered(),
        "cursorLedger": log.record.cursor_segment if is_stored else -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": f"[{','.join(_ranges(one))}]",
        "lastLedgerSwitchTimestamp": iso(0),
        "state": "Open" if is_stored or not one.durable else "NoLedger",
        "active": used,
        "numberOfEntriesSinceFirstNotAckedMessage": entries_since_unacked(one),
        "totalNonContiguousDeletedMessagesRange": cursor.acked.runs(),
        "subscriptionHavePendingRead": caught_up,
        "subscriptionHavePendingReplayRead": dispatcher.in_replay > 0,
        "properties": {},  # clients accept only numbers here, and none are kept
    }


def entries_since_unacked(one: Subscription) -> int:
    """Return the entries from the first unacknowledged one to where the subscription reads."""
    read_offset = min(one.dispatcher.read_offset, one.topic.log.end)
    return max(read_offset - one.cursor.mark_delete, 0)


def pending_entries(topic: Topic) -> int:
    """Return the number of entries that are published and not durable yet."""
    return topic.log.next_offset - topic.log.end


def _next_position(log: Log, offset: int) -> tuple[int, int]:
    """Return an entry's position; at the end of the log, the next one in the last segment."""
    if offset < log.end or not log.bases:
        return log.position(offset)
    return log.segments[-1].id, offset - log.bases[-1]


def _ranges(one: Subscription) -> Iterator[str]:
    """Yield ranges of individually acknowledged entries: after one position, up to another."""
    log = one.topic.log
    for number, (start, stop) in enumerate(one.cursor.acked):
        if number == MAX_RANGES:
            return
        before, last = log.position(start - 1), log.position(stop - 1)
        yield f"({position(*before)}..{position(*last)}]"


# The stored record --------------------------------------------------------------------------


def internal_info(topic: Topic) -> Json:
    """Return the topic's record: its segments, and the position of each durable cursor."""
    log, record = topic.log, topic.log.record
    first_ms = log.segments[0].created_ms if log.segments else 0
    found: Json = {
        "version": record.epoch,
        "creationDate": iso(first_ms),
        "modificationDate": iso(max((_changed_ms(one) for one in log.segments), default=0)),
        "ledgers": [_stored_ledger(one) for one in log.segments],
        "cursors": {
            name: _stored_cursor(log, cursor) for name, cursor in topic.cursors.cursors.items()
        },
    }
    if record.terminated_at is not None:
        ledger, entry = record.terminated_at
        found["terminatedPosition"] = {"ledgerId": ledger, "entryId": entry}
    properties = of_users(record.properties)
    return found | ({"properties": properties} if properties else {})


def _changed_ms(segment: Segment) -> int:
    return max(segment.created_ms, segment.sealed_ms)


def _stored_ledger(segment: Segment) -> Json:
    found: Json = {
        "ledgerId": segment.id,
        "timestamp": _changed_ms(segment),
        "isOffloaded": segment.is_copied,
    }
    if segment.entries is not None:
        found |= {"entries": segment.held, "size": segment.size}
    return found


def _stored_cursor(log: Log, cursor: DurableCursor) -> Json:
    ledger, entry = log.position(cursor.mark_delete)
    stored_in = log.record.cursor_segment
    found: Json = {
        "version": 0,
        "creationDate": iso(0),
        "modificationDate": iso(0),
        "cursorsLedgerId": -1 if stored_in is None else stored_in,
        "markDelete": {"ledgerId": ledger, "entryId": entry},
    }
    properties = shown(cursor.properties)
    return found | ({"properties": properties} if properties else {})
