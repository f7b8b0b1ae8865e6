"""Subscriptions over REST: made, removed, moved, and what their consumers see of it."""

from conformance.differences import Difference, differs
from conformance.trace import KEY_SHARED, SHARED, Kind, Peer, Trace
from magnetar_proto.entries import encode_entry
from raw_client import metadata

LATEST = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, "partitionIndex": -1}
EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
PUBLISHED_MS = 1_700_000_000_000
"""The publish time of every message of a trace."""


def _sub(t: Trace) -> str:
    return f"{t.path}/subscription/sub"


def _at(a: Peer, index: int, **fields: object) -> dict[str, object]:
    position = a.published[index]
    return {"ledgerId": position.ledgerId, "entryId": position.entryId, **fields}


def _reads_on(a: Peer, count: int = 9) -> None:
    """Show what the subscription still has."""
    a.subscribes()
    a.permits(count)
    a.receives_rest()


# Made and removed -------------------------------------------------------------------------


def a_subscription_comes_and_goes(t: Trace) -> None:
    t.rest("PUT", t.path)
    t.rest("GET", f"{t.path}/subscriptions")
    t.rest("PUT", _sub(t))
    t.rest("GET", f"{t.path}/subscriptions")
    t.rest("PUT", _sub(t))
    t.rest("DELETE", _sub(t))
    t.rest("DELETE", _sub(t))
    t.rest("GET", f"{t.path}/subscriptions")


def a_subscription_to_a_topic_that_is_not_there(t: Trace) -> None:
    t.rest("GET", f"{t.path}/subscriptions")
    t.rest("DELETE", _sub(t))
    t.rest("PUT", _sub(t))
    t.rest("GET", f"{t.path}/subscriptions")


def a_subscription_in_a_namespace_that_is_not_there(t: Trace) -> None:
    t.rest("GET", f"persistent/public/{t.token}/topic/subscriptions")
    t.rest("PUT", f"persistent/public/{t.token}/topic/subscription/sub")


def a_new_subscription_is_at_the_end(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t))
    a.publishes(1, first=2)
    _reads_on(a)


def a_new_subscription_from_the_earliest(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t), EARLIEST)
    _reads_on(a)


def a_new_subscription_from_the_latest(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t), LATEST)
    _reads_on(a)


def a_new_subscription_from_a_word(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t), "earliest")
    _reads_on(a)
    t.rest("PUT", f"{t.path}/subscription/other", "nonsense")


