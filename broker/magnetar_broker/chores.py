"""The jobs that a broker's upkeep does with its topics."""

from collections.abc import Awaitable, Callable, Iterator

from magnetar_broker.config import Settings
from magnetar_broker.non_persistent import NonPersistentTopic
from magnetar_broker.topic import Topic
from magnetar_broker.upkeep import Upkeep, each
from magnetar_storage.log import Engine

TIDYING = "tidying"
MEASURING = "measuring"
COMPACTION = "compaction"


class Chores:
    """One for a broker."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        topics: Callable[[], Iterator[Topic | NonPersistentTopic]],
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._topics = topics

    def enlist(self, upkeep: Upkeep) -> None:
        """Have all of them done."""
        settings = self._settings
        upkeep.every(settings.retention_check_interval_in_seconds, TIDYING, self._tidy)
        upkeep.every(settings.stats_update_frequency_in_secs, MEASURING, self._measure)
        seconds = settings.broker_service_compaction_monitor_interval_in_seconds
        upkeep.every(seconds, COMPACTION, self._compact)

    def _stored(self) -> Iterator[Topic]:
        """The persistent topics that are not being closed."""
        for topic in self._topics():
            if isinstance(topic, Topic) and not topic.closed:
                yield topic

    async def _tidy(self) -> None:
        """Roll old segments over and trim consumed ones, topic by topic."""

        def work(topic: Topic) -> Awaitable[None]:
            return topic.tidy()

        await each(self._engine.clock, self._stored(), work, "%s could not be trimmed: %s")

    async def _compact(self) -> None:
        """Begin to compact the topics of which so much waits that it is time."""

        def work(topic: Topic) -> Awaitable[None]:
            return topic.compact_if_due()

        await each(self._engine.clock, self._stored(), work, "%s could not be compacted: %s")

    async def _measure(self) -> None:
        """Close a window of rates."""
        seconds = self._settings.stats_update_frequency_in_secs
        for topic in self._topics():
            topic.meter.close_window(topic.totals(), seconds)
            for subscription in topic.subscriptions.values():
                for consumer in subscription.consumers:
                    consumer.meter.close_window(consumer.totals(), seconds)
