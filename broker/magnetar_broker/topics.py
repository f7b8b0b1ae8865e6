"""The loaded topics by name; each is opened, closed or deleted by one at a time."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from magnetar_broker.errors import NotReady
from magnetar_broker.non_persistent import NonPersistentTopic
from magnetar_broker.parallel import for_each
from magnetar_broker.topic import Topic
from magnetar_broker.turnstile import Turnstile
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Engine
from magnetar_storage.world import Promise

logger = logging.getLogger(__name__)

AnyTopic = Topic | NonPersistentTopic


class Topics:
    """One per broker.  Iterating gives those that are loaded now, whatever comes or goes then."""

    def __init__(self, engine: Engine, loads: int = 0) -> None:
        """`loads` is how many may be opened at a time, 0 for any number."""
        self.serving = False
        """Whether topics may be opened."""
        self.opened = 0
        """How many were, ever."""
        self.on_opened: Callable[[], None] = lambda: None
        """Called when one more is."""
        self._engine = engine
        self._clock = engine.clock
        self._loads = Turnstile(engine.clock, loads)
        self._loaded: dict[TopicName, AnyTopic] = {}
        self._of_namespace: dict[str, dict[TopicName, AnyTopic]] = {}
        self._busy: dict[TopicName, Promise] = {}
        self._families: dict[TopicName, Promise] = {}

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
        """Those of a namespace that are loaded now."""
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

    # Exclusion --------------------------------------------------------------------------

    @asynccontextmanager
    async def alone(self, name: TopicName) -> AsyncIterator[None]:
        """Let nobody else open, make, close or delete a topic of this name meanwhile."""
        await self._enter(name)
        try:
            yield
        finally:
            self._leave(name)

    async def _enter(self, name: TopicName) -> None:
        while (other := self._busy.get(name) or self._families.get(name.base)) is not None:
            await other
        self._busy[name] = self._clock.promise()

    def _leave(self, name: TopicName) -> None:
        self._busy.pop(name).set_result(None)

    @asynccontextmanager
    async def alone_with_partitions(self, name: TopicName) -> AsyncIterator[None]:
        """The same for a topic and every partition of it; `name` is none itself."""
        while (other := self._families.get(name)) is not None:
            await other
        family = self._families[name] = self._clock.promise()
        try:
            for member, busy in list(self._busy.items()):
                if member.base == name:
                    await busy
            yield
        finally:
            del self._families[name]
            family.set_result(None)

    def alone_with(self, name: TopicName) -> AbstractAsyncContextManager[None]:
        """The one or the other: all partitions belong to what is no partition."""
        return self.alone(name) if name.partition >= 0 else self.alone_with_partitions(name)

    async def settled(self, is_meant: Callable[[TopicName], bool]) -> None:
        """Wait for all that is being done now to topics among these."""
        for name, busy in [*self._busy.items(), *self._families.items()]:
            if is_meant(name):
                await busy

    # Coming and going -------------------------------------------------------------------

    async def load(self, name: TopicName, opening: Callable[[], Awaitable[AnyTopic]]) -> AnyTopic:
        """The topic; `opening` opens it unless somebody else was faster."""
        await self._enter(name)
        try:
            topic = self._loaded.get(name)
            if topic is None:
                if not self.serving:
                    raise NotReady("the broker is starting or stopping; try again")
                topic = await self._opened(opening)
                self._add(name, topic)
            return topic
        finally:
            self._leave(name)

    async def _opened(self, opening: Callable[[], Awaitable[AnyTopic]]) -> AnyTopic:
        await self._loads.enter()
        try:
            return await opening()
        finally:
            self._loads.leave()

    def drop(self, topic: AnyTopic) -> None:
        """A topic has ended by itself: forget it, so that the next request loads it anew."""
        if self._loaded.get(topic.name) is topic:
            self._remove(topic.name)

    def evict(
        self, names: list[TopicName], only_if: Callable[[AnyTopic], bool]
    ) -> list[AnyTopic] | None:
        """Take out those that are loaded, and send their clients away: the caller ends them.

        None, and nothing is done, if any is not as it must be.  Nobody gets in between.
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
        """Close a topic, if it is loaded, for the next request to open it anew.

        Its clients are sent away and come back by themselves.
        """
        async with self.alone(name):
            topic = self._loaded.get(name)
            if topic is not None and only_if(topic):
                self._remove(name)
                await topic.close()

    async def close(self) -> None:
        """Send every client away and seal every topic; nothing is opened any more."""
        self.serving = False
        await self.settled(lambda name: True)
        await for_each(self._engine, list(self), _seal)
        self._loaded.clear()
        self._of_namespace.clear()


async def _seal(topic: AnyTopic) -> None:
    try:
        await topic.close()
    except StorageError as error:
        logger.error("%s could not be sealed; it recovers at the next start: %s", topic.name, error)
