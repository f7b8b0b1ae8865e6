"""Deletes topics that have been inactive for long enough (`inactiveTopicPolicies`).

Idle time is the sum of the intervals between two checks that found the topic inactive: neither a
changed clock nor time in which the topic was not loaded counts.
"""

import logging
from dataclasses import dataclass

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.periodic_jobs import each
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import InactiveMode
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.deletion import Deletion
from magnetar_broker.policies.resolver import Policies
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import INACTIVE_TOPICS, RETENTION
from magnetar_broker.policies.values import InactiveTopics
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.world.runtime import Clock

logger = logging.getLogger(__name__)

INACTIVE = "deletion of inactive topics"


@dataclass(frozen=True, slots=True)
class Use:
    """What a topic is used for, as far as that keeps it."""

    producers: bool
    subscriptions: bool
    behind: bool
    """Whether a subscription has something to consume."""
    entries: bool
    """Whether anything is stored."""

    def is_none(self, mode: InactiveMode) -> bool:
        """Whether the topic is inactive."""
        kept = self.subscriptions if mode is InactiveMode.NO_SUBSCRIPTIONS else self.behind
        return not (self.producers or kept)


def is_over(idle_seconds: float, use: Use, rule: InactiveTopics, retention: Retention) -> bool:
    """Whether to delete a topic that was idle for so long; not while retention keeps entries."""
    if not rule.delete or not use.is_none(rule.mode) or idle_seconds < rule.seconds:
        return False
    # A topic is not deleted with entries that retention still promises; negative is for ever.
    retained = use.entries and (retention.minutes < 0 or idle_seconds < retention.minutes * 60)
    return not retained


def use_of(topic: AnyTopic) -> Use:
    """The present use of a loaded topic."""
    producers = bool(topic.producers) or bool(topic.producers.waiting)
    if not isinstance(topic, Topic):
        return Use(producers, bool(topic.subscriptions), bool(topic.subscriptions), False)
    end = topic.log.end
    behind = any(one.next_unacked() < end for one in topic.subscriptions.values())
    return Use(producers, bool(topic.subscriptions), behind, end > topic.log.first_offset)


class Inactive:
    """Finds and deletes inactive topics; one per broker."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        policies: Policies,
        catalogue: Catalogue,
        topics: Topics,
        deletion: Deletion,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._policies = policies
        self._catalogue = catalogue
        self._topics = topics
        self._deletion = deletion
        self._idle: dict[AnyTopic, tuple[float, int]] = {}
        """Idle seconds of inactive topics, and the number of messages published by then."""

    async def look(self) -> None:
        """Count the idle time of loaded topics, and delete those whose time is over."""
        seconds = self._settings.broker_delete_inactive_topics_frequency_seconds
        present = list(self._topics)
        over: list[AnyTopic] = []

        async def count(topic: AnyTopic) -> None:
            if self._counted(topic, seconds):
                over.append(topic)

        await each(self._clock, present, count, "cannot determine whether %s is inactive: %s")
        # Topics that were unloaded begin again at 0 when they are loaded.
        for topic in self._idle.keys() - set(present):
            del self._idle[topic]
        await each(self._clock, over, self._delete, "inactive %s was not deleted: %s")

    def _counted(self, topic: AnyTopic, seconds: float) -> bool:
        """Add to the idle time; returns whether it is over."""
        rule = self._policies.value(INACTIVE_TOPICS, topic.name)
        # System topics are never deleted for being idle, as in Pulsar: the broker uses them rarely.
        kept = topic.producers or not rule.delete or topic.name.is_system
        if kept or not use_of(topic).is_none(rule.mode):
            self._idle.pop(topic, None)
            return False
        # The first check that finds it idle counts as 0: since when it is idle is not known.  A
        # producer may have come, published and left between two checks, which begins again.
        idle, messages = self._idle.get(topic, (-seconds, topic.appender.messages_in))
        idle = idle + seconds if messages == topic.appender.messages_in else 0
        self._idle[topic] = idle, topic.appender.messages_in
        return self._is_over(topic)

    def _is_over(self, topic: AnyTopic) -> bool:
        idle, messages = self._idle.get(topic, (0, 0))
        rule = self._policies.value(INACTIVE_TOPICS, topic.name)
        retention = self._policies.value(RETENTION, topic.name)
        published = messages != topic.appender.messages_in
        return not published and is_over(idle, use_of(topic), rule, retention)

    async def _delete(self, topic: AnyTopic) -> None:
        name = topic.name
        try:
            if isinstance(topic, Topic):
                await self._deletion.topics.delete_inactive(name, self._is_over)
            else:
                await self._topics.unload(name, self._is_over)
            if name not in self._topics:
                logger.info("deleted inactive topic %s (inactiveTopicPolicies)", name)
                await self._delete_parent(name)
        except BrokerError as error:
            logger.info("inactive %s is not deleted: %s", name, error)

    async def _delete_parent(self, name: TopicName) -> None:
        """Delete a partitioned topic without partitions left, if the settings ask for it."""
        if (
            name.partition < 0
            or not self._settings.broker_delete_inactive_partitioned_topic_metadata_enabled
        ):
            return
        partitions = [
            name.with_partition(index) for index in range(await self._catalogue.partitions(name))
        ]
        for partition in partitions:
            if partition in self._topics or await self._catalogue.exists(partition):
                return
        await self._deletion.topics.delete_partitioned(name.base, force=False)
