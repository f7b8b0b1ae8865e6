"""Acknowledges what finished batches have read, on the user's subscription.

The subscription protects unread messages from deletion, and shows the query's backlog at the
broker.  No message is received on it.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

import magnetar
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.source.offsets import Position

logger = logging.getLogger(__name__)


class Acknowledger:
    """Acknowledges for one query; a failure only causes a warning, because no message is lost."""

    def __init__(self, bridge: Bridge, subscription: str) -> None:
        self._bridge = bridge
        self._subscription = subscription
        self._consumers: dict[str, magnetar.Consumer[bytes]] = {}
        self._acked: dict[str, Position] = {}
        self._turn = asyncio.Lock()

    def ack(self, positions: Mapping[str, Position]) -> None:
        """Acknowledge all messages up to these positions, in the background."""
        new = {
            topic: position
            for topic, position in positions.items()
            if position > self._acked.get(topic, (-2, -2))
        }
        if new:
            self._acked.update(new)
            self._bridge.start(self._ack(new))

    async def _ack(self, positions: Mapping[str, Position]) -> None:
        async with self._turn:
            for topic, position in positions.items():
                try:
                    await self._ack_one(topic, position)
                except Exception as error:  # also a programming error: nobody awaits the task
                    logger.warning(
                        "%s: messages that were read cannot be acknowledged on subscription %s: %s",
                        topic, self._subscription, error,
                        exc_info=not isinstance(error, magnetar.MagnetarError),
                    )  # fmt: skip
                    self._acked.pop(topic, None)  # the next batch tries again
                    await self._leave(topic)

    async def _ack_one(self, topic: str, position: Position) -> None:
        consumer = self._consumers.get(topic)
        if consumer is None:
            consumer = self._consumers[topic] = await self._bridge.client.subscribe(
                topic,
                self._subscription,
                type="failover",
                initial_position="earliest",
                start_paused=True,
                create_topic=False,
            )
        if position[1] >= 0:
            consumer.ack_up_to_id(magnetar.MessageId(*position), topic)
            await consumer.flush()

    async def _leave(self, topic: str) -> None:
        consumer = self._consumers.pop(topic, None)
        if consumer is not None:
            with suppress(magnetar.MagnetarError):  # opening it has failed before
                await consumer.close()
