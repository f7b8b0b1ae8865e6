"""Requests about the subscriptions of a topic."""

from magnetar.admin.requests.request import (
    Request,
    forced,
    names_of,
    nothing,
    subscription_path,
    topic_path,
)


def names(topic: str) -> Request[list[str]]:
    """Its subscriptions."""
    return Request("GET", f"{topic_path(topic)}/subscriptions", result=names_of)


def create(topic: str, subscription: str) -> Request[None]:
    """A subscription that begins with what is published from now on."""
    return Request("PUT", subscription_path(topic, subscription), result=nothing)


def delete(topic: str, subscription: str, *, force: bool = False) -> Request[None]:
    """Delete it, with `force` also if consumers use it."""
    path = subscription_path(topic, subscription)
    return Request("DELETE", path, query=forced(force), result=nothing)


def skip_all(topic: str, subscription: str) -> Request[None]:
    """Acknowledge its whole backlog."""
    return Request("POST", f"{subscription_path(topic, subscription)}/skip_all", result=nothing)


def reset(topic: str, subscription: str, time_ms: int) -> Request[None]:
    """Deliver what was published since a time again, also what was acknowledged."""
    path = f"{subscription_path(topic, subscription)}/resetcursor/{time_ms}"
    return Request("POST", path, result=nothing)
