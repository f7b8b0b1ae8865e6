"""The common base of the official consumer and reader."""

from typing import Any, Protocol

import magnetar
from magnetar.base.background import Facade
from magnetar.compat.exceptions import InvalidConfiguration
from magnetar.compat.listening import Listening
from magnetar.compat.messages import Message, MessageId
from magnetar.compat.schema import Schema


class Registry(Protocol):
    """The client of a consumer or reader."""

    def _forget(self, receiver: "Receiving") -> None:
        """Called when the consumer or reader is closed."""


class Receiving:
    """Converts messages to those of the official client, and has at most one listener."""

    _client: Registry
    _facade: Facade[Any]
    _schema: Schema
    _listening: Listening | None = None

    def _message(self, received: magnetar.Message) -> Message:
        return Message._wrap(received, self._schema)

    def _check_no_listener(self, call: str) -> None:
        if self._listening is not None:
            raise InvalidConfiguration(f"{call} is not possible with a listener, which gets all")


def position(messageid: Any) -> magnetar.MessageId | int:
    """Return the target of a seek; ValueError unless it is an id or a time."""
    if isinstance(messageid, MessageId):
        return messageid._id
    if isinstance(messageid, magnetar.MessageId):
        return messageid
    if isinstance(messageid, int) and not isinstance(messageid, bool):
        return messageid
    raise ValueError(f"{messageid!r} is neither a message id nor a time in milliseconds")
