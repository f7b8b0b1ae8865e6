"""Requests about the subscriptions of a topic."""

from collections.abc import Mapping

from magnetar.admin.requests.request import (
    Figures,
    Request,
    ask,
    forced,
    given,
    message_id_body,
    names_of,
    nothing,
)
from magnetar_proto.ids import LATEST, MessageId


def names(topic: str) -> Request[list[str]]:
    """List the subscriptions of a topic."""
    return ask("subscriptions.subscriptions", topic, result=names_of)


def create(topic: str, subscription: str, start: MessageId = LATEST) -> Request[None]:
    """Create a subscription that starts after a message, or with EARLIEST at the first one."""
    body = message_id_body(start)
    return ask("subscriptions.create", topic, subscription, body=body, result=nothing)


def delete(topic: str, subscription: str, *, force: bool = False) -> Request[None]:
    """Delete a subscription, with `force` even if it has consumers."""
    return ask("subscriptions.delete", topic, subscription, query=forced(force), result=nothing)


def why_not_delivering(topic: str, subscription: str) -> Request[Figures]:
    """Get the reason why a subscription delivers nothing, and the remedy (docs/statistics.md)."""
    return ask("statistics.why", topic, subscription, result=dict)


def analyze_backlog(
    topic: str, subscription: str, start: MessageId | None = None
) -> Request[Figures]:
    """Read the unacknowledged entries, from a message on, and count their messages."""
    body = None if start is None else message_id_body(start)
    return ask("messages.reading.analyze", topic, subscription, body=body, result=dict)


def consumer_of_key(topic: str, subscription: str, key: str) -> Request[Figures]:
    """Get the hash of a key, and the consumer that receives it, in a Key_Shared subscription."""
    return ask("statistics.key_hash", topic, subscription, query=given(key=key), result=dict)


def draining_hashes(topic: str, subscription: str) -> Request[Figures]:
    """Get the hashes of a Key_Shared subscription that wait for acks of a former consumer."""
    return ask("statistics.draining", topic, subscription, result=dict)


def properties(topic: str, subscription: str) -> Request[dict[str, str]]:
    """Get the properties of a subscription."""
    return ask("subscriptions.properties", topic, subscription, result=dict)


def set_properties(topic: str, subscription: str, properties: Mapping[str, str]) -> Request[None]:
    """Replace the properties of a subscription."""
    return ask(
        "subscriptions.set_properties", topic, subscription, body=dict(properties), result=nothing
    )


def skip(topic: str, subscription: str, messages: int) -> Request[None]:
    """Acknowledge the next `messages` messages."""
    return ask("messages.backlog_actions.skip", topic, subscription, messages, result=nothing)


def expire(topic: str, subscription: str, older_than_s: int) -> Request[None]:
    """Acknowledge all messages older than `older_than_s`."""
    return ask("messages.backlog_actions.expire", topic, subscription, older_than_s, result=nothing)


def skip_all(topic: str, subscription: str) -> Request[None]:
    """Acknowledge the whole backlog of a subscription."""
    return ask("messages.backlog_actions.skip_everything", topic, subscription, result=nothing)


def reset(topic: str, subscription: str, time_ms: int) -> Request[None]:
    """Reset a subscription to a time: messages since then are delivered, acknowledged or not."""
    return ask(
        "messages.backlog_actions.reset_to_time", topic, subscription, time_ms, result=nothing
    )


def reset_to(topic: str, subscription: str, message_id: MessageId) -> Request[None]:
    """Reset a subscription to this message, which is redelivered with all that follow it."""
    return ask(
        "messages.backlog_actions.reset_to_message",
        topic,
        subscription,
        body=message_id_body(message_id),
        result=nothing,
    )
