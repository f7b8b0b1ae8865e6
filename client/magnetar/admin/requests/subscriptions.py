"""Requests about the subscriptions of a topic."""

from collections.abc import Mapping

from magnetar.admin.requests.request import (
    Figures,
    Request,
    forced,
    given,
    message_id_body,
    names_of,
    nothing,
    subscription_path,
    topic_path,
)
from magnetar_proto.ids import LATEST, MessageId


def names(topic: str) -> Request[list[str]]:
    """Its subscriptions."""
    return Request("GET", f"{topic_path(topic)}/subscriptions", result=names_of)


def create(topic: str, subscription: str, start: MessageId = LATEST) -> Request[None]:
    """A subscription that begins behind a message, with EARLIEST at the first there is."""
    body = message_id_body(start)
    return Request("PUT", subscription_path(topic, subscription), body, result=nothing)


def delete(topic: str, subscription: str, *, force: bool = False) -> Request[None]:
    """Delete it, with `force` also if consumers use it."""
    path = subscription_path(topic, subscription)
    return Request("DELETE", path, query=forced(force), result=nothing)


def why_not_delivering(topic: str, subscription: str) -> Request[Figures]:
    """Why it delivers nothing, and what helps (docs/statistics.md)."""
    path = f"{subscription_path(topic, subscription)}/whyNotDelivering"
    return Request("GET", path, result=dict)


def analyze_backlog(
    topic: str, subscription: str, start: MessageId | None = None
) -> Request[Figures]:
    """Read what is not acknowledged, from a message on, and count what is in it."""
    path = f"{subscription_path(topic, subscription)}/analyzeBacklog"
    body = None if start is None else message_id_body(start)
    return Request("POST", path, body, result=dict)


def consumer_of_key(topic: str, subscription: str, key: str) -> Request[Figures]:
    """Of Key_Shared: the hash of a key, and the consumer that gets it."""
    path = f"{subscription_path(topic, subscription)}/keyHash"
    return Request("GET", path, query=given(key=key), result=dict)


def draining_hashes(topic: str, subscription: str) -> Request[Figures]:
    """Of Key_Shared: the hashes that wait for acknowledgements of a former consumer."""
    path = f"{subscription_path(topic, subscription)}/drainingHashes"
    return Request("GET", path, result=dict)


def properties(topic: str, subscription: str) -> Request[dict[str, str]]:
    """What was written down about it."""
    return Request("GET", f"{subscription_path(topic, subscription)}/properties", result=dict)


def set_properties(topic: str, subscription: str, properties: Mapping[str, str]) -> Request[None]:
    """Replace its properties."""
    path = f"{subscription_path(topic, subscription)}/properties"
    return Request("PUT", path, dict(properties), result=nothing)


def skip(topic: str, subscription: str, messages: int) -> Request[None]:
    """Acknowledge the next so many messages."""
    path = f"{subscription_path(topic, subscription)}/skip/{messages}"
    return Request("POST", path, result=nothing)


def expire(topic: str, subscription: str, older_than_s: int) -> Request[None]:
    """Acknowledge what was published so long ago."""
    path = f"{subscription_path(topic, subscription)}/expireMessages/{older_than_s}"
    return Request("POST", path, result=nothing)


def skip_all(topic: str, subscription: str) -> Request[None]:
    """Acknowledge its whole backlog."""
    return Request("POST", f"{subscription_path(topic, subscription)}/skip_all", result=nothing)


def reset(topic: str, subscription: str, time_ms: int) -> Request[None]:
    """Deliver what was published since a time again, also what was acknowledged."""
    path = f"{subscription_path(topic, subscription)}/resetcursor/{time_ms}"
    return Request("POST", path, result=nothing)


def reset_to(topic: str, subscription: str, message_id: MessageId) -> Request[None]:
    """Deliver from this message on, itself included, also what was acknowledged."""
    path = f"{subscription_path(topic, subscription)}/resetcursor"
    return Request("POST", path, message_id_body(message_id), result=nothing)
