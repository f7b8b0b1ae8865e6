"""Counts the topics of namespaces that have a limit of them (maxTopicsPerNamespace)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from magnetar_broker.base.errors import LimitReached
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import Mutex

ANY_NUMBER = nullcontext()


class TopicCounts:
    """The number of topics per namespace, which are listed once and then follow `TopicEvents`."""

    def __init__(self, catalogue: Catalogue, events: TopicEvents, clock: Clock) -> None:
        self._catalogue = catalogue
        self._events = events
        self._listing = Mutex(clock)
        self._tallies: dict[str, _Tally] = {}

    def room(self, namespace: str, topics: int, limit: int) -> AbstractAsyncContextManager[None]:
        """Reserve room for `topics` topics while the body runs; `LimitReached` if too many exist.

        A `limit` of 0 means no limit.  Partitions count one by one, system topics do not.
        """
        if limit > 0:
            return self._room(namespace, topics, limit)
        self._forget(namespace)
        return ANY_NUMBER

    @asynccontextmanager
    async def _room(self, namespace: str, topics: int, limit: int) -> AsyncIterator[None]:
        tally = await self._tally(namespace)
        if len(tally.there) + tally.coming + topics > limit:
            raise LimitReached(
                f"{namespace} has {len(tally.there)} topics, and the limit is {limit} "
                "(maxTopicsPerNamespace): delete topics, or raise the limit"
            )
        tally.coming += topics
        try:
            yield
        finally:
            tally.coming -= topics

    async def _tally(self, namespace: str) -> "_Tally":
        async with self._listing.held():
            tally = self._tallies.get(namespace)
            if tally is None:
                tally = _Tally()
                tally.stop = self._events.watch(namespace, tally.topic_changed)
                try:
                    tally.fill(await self._catalogue.topics(namespace))
                except BaseException:
                    tally.stop()
                    raise
                self._tallies[namespace] = tally
            return tally

    def forget(self) -> None:
        """Count again: other topics exist by now.  No topic is being created."""
        for namespace in list(self._tallies):
            self._forget(namespace)

    def _forget(self, namespace: str) -> None:
        tally = self._tallies.pop(namespace, None)
        if tally is not None:
            tally.stop()


class _Tally:
    def __init__(self) -> None:
        self.there: set[TopicName] = set()
        self.coming = 0
        self.stop: Callable[[], None]
        self._early: list[tuple[TopicName, bool]] | None = []  # changes while listing

    def topic_changed(self, name: TopicName, exists: bool) -> None:
        if self._early is not None:
            self._early.append((name, exists))
        elif exists and not name.is_system:
            self.there.add(name)
        else:
            self.there.discard(name)

    def fill(self, listed: list[TopicName]) -> None:
        self.there.update(name for name in listed if not name.is_system)
        early, self._early = self._early or [], None
        for name, exists in early:
            self.topic_changed(name, exists)
