"""The last entry of each partition, kept up to date by a task in the background.

Spark asks for the latest offset without pause, and is answered from here.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import magnetar
from magnetar.base.concurrency import gather_all
from magnetar_proto.names import TopicName
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.errors import TopicMissing
from pyspark_magnetar.source.offsets import NOTHING, Position
from pyspark_magnetar.source.read_options import Polling, Topics
from pyspark_magnetar.source.view import View

logger = logging.getLogger(__name__)

GIVE_UP_S = 120.0
"""The time after which errors of the broker end the query, if no attempt succeeds."""


async def find_partitions(
    client: magnetar.Client, topics: Topics, *, all_exist: bool = True
) -> list[str]:
    """Return the partitions of the topics that exist now.

    With `all_exist`, a topic that does not exist raises TopicMissing, unless the option
    waitingForNonExistedTopic is set.  Without it, such a topic is omitted.
    """
    if topics.pattern is not None:
        names = await client.topics_matching(topics.pattern)
    else:
        names = []
        for name in topics.names:
            base = str(TopicName.parse(name).base)
            if await client.exists(base) or (base != name and await client.exists(name)):
                names.append(name)
            elif all_exist and not topics.may_be_missing:
                raise TopicMissing(name)
    return [part for name in names for part in await client.partitions(name)]


@dataclass(frozen=True, slots=True)
class Seen:
    """The last entries that one request to the broker has found."""

    last: Mapping[str, Position]
    """The last entry of each existing partition; `NOTHING` if it is empty."""


class Tail:
    """The last entries of all partitions, which are kept up to date until the process ends."""

    def __init__(
        self,
        bridge: Bridge,
        view: View,
        topics: Topics,
        polling: Polling,
        observe: Callable[[Mapping[str, Position]], None],
    ) -> None:
        """`observe` is called with every answer of the broker, in the order of the answers."""
        self._bridge = bridge
        self._view = view
        self._topics = topics
        self._polling = polling
        self._observe = observe
        self._readers: dict[str, magnetar.EntryReader] = {}
        self._discovered_s = float("-inf")
        self._changed = threading.Condition()
        self._seen: Seen | None = None
        self._error: Exception | None = None
        self._is_started = False

    def now(self) -> Seen:
        """Ask the broker for the last entries."""
        return self._bridge.run(self._look())

    @property
    def last_seen(self) -> Seen | None:
        """The last entries found most recently, without asking."""
        return self._seen

    def seen(self) -> Seen:
        """Return the last entries found most recently; the first call asks the broker."""
        if self._seen is None:
            self._seen = self.now()
        if not self._is_started:
            self._is_started = True
            self._bridge.start(self._run())
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._seen

    def wait(self, seen: Seen, timeout_s: float) -> Seen:
        """Wait until the last entries differ from `seen`; return them, or `seen` on timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._seen != seen or self._error is not None, timeout_s)
        return self.seen()

    def close(self) -> None:
        """Close the readers; the background task must not have been started."""
        readers = list(self._readers.values())
        self._readers.clear()
        for reader in readers:
            self._bridge.run(reader.close())

    async def _run(self) -> None:
        good_s = time.monotonic()
        while self._error is None:
            await asyncio.sleep(self._polling.poll_s)
            seen: Seen | None = None
            error: Exception | None = None
            try:
                seen = await self._look()
                good_s = time.monotonic()
            except magnetar.NotAuthorized as refused:  # no retry helps
                error = refused
            except magnetar.MagnetarError as failed:
                logger.warning("the ids of the last entries could not be read: %s", failed)
                if time.monotonic() - good_s > GIVE_UP_S:
                    error = failed
            except Exception as failed:  # the query would wait for ever
                error = failed
            # Threads of Spark wait for a change, so an unchanged answer wakes none of them.
            with self._changed:
                if error is not None or (seen is not None and seen != self._seen):
                    self._seen = seen or self._seen
                    self._error = error
                    self._changed.notify_all()

    async def _look(self) -> Seen:
        if time.monotonic() - self._discovered_s > self._polling.discovery_s:
            await self._discover()
            self._discovered_s = time.monotonic()
        parts = dict(self._readers)
        last = await gather_all(self._last(part, reader) for part, reader in parts.items())
        found = {part: at for part, at in zip(parts, last, strict=True) if at is not None}
        self._observe(found)
        return Seen(found)

    async def _last(self, partition: str, reader: magnetar.EntryReader) -> Position | None:
        try:
            found = await reader.last_message_id()
        # NotAllowed is said of partitions of a deleted topic, where use creates topics.
        except (magnetar.NotFound, magnetar.NotAllowed, magnetar.Closed):
            del self._readers[partition]
            await reader.close()
            return None
        return (found.ledger, found.entry) if found.entry >= 0 else NOTHING

    async def _discover(self) -> None:
        # Deleting a topic later is a loss of its messages: the others are still read.
        is_first = self._discovered_s == float("-inf")
        # promise[is_first -> True]: a query goes on with the topics that are left
        found = await find_partitions(self._view.client, self._topics, all_exist=is_first)
        for partition in found:
            if partition not in self._readers:
                self._readers[partition] = await self._view.reader(
                    partition, magnetar.LATEST, queue_size=0
                )
        for partition in set(self._readers) - set(found):
            await self._readers.pop(partition).close()