def a_new_subscription_from_a_message(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", _sub(t), _at(a, 1))
    _reads_on(a)


def a_new_subscription_with_properties(t: Trace) -> None:
    t.publisher(1)
    t.rest("PUT", _sub(t), {**EARLIEST, "properties": {"colour": "green"}})
    t.rest("GET", f"{_sub(t)}/properties")
    t.rest("PUT", f"{_sub(t)}/properties", {"size": "small"})
    t.rest("GET", f"{_sub(t)}/properties")
    t.rest("PUT", f"{_sub(t)}/properties", {})
    t.rest("GET", f"{_sub(t)}/properties")
    t.rest("GET", f"{t.path}/subscription/other/properties")
    t.rest("PUT", f"{t.path}/subscription/other/properties", {"a": "b"})


def subscriptions_of_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("PUT", _sub(t))
    t.rest("GET", f"{t.path}/subscriptions")
    t.rest("GET", f"{t.path}-partition-1/subscriptions")
    t.rest("DELETE", f"{t.path}-partition-0/subscription/sub")
    t.rest("PUT", _sub(t))
    t.rest("GET", f"{t.path}-partition-0/subscriptions")
    t.rest("DELETE", _sub(t))
    t.rest("GET", f"{t.path}/subscriptions")


def a_subscription_that_has_a_consumer(t: Trace) -> None:
    a = t.publisher(1)
    a.subscribes()
    t.rest("DELETE", _sub(t))
    t.rest("DELETE", f"{_sub(t)}?force=true")
    a.awaits(Kind.CLOSE_CONSUMER)
    t.rest("GET", f"{t.path}/subscriptions")


def subscriptions_of_a_non_persistent_topic(t: Trace) -> None:
    path = f"non-persistent/public/default/{t.token}"
    a = t.connects()
    a.subscribes(topic=f"non-{t.topic}")
    t.rest("GET", f"{path}/subscriptions")
    t.rest("PUT", f"{path}/subscription/other")
    t.rest("GET", f"{path}/subscriptions")
    t.rest("DELETE", f"{path}/subscription/sub")


# Skipped and expired ------------------------------------------------------------------------


def messages_are_skipped(t: Trace) -> None:
    a = t.publisher(5)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/skip/2")
    _reads_on(a)


def more_are_skipped_than_there_are(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/skip/20")
    a.publishes(1, first=3)
    _reads_on(a)


def counts_that_cannot_be_skipped(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/skip/0")
    t.rest("POST", f"{_sub(t)}/skip/many")
    _reads_on(a)


@differs(
    Difference(
        "skipping the first messages of a batch",
        "the whole batch is skipped, as if it were one message",
        "exactly the requested number of messages is skipped, within batches too",
    )
)
def parts_of_batches_are_skipped(t: Trace) -> None:
    a = t.publisher()
    a.publishes_batch(3, b"three")
    a.publishes_batch(3, b"three more", sequence_id=3)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/skip/1")
    _reads_on(a)


def all_are_skipped(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/skip_all")
    a.publishes(1, first=3)
    _reads_on(a)


def skipping_under_a_consumer(t: Trace) -> None:
    a, b = t.publisher(5), t.connects()
    b.subscribes(SHARED)
    b.permits(2)
    b.receives(2)
    t.rest("POST", f"{_sub(t)}/skip_all")
    b.permits(9)
    b.receives_rest()
    a.publishes(1, first=5)
    b.receives()


def _publishes_keys(a: Peer, first: int) -> None:
    for number in range(4):
        keyed = metadata(first + number, partition_key=f"key {number}")
        a.sends_entry(first + number, encode_entry(keyed, b"x"))
        a.awaits_outcome()


def skipping_releases_keys(t: Trace) -> None:
    a, b, c = t.connects(), t.connects(), t.connects()
    a.produces()
    _publishes_keys(a, 0)
    b.subscribes(KEY_SHARED, consumer_name="b")
    b.permits(9)
    b.receives(4)
    c.subscribes(KEY_SHARED, consumer_name="c")
    c.permits(9)
    t.rest("POST", f"{_sub(t)}/skip_all")
    _publishes_keys(a, 4)
    b.receives_rest()
    c.receives_rest()


def messages_expire(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/expireMessages/1")
    a.publishes(1, first=3)
    _reads_on(a)


def messages_expire_up_to_one(t: Trace) -> None:
    a = t.publisher(4)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/expireMessages", _at(a, 1))
    _reads_on(a)


def messages_expire_before_one(t: Trace) -> None:
    a = t.publisher(4)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/expireMessages", _at(a, 1, isExcluded=True))
    _reads_on(a)


@differs(
    Difference(
        "expiry up to a message that is `excluded`",
        "the message expires, and the next one too",
        "neither of them expires",
    )
)
def messages_expire_with_the_message_excluded(t: Trace) -> None:
    a = t.publisher(4)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/expireMessages", _at(a, 1, excluded=True))
    _reads_on(a)


def messages_expire_for_everybody(t: Trace) -> None:
    a = t.publisher(3)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("PUT", f"{t.path}/subscription/other", EARLIEST)
    t.rest("POST", f"{t.path}/all_subscription/expireMessages/1")
    _reads_on(a)
    a.subscribes(consumer_id=2, subscription="other")
    a.permits(9, consumer_id=2)
    a.receives_rest()


def nothing_is_left_to_expire(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t))
    t.rest("POST", f"{_sub(t)}/expireMessages/1")
    t.rest("POST", f"{t.path}/all_subscription/expireMessages/1")
    a.closes_producer()


def nothing_is_old_enough_to_expire(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/expireMessages/2000000000")
    _reads_on(a)


def ages_that_are_none(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t), EARLIEST)
    t.rest("POST", f"{_sub(t)}/expireMessages/soon")
    t.rest("POST", f"{_sub(t)}/expireMessages/40000000000")
    _reads_on(a)


def expiry_for_whom_there_is_none(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("POST", f"{_sub(t)}/expireMessages/1")
    t.rest("POST", f"{_sub(t)}/skip/1")
    t.rest("POST", f"{_sub(t)}/skip_all")
    t.rest("GET", f"{t.path}/subscriptions")
    a.closes_producer()


def messages_expire_under_a_consumer(t: Trace) -> None:
    a, b = t.publisher(5), t.connects()
    b.subscribes(SHARED)
    b.permits(2)
    b.receives(2)
    t.rest("POST", f"{_sub(t)}/expireMessages/1")
    b.permits(9)
    b.receives_rest()
    a.publishes(1, first=5)
    b.receives()


def on_a_topic_that_is_not_there(t: Trace) -> None:
    for what in ("skip/1", "skip_all", "expireMessages/1", "resetcursor/1"):
        t.rest("POST", f"{_sub(t)}/{what}")


def on_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("PUT", _sub(t))
    for what in ("skip/1", "skip_all", "expireMessages/1", f"resetcursor/{PUBLISHED_MS}"):
        t.rest("POST", f"{_sub(t)}/{what}")
    t.rest("POST", f"{_sub(t)}/resetcursor", EARLIEST)
    t.rest("POST", f"{t.path}/all_subscription/expireMessages/1")


# Moved ----------------------------------------------------------------------------------------


def a_cursor_is_reset_to_a_message(t: Trace) -> None:
    a = t.publisher(4)
    t.rest("PUT", _sub(t))
    t.rest("POST", f"{_sub(t)}/resetcursor", _at(a, 1))
    _reads_on(a)


def a_cursor_is_reset_behind_a_message(t: Trace) -> None:
    a = t.publisher(4)
    t.rest("PUT", _sub(t))
    t.rest("POST", f"{_sub(t)}/resetcursor", _at(a, 1, isExcluded=True))
    _reads_on(a)


def a_cursor_is_reset_with_the_message_excluded(t: Trace) -> None:
    a = t.publisher(4)
    t.rest("PUT", _sub(t))
    t.rest("POST", f"{_sub(t)}/resetcursor", _at(a, 1, excluded=True))
    _reads_on(a)


def a_cursor_is_reset_to_the_ends(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t))
    t.rest("POST", f"{_sub(t)}/resetcursor", EARLIEST)
    _reads_on(a)
    a.closes_consumer()
    t.rest("POST", f"{_sub(t)}/resetcursor", LATEST)
    _reads_on(a)


def a_cursor_is_reset_to_times(t: Trace) -> None:
    a = t.publisher(2)
    t.rest("PUT", _sub(t))
    t.rest("POST", f"{_sub(t)}/resetcursor/{PUBLISHED_MS}")
    _reads_on(a)
    a.closes_consumer()
    t.rest("POST", f"{_sub(t)}/resetcursor/{PUBLISHED_MS + 1}")
    _reads_on(a)
    a.closes_consumer()
    t.rest("POST", f"{_sub(t)}/resetcursor/0")
    _reads_on(a)


def a_cursor_is_reset_into_a_batch(t: Trace) -> None:
    a = t.publisher()
    batch = a.publishes_batch(3, b"three")
    t.rest("PUT", _sub(t))
    where = {"ledgerId": batch.ledgerId, "entryId": batch.entryId, "batchIndex": 1}
    t.rest("POST", f"{_sub(t)}/resetcursor", where)
    _reads_on(a)


def a_cursor_is_reset_under_its_consumer(t: Trace) -> None:
    a, b = t.publisher(3), t.connects()
    b.subscribes()
    b.permits(9)
    b.acks(b.receives(3))
    t.rest("POST", f"{_sub(t)}/resetcursor", EARLIEST)
    b.receives_rest()
    b.subscribes()
    b.permits(9)
    b.receives(3)
    a.closes_producer()


def a_cursor_that_is_not_there_is_reset(t: Trace) -> None:
    a = t.publisher(1)
    t.rest("POST", f"{_sub(t)}/resetcursor", EARLIEST)
    t.rest("POST", f"{_sub(t)}/resetcursor/{PUBLISHED_MS}")
    t.rest("GET", f"{t.path}/subscriptions")
    a.closes_producer()


# Of a namespace -------------------------------------------------------------------------------


def _namespace(t: Trace) -> str:
    t.rest("PUT", f"namespaces/public/{t.token}", {"bundles": {"numBundles": 1}})
    return f"public/{t.token}"


def backlogs_of_a_namespace_are_cleared(t: Trace) -> None:
    namespace = _namespace(t)
    path = f"persistent/{namespace}/topic"
    a = t.connects()
    a.produces(f"persistent://{namespace}/topic")
    t.rest("PUT", f"{path}/subscription/sub")
    t.rest("PUT", f"{path}/subscription/other")
    a.publishes(3)
    t.rest("POST", f"namespaces/{namespace}/clearBacklog/sub")
    a.subscribes(topic=f"persistent://{namespace}/topic")
    a.permits(9)
    a.receives_rest()
    t.rest("POST", f"namespaces/{namespace}/clearBacklog")
    a.subscribes(topic=f"persistent://{namespace}/topic", subscription="other", consumer_id=2)
    a.permits(9, consumer_id=2)
    a.receives_rest()


def a_subscription_is_removed_throughout_a_namespace(t: Trace) -> None:
    namespace = _namespace(t)
    for topic in ("one", "two"):
        t.rest("PUT", f"persistent/{namespace}/{topic}/subscription/sub")
    t.rest("PUT", f"persistent/{namespace}/one/subscription/other")
    t.rest("POST", f"namespaces/{namespace}/unsubscribe/sub")
    t.rest("GET", f"persistent/{namespace}/one/subscriptions")
    t.rest("GET", f"persistent/{namespace}/two/subscriptions")
    t.rest("POST", f"namespaces/{namespace}-absent/unsubscribe/sub")
    t.rest("POST", f"namespaces/{namespace}-absent/clearBacklog")
