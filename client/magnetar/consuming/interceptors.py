"""Interceptors of consumers: an application's extensions for every message that is received."""

from collections.abc import Iterable, Sequence
from typing import Any

from magnetar.base.interceptors import Interceptors, log_failure
from magnetar.messages import Message
from magnetar_proto.ids import MessageId


class ConsumerInterceptor:
    """Methods to override in a subclass; an error in one is logged, and has no other effect.

    The client calls the methods in its event loop: they must not block.
    """

    def before_consume(self, message: Message[Any]) -> Message[Any]:
        """Return the message for the application; its `data` may be changed."""
        return message

    def on_ack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Called when messages were acknowledged, by the application or because they were moved."""

    def on_ack_up_to(self, topic: str, message_id: MessageId) -> None:
        """Called when all messages of a topic or partition up to this one were acknowledged."""

    def on_nack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Called when entries are redelivered because of `nack`; ids are those of entries."""

    def on_ack_timeout(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Called when entries are redelivered because the ack timeout has passed."""

    def close(self) -> None:
        """Called when the consumer was closed."""


class ConsumerInterceptors(Interceptors[ConsumerInterceptor]):
    """The interceptors of a consumer."""

    def before_consume(self, messages: Iterable[Message[Any]]) -> list[Message[Any]]:
        """Return the messages that result from calling all interceptors in order."""
        return [self._before_consume(message) for message in messages]

    def _before_consume(self, message: Message[Any]) -> Message[Any]:
        for one in self._interceptors:
            try:
                changed = one.before_consume(message)
                if not isinstance(changed, Message):
                    raise TypeError(f"before_consume returned {changed!r} instead of a Message")
                message = changed
            except Exception:
                log_failure(one, "before_consume")
        return message

    def on_ack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Notify all interceptors of acknowledged messages."""
        for one in self._interceptors:
            try:
                one.on_ack(topic, ids)
            except Exception:
                log_failure(one, "on_ack")

    def on_ack_up_to(self, topic: str, message_id: MessageId) -> None:
        """Notify all interceptors of a cumulative acknowledgement."""
        for one in self._interceptors:
            try:
                one.on_ack_up_to(topic, message_id)
            except Exception:
                log_failure(one, "on_ack_up_to")

    def on_nack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Notify all interceptors of entries redelivered after `nack`."""
        for one in self._interceptors if ids else ():
            try:
                one.on_nack(topic, ids)
            except Exception:
                log_failure(one, "on_nack")

    def on_ack_timeout(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Notify all interceptors of entries redelivered after the ack timeout."""
        for one in self._interceptors if ids else ():
            try:
                one.on_ack_timeout(topic, ids)
            except Exception:
                log_failure(one, "on_ack_timeout")
