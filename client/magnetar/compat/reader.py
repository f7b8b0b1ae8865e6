"""The reader and the table view of the official client."""

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import magnetar
from magnetar.base.background import Facade
from magnetar.compat.checks import check, check_or_none
from magnetar.compat.exceptions import translated
from magnetar.compat.listening import CallbackThread
from magnetar.compat.messages import Message, MessageId, key_text
from magnetar.compat.receiving import Receiving, position
from magnetar.compat.schema import Schema


class Reader(Receiving):
    """Reads a topic from a position; created by `Client.create_reader`."""

    _facade: Facade[magnetar.Reader]
    _inclusive: bool

    def topic(self) -> str:
        """Return the full name of the topic."""
        return self._facade.wrapped.topic

    @translated
    def read_next(self, timeout_millis: int | None = None) -> Message:
        """Return the next message; Timeout if none comes in time."""
        check_or_none(int, timeout_millis, "timeout_millis")
        self._check_no_listener("read_next")
        timeout_s = None if timeout_millis is None else timeout_millis / 1000
        return self._message(self._facade.run(self._facade.wrapped.read, timeout_s))

    @translated
    def has_message_available(self) -> bool:
        """Return whether a message remains to be read."""
        return self._facade.run(self._facade.wrapped.has_message_available)

    @translated
    def seek(self, messageid: MessageId | magnetar.MessageId | int) -> None:
        """Continue after a message, or with messages published at a time in milliseconds or later.

        With the option start_message_id_inclusive it continues with the message itself.
        """
        self._facade.run(self._facade.wrapped.seek, position(messageid), self._inclusive)

    @translated
    def close(self) -> None:
        """Close the reader."""
        if self._listening is not None:
            self._facade.do(self._listening.close)
        self._client._forget(self)
        self._facade.run(self._facade.wrapped.close)

    def is_connected(self) -> bool:
        """Tell whether the reader is registered with the broker at the moment."""
        return self._facade.wrapped.is_connected


class TableView:
    """The latest value of each key; created by `Client.create_table_view`."""

    def __init__(
        self,
        table_view: Facade[magnetar.TableView],
        topic: str,
        subscription: str | None,
        schema: Schema,
    ) -> None:
        self._facade = table_view
        self._topic = topic
        self._subscription = subscription
        self._schema = schema
        self._callbacks = CallbackThread()

    @translated
    def get(self, key: str) -> Any | None:
        """Return the value of a key; None if the key has no value."""
        check(str, key, "key")
        found = self._facade.do(self._get, key)
        return None if found is None else self._schema._decode_received(found)

    def _get(self, key: str) -> Any | None:
        found = self._facade.wrapped.get(key)
        if found is None:
            with suppress(ValueError):  # the text is not base64
                found = self._facade.wrapped.get(base64.b64decode(key, validate=True))
        return found

    @translated
    def for_each(self, callback: Callable[[str, Any], None]) -> None:
        """Call `callback(key, value)` for each key of the view."""
        there: dict[str | bytes, Any] = self._facade.do(dict, self._facade.wrapped)
        for key, value in there.items():
            callback(key_text(key), self._schema._decode_received(value))

    @translated
    def for_each_and_listen(self, callback: Callable[[str, Any], None]) -> None:
        """Call `callback(key, value)` for each key of the view, and later for each change.

        A thread of the table view makes the calls; those for present keys precede the return.
        """
        callbacks, decoded = self._callbacks, self._schema._decode_received

        def tell(key: str | bytes, value: Any) -> None:
            if value is not None:
                callbacks.call(lambda: callback(key_text(key), decoded(value)))

        self._facade.do(self._facade.wrapped.for_each_and_listen, tell)
        callbacks.drain()

    @translated
    def close(self) -> None:
        """Stop following the topic."""
        self._facade.run(self._facade.wrapped.close)
        self._callbacks.close()

    def __len__(self) -> int:
        return len(self._facade.wrapped)

    def __str__(self) -> str:
        named = f", subscription={self._subscription}" if self._subscription is not None else ""
        return f"TableView(topic={self._topic}{named})"

    __repr__ = __str__
