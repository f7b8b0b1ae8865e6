"""The jobs that a broker's upkeep does with its topics."""

from collections.abc import Awaitable, Callable, Iterator

from magnetar_broker.config import Settings
from magnetar_broker.lifetime.expiry import expire_messages, expire_subscriptions
from magnetar_broker.lifetime.quotas import keep_to_quotas
from magnetar_broker.non_persistent import NonPersistentTopic
from magnetar_broker.pauses import pause
from magnetar_broker.topic import Topic
from magnetar_broker.upkeep import PAUSE_EVERY, Upkeep, each
from magnetar_storage.log import Engine

TIDYING = "tidying"
MEASURING = "measuring"
MESSAGE_EXPIRY = "expiry of messages"
SUBSCRIPTION_EXPIRY = "expiry of subscriptions"
QUOTAS = "check of backlog quotas"
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
        minutes = settings.message_expiry_check_interval_in_minutes
        upkeep.every(minutes * 60, MESSAGE_EXPIRY, self._expire_messages)
        minutes = settings.subscription_expiry_check_interval_in_minutes
        upkeep.every(minutes * 60, SUBSCRIPTION_EXPIRY, self._expire_subscriptions)
        seconds = settings.backlog_quota_check_interval_in_seconds
        upkeep.every(seconds, QUOTAS, self._keep_to_quotas)
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

    async def _expire_messages(self) -> None:
        """Acknowledge what is older than messages may get."""
        topics = (topic for topic in self._stored() if topic.limits.message_ttl_seconds > 0)
        complaint = "messages of %s could not expire: %s"
        await each(self._engine.clock, topics, expire_messages, complaint)

    async def _expire_subscriptions(self) -> None:
        """Delete subscriptions that nobody has used for too long."""
        seconds = self._settings.subscription_expiry_check_interval_in_minutes * 60

        def work(topic: Topic) -> Awaitable[None]:
            return expire_subscriptions(topic, seconds)

        complaint = "subscriptions of %s could not expire: %s"
        await each(self._engine.clock, self._stored(), work, complaint)

    async def _keep_to_quotas(self) -> None:
        """Do what backlog quotas say that are reached."""
        complaint = "the backlog quotas of %s could not be kept to: %s"
        await each(self._engine.clock, self._stored(), keep_to_quotas, complaint)

    async def _measure(self) -> None:
        """Close a window of rates."""
        seconds = self._settings.stats_update_frequency_in_secs
        for number, topic in enumerate(self._topics(), 1):
            if number % PAUSE_EVERY == 0:
                await pause(self._engine.clock)
            topic.meter.close_window(topic.totals(), seconds)
            for subscription in topic.subscriptions.values():
                for consumer in subscription.consumers:
                    consumer.meter.close_window(consumer.totals(), seconds)
