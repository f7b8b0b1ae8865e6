"""A watch on topics: the broker reports those that are created or deleted."""

import asyncio
import itertools
import logging
from collections.abc import Callable

from magnetar.base.errors import BrokerError, Closed, MagnetarError
from magnetar.base.log_fields import about
from magnetar.clock import Clock
from magnetar.connections.connection import Connection
from magnetar.connections.lookup import pattern_of
from magnetar.connections.pool import Pool
from magnetar_proto import PulsarApi_pb2 as pb

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class TopicWatch:
    """Calls `changed` when the broker reports topics, created or deleted, that match a pattern.

    If the broker does not support this, nothing is called: the caller must look periodically.
    """

    _ids = itertools.count(1)

    def __init__(self, pool: Pool, pattern: str, changed: Callable[[], None], clock: Clock) -> None:
        domain, namespace, expression = pattern_of(pattern)
        self._pool = pool
        self._namespace = namespace
        self._pattern = f"{namespace}/{expression}"
        self._is_possible = domain == "persistent"
        self._changed = changed
        self._clock = clock
        self._id = next(self._ids)
        self._connection: Connection | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Start the watch, if the broker supports it."""
        if not self._is_possible or self._is_closed:
            return
        connection = await self._pool.service()
        connection.add_watcher(self._id, self)
        try:
            await connection.request(
                pb.CommandWatchTopicList(
                    watcher_id=self._id, namespace=self._namespace, topics_pattern=self._pattern
                )
            )
        except BrokerError as refusal:
            connection.remove_watcher(self._id)
            self._is_possible = refusal.retriable
            what = "topics of %s are polled, not watched: %s"
            logger.info(what, self._pattern, refusal, extra=about(pattern=self._pattern))
            return
        self._connection = connection

    def topics_changed(self) -> None:
        self._changed()

    def detached(self, connection: Connection, error: MagnetarError, new_owner: str = "") -> None:
        self._connection = None
        if not self._is_closed and (self._beginning is None or self._beginning.done()):
            self._beginning = asyncio.create_task(self._begin_again())

    async def _begin_again(self) -> None:
        while self._connection is None and self._is_possible and not self._is_closed:
            await self._clock.sleep(RETRY_S)
            try:
                await self.open()
            except MagnetarError as error:
                what = "watching %s is tried again: %s"
                logger.info(what, self._pattern, error, extra=about(pattern=self._pattern))
        self._changed()  # something may have happened meanwhile

    def forked(self, error: Closed) -> None:
        """Drop task and connection in a forked child: they are the parent's."""
        self._is_closed = True
        self._beginning = self._connection = None

    async def close(self) -> None:
        """Stop the watch."""
        self._is_closed = True
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            connection.remove_watcher(self._id)
            connection.send_only(pb.CommandWatchTopicListClose(watcher_id=self._id))
