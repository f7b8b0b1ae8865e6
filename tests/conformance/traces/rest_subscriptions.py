"""Subscriptions over REST: headers, types and bad input."""

from typing import Any

from conformance.differences import differs
from conformance.rest_differences import BELOW_ZERO, ENCODED_ONCE, HALF_A_POSITION, REPLICATION
from conformance.trace import Trace

FIRST: dict[str, Any] = {"ledgerId": -1, "entryId": -1}


def the_answers_about_a_subscription(t: Trace) -> None:
    t.publisher(3)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("GET", f"{t.path}/subscriptions")
    t.web("GET", f"{t.path}/subscription/sub/properties")
    t.web("PUT", f"{t.path}/subscription/sub/properties", {"colour": "green"})
    t.web("GET", f"{t.path}/subscription/sub/properties")
    t.web("POST", f"{t.path}/subscription/sub/skip/1")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor/0")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor", FIRST)
    t.web("POST", f"{t.path}/subscription/sub/expireMessages/1000")
    t.web("POST", f"{t.path}/all_subscription/expireMessages/1000")
    t.web("POST", f"{t.path}/subscription/sub/skip_all")
    t.web("DELETE", f"{t.path}/subscription/sub")
    t.web("GET", f"{t.path}/subscriptions")


def where_a_subscription_begins(t: Trace) -> None:
    t.publisher(2)
    t.web("PUT", f"{t.path}/subscription/one", "earliest")
    t.web("PUT", f"{t.path}/subscription/two", "latest")
    t.web("PUT", f"{t.path}/subscription/three")
    t.web("PUT", f"{t.path}/subscription/four", b"null")
    t.web("GET", f"{t.path}/subscriptions")


def a_subscription_without_a_position(t: Trace) -> None:
    t.publisher(2)
    bodies: list[Any] = [{"properties": {"colour": "green"}}, {}, {"properties": None}, None]
    for number, body in enumerate(bodies):
        path = f"{t.path}/subscription/sub{number}"
        t.web("PUT", path, body)
        t.web("GET", f"{path}/properties")
        # 404 where it begins behind the last message
        t.web("GET", f"{path}/position/2", types=True)


@differs(HALF_A_POSITION)
def a_subscription_with_half_a_position(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("PUT", f"{t.path}/subscription/one", {"ledgerId": 1})
    t.web("PUT", f"{t.path}/subscription/two", {"entryId": 1})
    t.web("GET", f"{t.path}/subscriptions")


def _is_used(t: Trace, encoded: str) -> None:
    """A subscription whose name is in paths like this comes, is used and goes."""
    path = f"{t.path}/subscription/{encoded}"
    t.web("PUT", path, FIRST)
    t.web("GET", f"{t.path}/subscriptions")
    t.web("GET", f"{path}/position/1", types=True)
    t.web("POST", f"{path}/skip/1")
    t.web("POST", f"{path}/resetcursor/0")
    t.web("POST", f"{path}/resetcursor", FIRST)
    t.web("POST", f"{path}/skip_all")
    t.web("PUT", f"{path}/properties", {"colour": "green"})
    t.web("GET", f"{path}/properties")
    t.web("DELETE", path)
    t.web("GET", f"{t.path}/subscriptions")


def names_of_subscriptions_that_are_encoded_twice(t: Trace) -> None:
    t.publisher(1)
    for encoded in ("c%2Fd", "c%252Fd", "a%20b", "a%2520b", "a%2Bb", "a%252Bb", "%25C3%25A9%2525x"):
        _is_used(t, encoded)


@differs(ENCODED_ONCE)
def names_of_subscriptions_that_cannot_be_decoded_twice(t: Trace) -> None:
    t.publisher(1)
    for encoded in ("50%25", "p%25q"):
        _is_used(t, encoded)


def beginnings_that_are_none(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("PUT", f"{t.path}/subscription/sub", b"{")
    t.web("PUT", f"{t.path}/subscription/sub", [1])
    t.web("PUT", f"{t.path}/subscription/sub", {"ledgerId": "first", "entryId": 0})
    t.web("GET", f"{t.path}/subscriptions")


def a_subscription_that_is_there(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("PUT", f"{t.path}/subscription/sub")
    t.web("PUT", f"{t.path}/subscription/sub")


def a_subscription_that_is_not_there(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("DELETE", f"{t.path}/subscription/none")
    t.web("GET", f"{t.path}/subscription/none/properties")
    t.web("PUT", f"{t.path}/subscription/none/properties", {"a": "b"})
    t.web("POST", f"{t.path}/subscription/none/resetcursor", FIRST)


def a_subscription_of_a_topic_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"{t.path}/subscription/sub/properties")
    t.web("DELETE", f"{t.path}/subscription/sub")
    t.web("POST", f"{t.path}/subscription/sub/skip/1")
    t.web("POST", f"{t.path}/subscription/sub/skip_all")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor/0")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor", FIRST)


def numbers_of_messages_that_are_none(t: Trace) -> None:
    t.publisher(1)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("POST", f"{t.path}/subscription/sub/skip/many")
    t.web("POST", f"{t.path}/subscription/sub/expireMessages/long")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor/yesterday")


@differs(BELOW_ZERO)
def messages_that_expire_before_they_come(t: Trace) -> None:
    t.publisher(1)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("POST", f"{t.path}/subscription/sub/expireMessages/-1")


def positions_that_are_none(t: Trace) -> None:
    t.publisher(1)
    t.web("PUT", f"{t.path}/subscription/sub", FIRST)
    t.web("POST", f"{t.path}/subscription/sub/resetcursor", b"{")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor", [1])
    t.web("POST", f"{t.path}/subscription/sub/resetcursor", {"ledgerId": "x", "entryId": 0})
    t.web("POST", f"{t.path}/subscription/sub/expireMessages", b"{")


def properties_that_are_none(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("PUT", f"{t.path}/subscription/sub")
    t.web("PUT", f"{t.path}/subscription/sub/properties", [1])
    t.web("PUT", f"{t.path}/subscription/sub/properties", b"{")
    t.web("GET", f"{t.path}/subscription/sub/properties")


def a_subscription_that_has_a_consumer(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    t.web("DELETE", f"{t.path}/subscription/sub")
    t.web("DELETE", f"{t.path}/subscription/sub?force=true")
    a.receives_rest()


def subscriptions_of_a_partitioned_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.web("PUT", f"{t.path}/subscription/sub")
    t.web("GET", f"{t.path}/subscriptions")
    t.web("GET", f"{t.path}-partition-1/subscriptions")
    t.web("POST", f"{t.path}/subscription/sub/skip/1")
    t.web("POST", f"{t.path}/subscription/sub/skip_all")
    t.web("POST", f"{t.path}/subscription/sub/resetcursor", FIRST)
    t.web("POST", f"{t.path}/subscription/sub/resetcursor/0")
    t.web("DELETE", f"{t.path}/subscription/sub")


@differs(REPLICATION)
def subscriptions_that_are_replicated(t: Trace) -> None:
    t.web("PUT", t.path)
    t.web("PUT", f"{t.path}/subscription/sub")
    t.web("GET", f"{t.path}/subscription/sub/replicatedSubscriptionStatus")
    t.web("POST", f"{t.path}/subscription/sub/replicatedSubscriptionStatus", True)
