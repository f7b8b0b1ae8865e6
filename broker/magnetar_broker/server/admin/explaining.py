"""`explainRetention`: what becomes of each segment of a topic, when, and who says so."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker.lifetime.quotas import backlog_bytes
from magnetar_broker.lifetime.retention import Reason, Verdict
from magnetar_broker.lifetime.tidying import judged
from magnetar_broker.policies import (
    BACKLOG_QUOTA_AGE,
    BACKLOG_QUOTA_SIZE,
    MESSAGE_TTL,
    RETENTION,
    SUBSCRIPTION_EXPIRATION,
    Policy,
)
from magnetar_broker.policies.explain import said_by
from magnetar_broker.topic import Topic
from magnetar_storage.log_record import Segment

POLICIES: dict[str, Policy[Any]] = {
    "retention": RETENTION,
    "messageTTL": MESSAGE_TTL,
    "backlogQuotaBySize": BACKLOG_QUOTA_SIZE,
    "backlogQuotaByAge": BACKLOG_QUOTA_AGE,
    "subscriptionExpirationTime": SUBSCRIPTION_EXPIRATION,
}


def explained(topic: Topic) -> dict[str, Any]:
    """As JSON: policies with who says them, subscriptions, and segments, the oldest first."""
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
                "unackedEntries": one.unacked_entries(),
                "unackedBytes": one.unacked_bytes(),
            }
            for one in topic.subscriptions.values()
        ],
        "warnings": list(_warnings(topic)),
        "segments": [_segment(topic, segments[one.segment], one) for one in judged(topic)],
    }


def _warnings(topic: Topic) -> Iterator[str]:
    """What surprises people."""
    retention = topic.limits.retention
    if not topic.cursors.cursors and 0 in (retention.minutes, retention.megabytes):
        yield (
            "nothing subscribes durably and there is no retention: messages are deleted with their "
            "ledger, read or not; create a subscription, or set retention"
        )
    if topic.limits.message_ttl_seconds > 0 and topic.delays.waiting:
        yield "messages to be delivered later expire, too, when they are older than the TTL"


def _policy(topic: Topic, policy: Policy[Any]) -> dict[str, Any]:
    resolved = topic.policies.resolve(policy, topic.name)
    return {"value": policy.form.encode(resolved.value), "saidBy": _said_by(topic, policy)}


def _said_by(topic: Topic, policy: Policy[Any]) -> str:
    return said_by(policy, topic.policies.resolve(policy, topic.name), topic.name)


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
    }


def _reason(topic: Topic, segment: Segment, verdict: Verdict, reason: Reason) -> dict[str, Any]:
    told: dict[str, Any] = {"reason": str(reason)}
    if reason is Reason.OPEN:
        told |= {"closesAtMs": verdict.until_ms}
    elif reason is Reason.SUBSCRIPTION:
        seconds = topic.limits.message_ttl_seconds
        told |= {
            "subscriptions": list(verdict.needed_by),
            "ttlEndsAtMs": segment.sealed_ms + seconds * 1000 if seconds > 0 else None,
        }
    elif reason is Reason.RETENTION:
        told |= {
            "untilMs": verdict.until_ms,
            "orUntilSoManyBytesCome": verdict.room,
            "saidBy": _said_by(topic, RETENTION),
        }
    return told | {"why": _WHY[reason]}


_WHY = {
    Reason.OPEN: "messages are still added to it; it is closed when it is large or old enough",
    Reason.SUBSCRIPTION: "these subscriptions have not acknowledged all of it",
    Reason.RETENTION: "retention keeps it, also when everybody has acknowledged it",
    Reason.OLDER: "an older one is retained: segments go in their order",
}
