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
    """List the subscriptions of a topic."""
    return Request("GET", f"{topic_path(topic)}/subscriptions", result=names_of)


def create(topic: str, subscription: str, start: MessageId = LATEST) -> Request[None]:
    """Create a subscription that starts behind a message, or with EARLIEST at the first one."""
    body = message_id_body(start)
    return Request("PUT", subscription_path(topic, subscription), body, result=nothing)


def delete(topic: str, subscription: str, *, force: bool = False) -> Request[None]:
    """Delete a subscription, with `force` even if it has consumers."""
    path = subscription_path(topic, subscription)
    return Request("DELETE", path, query=forced(force), result=nothing)


def why_not_delivering(topic: str, subscription: str) -> Request[Figures]:
    """Get the reason why a subscription delivers nothing, and the remedy (docs/statistics.md)."""
    path = f"{subscription_path(topic, subscription)}/whyNotDelivering"
    return Request("GET", path, result=dict)


def analyze_backlog(
    topic: str, subscription: str, start: MessageId | None = None
) -> Request[Figures]:
    """Read the unacknowledged entries, from a message on, and count their messages."""
    path = f"{subscription_path(topic, subscription)}/analyzeBacklog"
    body = None if start is None else message_id_body(start)
    return Request("POST", path, body, result=dict)


def consumer_of_key(topic: str, subscription: str, key: str) -> Request[Figures]:
    """Get the hash of a key, and the consumer that receives it, in a Key_Shared subscription."""
    path = f"{subscription_path(topic, subscription)}/keyHash"
    return Request("GET", path, query=given(key=key), result=dict)


def draining_hashes(topic: str, subscription: str) -> Request[Figures]:
    """Get the hashes of a Key_Shared subscription that wait for acks of a former consumer."""
    path = f"{subscription_path(topic, subscription)}/drainingHashes"
    return Request("GET", path, result=dict)


def properties(topic: str, subscription: str) -> Request[dict[str, str]]:
    """Get the properties of a subscription."""
    return Request("GET", f"{subscription_path(topic, subscription)}/properties", result=dict)


def set_properties(topic: str, subscription: str, properties: Mapping[str, str]) -> Request[None]:
    """Replace the properties of a subscription."""
    path = f"{subscription_path(topic, subscription)}/properties"
    return Request("PUT", path, dict(properties), result=nothing)


def skip(topic: str, subscription: str, messages: int) -> Request[None]:
    """Acknowledge the next `messages` messages."""
    path = f"{subscription_path(topic, subscription)}/skip/{messages}"
    return Request("POST", path, result=nothing)


def expire(topic: str, subscription: str, older_than_s: int) -> Request[None]:
    """Acknowledge all messages older than `older_than_s`."""
    path = f"{subscription_path(topic, subscription)}/expireMessages/{older_than_s}"
    return Request("POST", path, result=nothing)


def skip_all(topic: str, subscription: str) -> Request[None]:
    """Acknowledge the whole backlog of a subscription."""
    return Request("POST", f"{subscription_path(topic, subscription)}/skip_all", result=nothing)


def reset(topic: str, subscription: str, time_ms: int) -> Request[None]:
    """Reset a subscription to a time: also acknowledged messages since then are redelivered."""
    path = f"{subscription_path(topic, subscription)}/resetcursor/{time_ms}"
    return Request("POST", path, result=nothing)


def reset_to(topic: str, subscription: str, message_id: MessageId) -> Request[None]:
    """Reset a subscription to this message, which is redelivered with all that follow it."""
    path = f"{subscription_path(topic, subscription)}/resetcursor"
    return Request("POST", path, message_id_body(message_id), result=nothing)
