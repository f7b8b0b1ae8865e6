"""The periodic jobs that work on every loaded topic."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from magnetar_broker.base.errors import NoRoom
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.periodic_jobs import PAUSE_EVERY, PeriodicJobs, each
from magnetar_broker.config import Settings
from magnetar_broker.expiry.message_expiry import expire_messages, expire_subscriptions
from magnetar_broker.expiry.quotas import enforce_quotas
from magnetar_broker.expiry.trimming import end_consumed, trim_topic
from magnetar_broker.limits.unread_total import UnreadTotal
from magnetar_broker.topic.measuring import close_window
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_storage.errors import LogClosed, StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.runtime.execution import yield_turn

logger = logging.getLogger(__name__)

TRIMMING = "trimming of segments"
MEASURING = "measuring of rates"
MESSAGE_EXPIRY = "expiry of messages"
SUBSCRIPTION_EXPIRY = "expiry of subscriptions"
QUOTAS = "check of backlog quotas"
COMPACTION = "compaction"
OFFLOADING = "offloading of ledgers"
FREEING = "freeing of room"
FREE_SECONDS = 5
"""The seconds between two attempts while the disk lacks room."""


class Maintenance:
    """The periodic jobs of a broker on its loaded topics; call `register` once."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        topics: Callable[[], Iterator[Topic | NonPersistentTopic]],
        unread: UnreadTotal,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._topics = topics
        self._unread = unread

    def register(self, jobs: PeriodicJobs) -> None:
        """Register every job with its interval in seconds; an interval of 0 switches a job off."""
        settings = self._settings
        jobs.every(settings.retention_check_interval_in_seconds, TRIMMING, self._trim)
        jobs.every(settings.retention_check_interval_in_seconds, OFFLOADING, self._offload)
        jobs.every(settings.stats_update_frequency_in_secs, MEASURING, self._measure)
        minutes = settings.message_expiry_check_interval_in_minutes
        jobs.every(minutes * 60, MESSAGE_EXPIRY, self._expire_messages)
        minutes = settings.subscription_expiry_check_interval_in_minutes
        jobs.every(minutes * 60, SUBSCRIPTION_EXPIRY, self._expire_subscriptions)
        seconds = settings.backlog_quota_check_interval_in_seconds
        jobs.every(seconds, QUOTAS, self._enforce_quotas)
        seconds = settings.broker_service_compaction_monitor_interval_in_seconds
        jobs.every(seconds, COMPACTION, self._compact)
        jobs.every(FREE_SECONDS, FREEING, partial(self._free, jobs))
        self._engine.space.when_changed(self._room_changed)

    def _room_changed(self, lacks: bool) -> None:
        if lacks:
            self._engine.tasks.spawn(self._refuse_producers())

    def _stored(self) -> Iterator[Topic]:
        """Yield the persistent topics that are not being closed."""
        for topic in self._topics():
            if isinstance(topic, Topic) and not topic.closed:
                yield topic

    async def _trim(self) -> None:
        """Close old segments, and delete consumed segments that retention does not keep."""
        await each(self._engine.clock, self._stored(), trim_topic, "%s could not be trimmed: %s")
        disk = self._engine.space.figures()
        self._unread.end_check(disk.size if disk is not None else 0)

    async def _refuse_producers(self) -> None:
        """Disconnect all producers; they are refused until the disk has room again."""
        for number, topic in enumerate(self._stored(), 1):
            refusal = self._engine.space.refusal
            if refusal is None:
                return
            # promise: nothing is published on a disk that lacks room
            topic.producers.refuse(NoRoom(str(refusal)))
            if number % PAUSE_EVERY == 0:
                await yield_turn(self._engine.clock)

    async def _free(self, jobs: PeriodicJobs) -> None:
        """Delete data that nothing needs at once while the disk lacks room."""
        if self._engine.space.refusal is None:
            return
        for number, topic in enumerate(self._stored(), 1):
            end_consumed(topic)
            if number % PAUSE_EVERY == 0:
                await yield_turn(self._engine.clock)
        await jobs.run(TRIMMING)

    async def _compact(self) -> None:
        """Start the compaction of topics whose uncompacted data exceed the threshold."""
        if self._engine.space.refusal is not None:
            return  # it takes room before it frees any

        def work(topic: Topic) -> Awaitable[None]:
            return topic.compact_if_due()

        await each(self._engine.clock, self._stored(), work, "%s could not be compacted: %s")

    async def _offload(self) -> None:
        """Offload ledgers, and delete files of offloaded ones and unused objects, by policy."""

        async def work(topic: Topic) -> None:
            try:
                if topic.may_offload:
                    await topic.offloading.run_due()
            except LogClosed:
                pass  # it was unloaded meanwhile: its next owner continues
            except StorageError as error:
                logger.warning("offloading of %s failed and is retried: %s", topic.name, error)

        # Up to 64 at a time: they wait for the network, and threads limit what is transferred.
        await for_each(self._engine, list(self._stored()), work)

    async def _expire_messages(self) -> None:
        """Acknowledge messages that are older than their topic's time to live."""
        topics = (topic for topic in self._stored() if topic.limits.message_ttl_seconds > 0)
        failure = "messages of %s could not be expired: %s"
        await each(self._engine.clock, topics, expire_messages, failure)

    async def _expire_subscriptions(self) -> None:
        """Delete subscriptions that have had no consumer for their expiration time."""
        seconds = self._settings.subscription_expiry_check_interval_in_minutes * 60

        def work(topic: Topic) -> Awaitable[None]:
            return expire_subscriptions(topic, seconds)

        failure = "subscriptions of %s could not be expired: %s"
        await each(self._engine.clock, self._stored(), work, failure)

    async def _enforce_quotas(self) -> None:
        """Apply the action of every backlog quota that is exceeded."""
        failure = "the backlog quotas of %s could not be checked: %s"
        await each(self._engine.clock, self._stored(), enforce_quotas, failure)

    async def _measure(self) -> None:
        """Close the window over which rates are averaged."""
        seconds = self._settings.stats_update_frequency_in_secs
        for number, topic in enumerate(self._topics(), 1):
            if number % PAUSE_EVERY == 0:
                await yield_turn(self._engine.clock)
            close_window(topic, seconds)
