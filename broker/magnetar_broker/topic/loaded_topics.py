"""The loaded topics by name."""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from magnetar_broker.base.parallel import for_each
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine

logger = logging.getLogger(__name__)

AnyTopic = Topic | NonPersistentTopic


class Topics:
    """The loaded topics of a broker; an iteration yields those that are loaded when it begins."""

    def __init__(self, engine: Engine) -> None:
        self.opened = 0
        """The number of topics that were opened since the start."""
        self.on_opened: Callable[[], None] = lambda: None
        """Called when a topic was opened."""
        self.on_changed: Callable[[TopicName, bool], None] = lambda name, is_loaded: None
        """Called when a topic was opened, and when it is no longer loaded."""
        self._engine = engine
        self._loaded: dict[TopicName, AnyTopic] = {}
        self._of_namespace: dict[str, dict[TopicName, AnyTopic]] = {}
        self._ended_totals: dict[str, tuple[int, int, int, int]] = {}

    def __iter__(self) -> Iterator[AnyTopic]:
        return iter(list(self._loaded.values()))

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded

    def get(self, name: TopicName) -> AnyTopic | None:
        """Return the topic if it is loaded."""
        return self._loaded.get(name)

    def of_namespace(self, namespace: str) -> list[AnyTopic]:
        """Return the topics of a namespace that are loaded now."""
        return list(self._of_namespace.get(namespace, {}).values())

    def ended_totals(self) -> dict[str, tuple[int, int, int, int]]:
        """Return the sums of `totals` of topics that are no longer loaded, by namespace.

        A namespace is forgotten when it has no loaded topic.
        """
        return dict(self._ended_totals)

    def add(self, topic: AnyTopic) -> None:
        """Add a topic that was opened."""
        self._loaded[topic.name] = topic
        self._of_namespace.setdefault(topic.name.namespace_name, {})[topic.name] = topic
        self.opened += 1
        self.on_changed(topic.name, True)
        self.on_opened()

    def drop(self, topic: AnyTopic) -> None:
        """Remove a topic that has failed or ended: the next request opens it again."""
        # A topic of this name may have been loaded again meanwhile: that one stays.
        if self._loaded.get(topic.name) is not topic:
            return
        del self._loaded[topic.name]
        namespace, (a, b, c, d) = topic.name.namespace_name, topic.totals()
        w, x, y, z = self._ended_totals.get(namespace, (0, 0, 0, 0))
        # promise[a + w, b + x, c + y, d + -> w, x, y,]: the totals of a namespace never fall
        self._ended_totals[namespace] = a + w, b + x, c + y, d + z
        others = self._of_namespace[namespace]
        del others[topic.name]
        if not others:
            del self._of_namespace[namespace], self._ended_totals[namespace]
        self.on_changed(topic.name, False)

    async def close(self) -> None:
        """Disconnect all clients and seal all topics; no topic can be opened afterwards."""
        failed: dict[str, list[TopicName]] = {}
        await for_each(self._engine, list(self), partial(_seal, failed))
        for error, names in failed.items():
            logger.error(
                "%d topics could not be sealed (%s is one); they recover at the next start: %s",
                len(names),
                names[0],
                error,
            )
        for topic in self:
            self.drop(topic)


async def _seal(failed: dict[str, list[TopicName]], topic: AnyTopic) -> None:
    """Close a topic; if that fails, list it under its error in `failed`."""
    try:
        await topic.close()
    except StorageError as error:
        failed.setdefault(str(error), []).append(topic.name)
