"""Interceptors: an application's extensions for every message of a producer or consumer."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from magnetar.messages import Message, Outgoing
from magnetar.sendable import checked
from magnetar_proto.ids import MessageId

logger = logging.getLogger(__name__)


class ProducerInterceptor:
    """Methods to override in a subclass; an error in one is logged, and has no other effect.

    The client calls the methods in its event loop: they must not block.
    """

    def before_send(self, topic: str, message: Outgoing) -> Outgoing:
        """Return the message to send instead, before it is routed, batched and encrypted.

        Its value is bytes, encoded by the schema if the producer has one.
        """
        return message

    def on_receipt(
        self,
        topic: str,
        message: Outgoing,
        message_id: MessageId | None,
        error: BaseException | None,
    ) -> None:
        """Called when the message was stored with this id, or failed with this error."""

    def close(self) -> None:
        """Called when the producer was closed."""


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
        """Called when entries are redelivered because they were not acknowledged in time."""

    def close(self) -> None:
        """Called when the consumer was closed."""


T = TypeVar("T", bound=ProducerInterceptor | ConsumerInterceptor)


class Interceptors(Generic[T]):
    """The interceptors of a producer or consumer, called one after the other in order."""

    def __init__(self, interceptors: Sequence[T]) -> None:
        self._interceptors = interceptors
        self._is_closed = False
        self.on_close: Callable[[Interceptors[Any]], None] | None = None
        """Called once, by the first `close`."""

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def close(self) -> None:
        """Tell all interceptors, once, that the producer or consumer is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        for one in self._interceptors:
            try:
                one.close()
            except Exception:
                _log(one, "close")
        if self.on_close is not None:
            self.on_close(self)


class ProducerInterceptors(Interceptors[ProducerInterceptor]):
    """The interceptors of a producer."""

    def __init__(self, topic: str, interceptors: Sequence[ProducerInterceptor]) -> None:
        super().__init__(interceptors)
        self._topic = topic

    def before_send(self, message: bytes | Outgoing) -> Outgoing:
        """Return the message as the last interceptor has returned it."""
        outgoing = Outgoing(message) if isinstance(message, bytes) else message
        for one in self._interceptors:
            try:
                changed = one.before_send(self._topic, outgoing)
                if not isinstance(changed, Outgoing):
                    raise TypeError(f"before_send returned {changed!r} instead of an Outgoing")
                checked(changed)
                outgoing = changed
            except Exception:
                _log(one, "before_send")
        return outgoing

    @contextmanager
    def sending(self, message: Outgoing) -> Iterator[None]:
        """Tell all interceptors the error if the message cannot be sent in this block."""
        try:
            yield
        except BaseException as error:
            self.on_receipt(message, None, error)
            raise

    def on_receipt(
        self, message: Outgoing, message_id: MessageId | None, error: BaseException | None
    ) -> None:
        """Tell all interceptors the outcome."""
        for one in self._interceptors:
            try:
                one.on_receipt(self._topic, message, message_id, error)
            except Exception:
                _log(one, "on_receipt")


class ConsumerInterceptors(Interceptors[ConsumerInterceptor]):
    """The interceptors of a consumer."""

    def before_consume(self, messages: Iterable[Message[Any]]) -> list[Message[Any]]:
        """Return the messages as the last interceptor has returned them."""
        return [self._before_consume(message) for message in messages]

    def _before_consume(self, message: Message[Any]) -> Message[Any]:
        for one in self._interceptors:
            try:
                changed = one.before_consume(message)
                if not isinstance(changed, Message):
                    raise TypeError(f"before_consume returned {changed!r} instead of a Message")
                message = changed
            except Exception:
                _log(one, "before_consume")
        return message

    def on_ack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Tell all interceptors which messages were acknowledged."""
        for one in self._interceptors:
            try:
                one.on_ack(topic, ids)
            except Exception:
                _log(one, "on_ack")

    def on_ack_up_to(self, topic: str, message_id: MessageId) -> None:
        """Tell all interceptors up to which message everything was acknowledged."""
        for one in self._interceptors:
            try:
                one.on_ack_up_to(topic, message_id)
            except Exception:
                _log(one, "on_ack_up_to")

    def on_nack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Tell all interceptors which entries are redelivered."""
        for one in self._interceptors if ids else ():
            try:
                one.on_nack(topic, ids)
            except Exception:
                _log(one, "on_nack")

    def on_ack_timeout(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Tell all interceptors which entries are redelivered."""
        for one in self._interceptors if ids else ():
            try:
                one.on_ack_timeout(topic, ids)
            except Exception:
                _log(one, "on_ack_timeout")


class OpenInterceptors:
    """The interceptors of a client's producers and consumers that are still open."""

    def __init__(self) -> None:
        self._open: set[Interceptors[Any]] = set()

    def add(self, interceptors: Interceptors[Any]) -> None:
        """Tell these interceptors of the client's end, unless their owner was closed before."""
        if interceptors:
            self._open.add(interceptors)
            interceptors.on_close = self._open.discard

    def close(self) -> None:
        """Tell all interceptors that their producer or consumer is closed."""
        for interceptors in list(self._open):
            interceptors.close()


def _log(interceptor: object, method: str) -> None:
    logger.exception("%s of the interceptor %r failed", method, interceptor)
