"""The loaded topics by name."""

import logging
from collections.abc import Awaitable, Callable, Iterator

from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.semaphore import Semaphore
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_broker.topic.topic_locks import TopicLocks
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine

logger = logging.getLogger(__name__)

AnyTopic = Topic | NonPersistentTopic


class Topics:
    """One per broker.  Iterating gives those that are loaded now, however the set changes then."""

    def __init__(self, engine: Engine, loads: int = 0) -> None:
        """`loads` is how many topics are opened concurrently at most; 0 is no limit."""
        self.serving = False
        """Whether topics are opened; False while the broker starts and stops."""
        self.opened = 0
        """How many topics were opened since the start."""
        self.on_opened: Callable[[], None] = lambda: None
        """Called when a topic was opened."""
        self.locks = TopicLocks(engine.clock)
        """To be held while a topic is opened, created, closed or deleted."""
        self._engine = engine
        self._loads = Semaphore(engine.clock, loads)
        self._loaded: dict[TopicName, AnyTopic] = {}
        self._of_namespace: dict[str, dict[TopicName, AnyTopic]] = {}

    def __iter__(self) -> Iterator[AnyTopic]:
        return iter(list(self._loaded.values()))

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded

    def get(self, name: TopicName) -> AnyTopic | None:
        """The topic if it is loaded."""
        return self._loaded.get(name)

    def of_namespace(self, namespace: str) -> list[AnyTopic]:
        """The topics of a namespace that are loaded now."""
        return list(self._of_namespace.get(namespace, {}).values())

    def _add(self, name: TopicName, topic: AnyTopic) -> None:
        self._loaded[name] = topic
        self._of_namespace.setdefault(name.namespace_name, {})[name] = topic
        self.opened += 1
        self.on_opened()

    def _remove(self, name: TopicName) -> None:
        del self._loaded[name]
        others = self._of_namespace[name.namespace_name]
        del others[name]
        if not others:
            del self._of_namespace[name.namespace_name]

    # Loading and unloading -------------------------------------------------------------------

    async def load(self, name: TopicName, opening: Callable[[], Awaitable[AnyTopic]]) -> AnyTopic:
        """The topic; `opening` opens it if it is not loaded.

        `NotReady` while the broker starts or stops.
        """
        async with self.locks.held(name):
            topic = self._loaded.get(name)
            if topic is None:
                if not self.serving:
                    raise NotReady("the broker is starting or stopping; try again")
                topic = await self._opened(opening)
                self._add(name, topic)
            return topic

    async def _opened(self, opening: Callable[[], Awaitable[AnyTopic]]) -> AnyTopic:
        await self._loads.acquire()
        try:
            return await opening()
        finally:
            self._loads.release()

    def drop(self, topic: AnyTopic) -> None:
        """Remove a topic that has failed or ended, so that the next request opens it again."""
        # A topic of this name may have been loaded again meanwhile: that one stays.
        if self._loaded.get(topic.name) is topic:
            self._remove(topic.name)

    def evict(
        self, names: list[TopicName], only_if: Callable[[AnyTopic], bool]
    ) -> list[AnyTopic] | None:
        """Remove the loaded ones of these topics and disconnect their clients.

        The caller closes or deletes the topics that are returned.  None, and nothing is done, if
        `only_if` is false for one of them.  One step: no other coroutine runs in between.
        """
        loaded = [self._loaded[name] for name in names if name in self._loaded]
        if not all(map(only_if, loaded)):
            return None
        for topic in loaded:
            self._remove(topic.name)
            topic.disconnect()
        return loaded

    async def unload(
        self, name: TopicName, only_if: Callable[[AnyTopic], bool] = lambda _: True
    ) -> None:
        """Close a topic, if it is loaded and `only_if` is true; the next request opens it again.

        Its clients are disconnected, and reconnect by themselves.
        """
        async with self.locks.held(name):
            topic = self._loaded.get(name)
            if topic is not None and only_if(topic):
                self._remove(name)
                await topic.close()

    async def close(self) -> None:
        """Disconnect all clients and seal all topics; from now on no topic is opened."""
        self.serving = False
        # Loads that had begun before `serving` was cleared end first, so that none is left open.
        await self.locks.settled(lambda name: True)
        await for_each(self._engine, list(self), _seal)
        self._loaded.clear()
        self._of_namespace.clear()


async def _seal(topic: AnyTopic) -> None:
    try:
        await topic.close()
    except StorageError as error:
        logger.error("%s could not be sealed; it recovers at the next start: %s", topic.name, error)
