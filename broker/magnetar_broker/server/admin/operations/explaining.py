"""`explainRetention`: the segments of a topic that are kept, until when, and by which policy."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker.expiry.quotas import backlog_bytes
from magnetar_broker.expiry.trimming import current_verdicts
from magnetar_broker.policies.explain import source_of
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.retention import RetentionReason, Verdict
from magnetar_broker.policies.table import (
    BACKLOG_QUOTA_AGE,
    BACKLOG_QUOTA_SIZE,
    MESSAGE_TTL,
    RETENTION,
    SUBSCRIPTION_EXPIRATION,
)
from magnetar_broker.topic.topic import Topic
from magnetar_storage.log.log_record import Segment

POLICIES: dict[str, Policy[Any]] = {
    "retention": RETENTION,
    "messageTTL": MESSAGE_TTL,
    "backlogQuotaBySize": BACKLOG_QUOTA_SIZE,
    "backlogQuotaByAge": BACKLOG_QUOTA_AGE,
    "subscriptionExpirationTime": SUBSCRIPTION_EXPIRATION,
}


def explained(topic: Topic) -> dict[str, Any]:
    """Return policies with sources, subscriptions, and segments, the oldest first, as JSON."""
    log = topic.log
    segments = {segment.id: segment for segment in log.segments}
    return {
        "topic": str(topic.name),
        "nowMs": log.engine.clock.now_ms(),
        "checkedEverySeconds": topic.policies.settings.retention_check_interval_in_seconds,
        "policies": {name: _policy(topic, policy) for name, policy in POLICIES.items()},
        "storedBytes": log.size,
        "backlogBytes": backlog_bytes(topic),
        "subscriptions": [
            {
                "name": one.name,
                "durable": one.durable,
                "unackedEntries": one.counter.entries(),
                "unackedBytes": one.counter.size(),
            }
            for one in topic.subscriptions.values()
        ],
        "warnings": list(_warnings(topic)),
        "segments": [
            _segment(topic, segments[one.segment], one) for one in current_verdicts(topic)
        ],
    }


def _warnings(topic: Topic) -> Iterator[str]:
    """Yield a warning for each combination of policies that loses messages unexpectedly."""
    retention, unread = topic.limits.retention, topic.limits.unread
    if not topic.cursors.cursors and 0 in (retention.minutes, retention.megabytes):
        if 0 in (unread.minutes, unread.megabytes):
            yield (
                "there is no durable subscription and no retention: messages are deleted with "
                "their ledger, consumed or not; create a subscription, or set retention"
            )
        elif unread.minutes > 0:
            yield (
                "there is no durable subscription and no retention: messages are deleted "
                f"{unread.minutes} minutes after their ledger was closed, consumed or not; create "
                "a subscription, or set retention"
            )
    if topic.limits.message_ttl_seconds > 0 and topic.delays.waiting:
        yield "delayed messages older than the TTL expire before they are delivered"


def _policy(topic: Topic, policy: Policy[Any]) -> dict[str, Any]:
    resolved = topic.policies.resolve(policy, topic.name)
    return {"value": policy.codec.encode(resolved.value), "source": _source(topic, policy)}


def _source(topic: Topic, policy: Policy[Any]) -> str:
    return source_of(policy, topic.policies.resolve(policy, topic.name), topic.name)


def _segment(topic: Topic, segment: Segment, verdict: Verdict) -> dict[str, Any]:
    is_open = verdict.stop is None
    entries = topic.log.end - verdict.start if verdict.stop is None else segment.entries
    size = topic.log.size - sum(one.size for one in topic.log.segments) if is_open else segment.size
    return {
        "ledgerId": segment.id,
        "entries": entries,
        "bytes": size,
        "closedMs": None if is_open else segment.sealed_ms,
        "deletable": not verdict.reasons,
        "keptBecause": [_reason(topic, segment, verdict, reason) for reason in verdict.reasons],
        **_object(segment),
    }


def _object(segment: Segment) -> dict[str, Any]:
    """Return the object of an offloaded segment, which is deleted with it; empty without one."""
    copy = segment.copy
    if copy is None or not segment.is_copied:
        return {}
    return {"object": {"place": copy.place, "name": copy.name, "isOnlyCopy": copy.is_only}}


def _reason(
    topic: Topic, segment: Segment, verdict: Verdict, reason: RetentionReason
) -> dict[str, Any]:
    found: dict[str, Any] = {"reason": str(reason)}
    if reason is RetentionReason.OPEN:
        found |= {"closesAtMs": verdict.until_ms}
    elif reason is RetentionReason.SUBSCRIPTION:
        seconds = topic.limits.message_ttl_seconds
        found |= {
            "subscriptions": list(verdict.needed_by),
            "ttlEndsAtMs": segment.sealed_ms + seconds * 1000 if seconds > 0 else None,
        }
    elif reason is RetentionReason.UNREAD:
        found |= {
            "untilMs": verdict.until_ms,
            "orUntilSoManyBytesCome": verdict.room,
            "source": "settings magnetarUnreadMessagesRetentionMinutes, "
            "magnetarUnreadMessagesRetentionSizeInMB",
        }
    elif reason is RetentionReason.RETENTION:
        found |= {
            "untilMs": verdict.until_ms,
            "orUntilSoManyBytesCome": verdict.room,
            "source": _source(topic, RETENTION),
        }
    return found | {"why": _WHY[reason]}


_WHY = {
    RetentionReason.OPEN: "messages are still added to it; it is closed at its size or age limit",
    RetentionReason.SUBSCRIPTION: "these subscriptions have not acknowledged all messages of it",
    RetentionReason.RETENTION: "retention keeps it, also when all subscriptions acknowledged it",
    RetentionReason.UNREAD: "no durable subscription has acknowledged all messages of it",
    RetentionReason.OLDER: "an older segment is retained, and segments are deleted in order",
}
