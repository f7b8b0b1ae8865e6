"""What applications add to every message of a producer or consumer."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from magnetar.messages import Message, Outgoing
from magnetar.sendable import checked
from magnetar_proto.ids import MessageId

logger = logging.getLogger(__name__)


class ProducerInterceptor:
    """Subclass it and override what is needed; an error in a method is logged, and ends nothing.

    Methods are called in the loop of the client: they must not wait.
    """

    def before_send(self, topic: str, message: Outgoing) -> Outgoing:
        """What is sent in the place of the message, before it is routed, batched and encrypted.

        Its value is bytes, encoded by the schema if there is one.
        """
        return message

    def on_receipt(
        self,
        topic: str,
        message: Outgoing,
        message_id: MessageId | None,
        error: BaseException | None,
    ) -> None:
        """The message was stored with this id, or it was not for this reason."""

    def close(self) -> None:
        """The producer is closed."""


class ConsumerInterceptor:
    """Subclass it and override what is needed; an error in a method is logged, and ends nothing.

    Methods are called in the loop of the client: they must not wait.
    """

    def before_consume(self, message: Message[Any]) -> Message[Any]:
        """What the application receives in the place of the message; its `data` may be changed."""
        return message

    def on_ack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """These were acknowledged, one by one, by the application or because they were moved."""

    def on_ack_up_to(self, topic: str, message_id: MessageId) -> None:
        """Everything of this topic or partition up to this one was acknowledged."""

    def on_nack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """These entries are delivered again because of `nack`; the ids are those of entries."""

    def on_ack_timeout(self, topic: str, ids: Sequence[MessageId]) -> None:
        """These entries are delivered again because they were not acknowledged in time."""

    def close(self) -> None:
        """The consumer is closed."""


T = TypeVar("T", bound=ProducerInterceptor | ConsumerInterceptor)


class Interceptors(Generic[T]):
    """Those of a producer or consumer, called one after the other in their order."""

    def __init__(self, interceptors: Sequence[T]) -> None:
        self._interceptors = interceptors
        self._is_closed = False
        self.on_close: Callable[[Interceptors[Any]], None] | None = None
        """Called once, by the first `close`."""

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def close(self) -> None:
        """Tell all, once, that the producer or consumer is closed."""
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
        """The message as the last one has returned it."""
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
        """Tell all the outcome if the message fails to be sent here."""
        try:
            yield
        except BaseException as error:
            self.on_receipt(message, None, error)
            raise

    def on_receipt(
        self, message: Outgoing, message_id: MessageId | None, error: BaseException | None
    ) -> None:
        """Tell all the outcome."""
        for one in self._interceptors:
            try:
                one.on_receipt(self._topic, message, message_id, error)
            except Exception:
                _log(one, "on_receipt")


class ConsumerInterceptors(Interceptors[ConsumerInterceptor]):
    """The interceptors of a consumer."""

    def before_consume(self, messages: Iterable[Message[Any]]) -> list[Message[Any]]:
        """The messages as the last one has returned them."""
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
        """Tell all what was acknowledged."""
        for one in self._interceptors:
            try:
                one.on_ack(topic, ids)
            except Exception:
                _log(one, "on_ack")

    def on_ack_up_to(self, topic: str, message_id: MessageId) -> None:
        """Tell all up to where everything was acknowledged."""
        for one in self._interceptors:
            try:
                one.on_ack_up_to(topic, message_id)
            except Exception:
                _log(one, "on_ack_up_to")

    def on_nack(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Tell all what is delivered again."""
        for one in self._interceptors if ids else ():
            try:
                one.on_nack(topic, ids)
            except Exception:
                _log(one, "on_nack")

    def on_ack_timeout(self, topic: str, ids: Sequence[MessageId]) -> None:
        """Tell all what is delivered again."""
        for one in self._interceptors if ids else ():
            try:
                one.on_ack_timeout(topic, ids)
            except Exception:
                _log(one, "on_ack_timeout")


class OpenInterceptors:
    """Those of a client's producers and consumers that were not closed themselves."""

    def __init__(self) -> None:
        self._open: set[Interceptors[Any]] = set()

    def add(self, interceptors: Interceptors[Any]) -> None:
        """Tell these of the end of the client, unless their own one comes first."""
        if interceptors:
            self._open.add(interceptors)
            interceptors.on_close = self._open.discard

    def close(self) -> None:
        """Tell all that their producer or consumer is closed."""
        for interceptors in list(self._open):
            interceptors.close()


def _log(interceptor: object, method: str) -> None:
    logger.exception("%s of the interceptor %r failed", method, interceptor)
