"""The latest value of each key of a topic, in memory."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic

from magnetar.base.closing import Closing
from magnetar.base.errors import Closed, Damaged, MagnetarError, Undecodable
from magnetar.base.log_fields import about
from magnetar.base.values import V
from magnetar.clock import Clock
from magnetar.messages import Message
from magnetar.reader import Reader

logger = logging.getLogger(__name__)

LOOK_S = 0.01
Listener = Callable[[str | bytes, V | None], None]
"""Receives a key and its new value; None means that the key was removed."""


class TableView(Closing, Mapping[str | bytes, V], Generic[V]):
    """A mapping that follows a topic; created by `Client.table_view`, closed by `close`.

    A message with an empty or null value removes its key; one without key is ignored.  A message
    that cannot be decoded is logged, and does not change the value.
    """

    def __init__(self, reader: Reader[V], clock: Clock) -> None:
        self.topic = reader.topic
        self._reader = reader
        self._clock = clock
        self._values: dict[str | bytes, V] = {}
        self._listeners: list[Listener[V]] = []
        self._error: MagnetarError | None = None
        self._following: asyncio.Task[None] | None = asyncio.create_task(self._follow())

    # By identity: two views of a topic are different objects, as two connections are.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __getitem__(self, key: str | bytes) -> V:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self._values)

    def listen(self, listener: Listener[V]) -> None:
        """Call `listener(key, value)` for every later change; None: the key was removed."""
        self._listeners.append(listener)

    def for_each_and_listen(self, listener: Listener[V]) -> None:
        """Call `listener` for each present key, and for every later change."""
        for key, value in self._values.items():
            listener(key, value)
        self.listen(listener)

    async def refresh(self) -> None:
        """Wait until the view has all messages that are in the topic now; raises if it cannot."""
        while await self._reader.has_message_available():
            if self._error is not None:
                raise self._error
            await self._clock.sleep(LOOK_S)

    def forked(self, error: Closed) -> None:
        """Drop the task in a forked child, since it belongs to the parent; values stay readable."""
        self._error = error
        self._following = None

    async def close(self) -> None:
        """Stop following the topic; the values stay readable."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._reader.close()

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    messages = await self._reader.read_batch()
                except Damaged as error:  # the rest comes once the damaged entries are set aside
                    logger.warning("a table view waits for further messages: %s", error)
                    self._error = error
                    continue
                self._error = None
                for message in messages:
                    self._apply(message)
        except MagnetarError as error:
            self._error = error

    def _apply(self, message: Message[V]) -> None:
        key = message.key
        if key is None:
            return
        value: V | None = None
        if message.is_null or not message.data:
            if key not in self._values:
                return
            del self._values[key]
        else:
            try:
                value = self._values[key] = message.value
            except Undecodable as error:
                fields = about(topic=message.topic, message_id=message.id.text())
                logger.warning("%s", error, extra=fields)
                return
        for listener in self._listeners:
            _tell(listener, key, value)


def _tell(listener: Callable[..., Any], key: str | bytes, value: object) -> None:
    try:
        listener(key, value)
    except Exception:  # other listeners must still receive the change
        logger.exception("a listener of a table view failed")
