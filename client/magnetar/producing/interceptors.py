"""Interceptors of producers: an application's extensions for every message that is sent."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from magnetar.base.interceptors import Interceptors, log_failure
from magnetar.messages import Outgoing
from magnetar.producing.sendable import checked
from magnetar_proto.ids import MessageId


class ProducerInterceptor:
    """Methods to override in a subclass; an error in one is logged, and has no other effect.

    The client calls the methods in its event loop: they must not block.
    """

    def before_send(self, topic: str, message: Outgoing) -> Outgoing:
        """Return the message to be sent in its place, before it is routed, batched and encrypted.

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


class ProducerInterceptors(Interceptors[ProducerInterceptor]):
    """The interceptors of a producer."""

    def __init__(self, topic: str, interceptors: Sequence[ProducerInterceptor]) -> None:
        super().__init__(interceptors)
        self._topic = topic

    def before_send(self, message: bytes | Outgoing) -> Outgoing:
        """Return the message that results from calling all interceptors in order."""
        outgoing = Outgoing(message) if isinstance(message, bytes) else message
        for one in self._interceptors:
            try:
                changed = one.before_send(self._topic, outgoing)
                if not isinstance(changed, Outgoing):
                    raise TypeError(f"before_send returned {changed!r} instead of an Outgoing")
                checked(changed)
                outgoing = changed
            except Exception:
                log_failure(one, "before_send")
        return outgoing

    @contextmanager
    def sending(self, message: Outgoing) -> Iterator[None]:
        """Notify all interceptors of the error if this block cannot send the message."""
        try:
            yield
        except BaseException as error:
            self.on_receipt(message, None, error)
            raise

    def on_receipt(
        self, message: Outgoing, message_id: MessageId | None, error: BaseException | None
    ) -> None:
        """Notify all interceptors of the outcome."""
        for one in self._interceptors:
            try:
                one.on_receipt(self._topic, message, message_id, error)
            except Exception:
                log_failure(one, "on_receipt")
