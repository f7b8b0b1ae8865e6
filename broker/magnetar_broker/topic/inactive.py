"""Finds topics that have been inactive for long enough (`inactiveTopicPolicies`).

Idle time is the sum of the intervals between two checks that found the topic inactive: neither a
changed clock nor time in which the topic was not loaded counts.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from magnetar_broker.base.periodic_jobs import each
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import InactiveMode
from magnetar_broker.policies.policy import Origin
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import INACTIVE_TOPICS, RETENTION
from magnetar_broker.policies.values import InactiveTopics
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.subscriptions.read_history import read_offsets
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock

INACTIVE = "deletion of inactive topics"


@dataclass(frozen=True, slots=True)
class Use:
    """The kinds of use that keep a topic from being deleted as inactive."""

    producers: bool
    subscriptions: bool
    behind: bool
    """Whether a subscription has messages to consume."""
    entries: bool
    """Whether any message is stored."""
    unread: bool
    """Whether any stored message is neither held nor acknowledged by a durable subscription."""

    def is_none(self, mode: InactiveMode) -> bool:
        """Return whether the topic is inactive."""
        kept = self.subscriptions if mode is InactiveMode.NO_SUBSCRIPTIONS else self.behind
        return not (self.producers or kept)


def is_over(
    idle_seconds: float, use: Use, rule: InactiveTopics, retention: Retention, unread: Retention
) -> bool:
    """Return whether to delete a topic after `idle_seconds`; False while retention keeps entries.

    `unread` is the retention of messages that no subscription has acknowledged.
    """
    if not rule.delete or not use.is_none(rule.mode) or idle_seconds < rule.seconds:
        return False
    # A topic is not deleted with entries that retention still promises; negative is for ever.
    retained = use.entries and _lasts(retention, idle_seconds)
    # promise: a topic with messages that no subscription has acknowledged is not inactive
    retained = retained or (use.unread and _lasts(unread, idle_seconds))
    return not retained


def _lasts(retention: Retention, idle_seconds: float) -> bool:
    return retention.minutes < 0 or idle_seconds < retention.minutes * 60


def use_of(topic: AnyTopic) -> Use:
    """Return the present use of a loaded topic."""
    producers = bool(topic.producers) or bool(topic.producers.waiting)
    if not isinstance(topic, Topic):
        return Use(producers, bool(topic.subscriptions), bool(topic.subscriptions), False, False)
    first, end = topic.log.first_offset, topic.log.end
    behind = any(one.next_unacked() < end for one in topic.subscriptions.values())
    unread = topic.limits.unread.minutes != 0 and read_offsets(topic).next_unread(first) < end
    return Use(producers, bool(topic.subscriptions), behind, end > first, unread)


class Inactive:
    """The idle times of loaded topics; one per broker."""

    def __init__(
        self, settings: Settings, clock: Clock, policies: PolicyView, topics: Topics
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._policies = policies
        self._topics = topics
        self._idle: dict[AnyTopic, tuple[float, int]] = {}
        """Idle seconds of inactive topics, and the number of messages published by then."""

    async def look(self, delete: Callable[[TopicName], Awaitable[None]]) -> None:
        """Update the idle times of loaded topics, and delete topics idle for long enough."""
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

        async def end(topic: AnyTopic) -> None:
            await delete(topic.name)

        await each(self._clock, over, end, "inactive %s was not deleted: %s")

    def _counted(self, topic: AnyTopic, seconds: float) -> bool:
        """Add to the idle time of a topic; return whether it was idle for long enough."""
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
        return self.is_over(topic)

    def is_over(self, topic: AnyTopic) -> bool:
        """Return whether a topic has been idle for long enough, and still is."""
        idle, messages = self._idle.get(topic, (0, 0))
        rule = self._policies.resolve(INACTIVE_TOPICS, topic.name)
        retention = self._policies.value(RETENTION, topic.name)
        # Unread messages keep a topic only by default: explicit policies take no account of them.
        by_default = rule.origin is Origin.BROKER and isinstance(topic, Topic)
        unread = topic.limits.unread if by_default else Retention()
        published = messages != topic.appender.messages_in
        return not published and is_over(idle, use_of(topic), rule.value, retention, unread)
