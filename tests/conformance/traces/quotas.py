"""Backlog quotas and expiry: what producers and consumers see of them."""

from typing import Any

from conformance.differences import Difference, differs
from conformance.trace import SHARED, Peer, Trace

SWEEP = "brokers/backlog-quota-check"
LARGE = 3000


def _has_quota(t: Trace, policy: str, query: str = "", **limits: int) -> None:
    t.rest("PUT", t.path)
    t.rest("POST", f"{t.path}/backlogQuota{query}", {**limits, "policy": policy})


def _fills(t: Trace) -> Peer:
    """A producer beyond any quota of 3000 bytes, and a subscription that has read nothing."""
    a = t.connects()
    a.subscribes()
    a.closes_consumer()
    a.produces(producer_name="me")
    for sequence_id in range(4):
        a.sends(sequence_id, b"x" * LARGE)
        a.awaits_outcome()
    return a


def producers_are_held(t: Trace) -> None:
    _has_quota(t, "producer_request_hold", limitSize=LARGE)
    a = _fills(t)
    t.rest("GET", SWEEP)
    a.receives_rest()
    a.produces(producer_id=2)


def producers_are_refused(t: Trace) -> None:
    _has_quota(t, "producer_exception", limitSize=LARGE)
    a = _fills(t)
    t.rest("GET", SWEEP)
    a.receives_rest()
    a.produces(producer_id=2)


def producers_are_accepted_without_a_backlog(t: Trace) -> None:
    _has_quota(t, "producer_exception", limitSize=LARGE)
    a = t.connects()
    a.produces()
    for sequence_id in range(4):
        a.sends(sequence_id, b"x" * LARGE)
        a.awaits_outcome()
    t.rest("GET", SWEEP)
    a.receives_rest()
    a.produces(producer_id=2)


def a_full_quota_does_not_stop_consumers(t: Trace) -> None:
    _has_quota(t, "producer_exception", limitSize=LARGE)
    a, b = _fills(t), t.connects()
    t.rest("GET", SWEEP)
    b.subscribes(SHARED)
    b.permits(9)
    b.acks(b.receives(4))
    a.receives_rest()
    a.produces(producer_name="me", producer_id=2)


@differs(
    Difference(
        "backlog quota with `consumer_backlog_eviction`",
        "rounds down what it skips: more than 90 % of the quota can be left, even all of it",
        "at most 90 % is left",
    )
)
def the_oldest_messages_are_evicted(t: Trace) -> None:
    _has_quota(t, "consumer_backlog_eviction", limitSize=2 * LARGE)
    a, b = _fills(t), t.connects()
    t.rest("GET", SWEEP)
    a.receives_rest()
    b.subscribes(SHARED)
    b.permits(9)
    b.receives_rest()


def a_quota_that_is_lifted(t: Trace) -> None:
    _has_quota(t, "producer_exception", limitSize=LARGE)
    a = _fills(t)
    t.rest("GET", SWEEP)
    a.receives_rest()
    t.rest("DELETE", f"{t.path}/backlogQuota")
    a.produces(producer_id=2)


def a_quota_of_the_namespace(t: Trace) -> None:
    namespace = f"public/{t.token}"
    topic = f"persistent://{namespace}/topic"
    t.rest("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 1}})
    body: dict[str, Any] = {"limitSize": LARGE, "policy": "producer_request_hold"}
    t.rest("POST", f"namespaces/{namespace}/backlogQuota", body)
    a = t.connects()
    a.subscribes(topic=topic)
    a.produces(topic)
    for sequence_id in range(2):
        a.sends(sequence_id, b"x" * LARGE)
        a.awaits_outcome()
    a.produces(topic, producer_id=2)


def ages_beyond_the_quota(t: Trace) -> None:
    _has_quota(t, "producer_exception", "?backlogQuotaType=message_age", limitTime=10)
    a = _fills(t)
    t.rest("GET", SWEEP)
    a.receives_rest()
    a.produces(producer_id=2)


def a_quota_is_looked_at_when_a_producer_comes(t: Trace) -> None:
    _has_quota(t, "producer_exception", limitSize=LARGE)
    a = _fills(t)
    a.produces(producer_id=2)


def a_ttl_of_a_topic(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", f"{t.path}/subscription/sub", "earliest")
    t.rest("POST", f"{t.path}/messageTTL?messageTTL=1")
    a.subscribes()
    a.permits(9)
    a.receives_rest()
