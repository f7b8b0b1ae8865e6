"""How many topics a namespace has, for those namespaces that may not have any number of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from magnetar_broker.errors import LimitReached
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_proto.names import TopicName
from magnetar_storage.mutex import Mutex
from magnetar_storage.world import Clock

ANY_NUMBER = nullcontext()


class TopicCounts:
    """One per broker.  A namespace is listed once, then topics are counted as they come and go."""

    def __init__(self, catalogue: Catalogue, events: TopicEvents, clock: Clock) -> None:
        self._catalogue = catalogue
        self._events = events
        self._listing = Mutex(clock)
        self._tallies: dict[str, _Tally] = {}

    def room(self, namespace: str, topics: int, limit: int) -> AbstractAsyncContextManager[None]:
        """Meanwhile so many may be made; `LimitReached` if there would be too many.  0: no limit.

        Partitions count one by one, system topics do not.
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
                f"{namespace} has {len(tally.there)} topics and may have {limit} "
                "(maxTopicsPerNamespace): delete some, or raise the limit"
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
                tally.stop = self._events.watch(namespace, tally.heard)
                try:
                    tally.learn(await self._catalogue.topics(namespace))
                except BaseException:
                    tally.stop()
                    raise
                self._tallies[namespace] = tally
            return tally

    def _forget(self, namespace: str) -> None:
        tally = self._tallies.pop(namespace, None)
        if tally is not None:
            tally.stop()


class _Tally:
    def __init__(self) -> None:
        self.there: set[TopicName] = set()
        self.coming = 0
        self.stop: Callable[[], None]
        self._heard: list[tuple[TopicName, bool]] | None = []  # while listing

    def heard(self, name: TopicName, exists: bool) -> None:
        if self._heard is not None:
            self._heard.append((name, exists))
        elif exists and not name.is_system:
            self.there.add(name)
        else:
            self.there.discard(name)

    def learn(self, listed: list[TopicName]) -> None:
        self.there.update(name for name in listed if not name.is_system)
        heard, self._heard = self._heard or [], None
        for name, exists in heard:
            self.heard(name, exists)
