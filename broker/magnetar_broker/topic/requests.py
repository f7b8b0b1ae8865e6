"""The requests of the controller to the loaded topics of a worker."""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from magnetar_broker.authorization.rules import Grants
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.policies.policy import subject_named
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock

ABOUT_TOPICS = ("load", "unload", "erase", "subscriptions_of", "subscribe_unlisted")
"""The methods of `LocalTopicHost` whose first argument is a topic."""


class TopicRequests:
    """Answers the requests of each controller's `DistributedTopicHost`, over its link.

    The present controller, which this process has joined, is notified of loaded and unloaded
    topics.
    """

    def __init__(self, topic_host: LocalTopicHost, clock: Clock) -> None:
        self._topic_host = topic_host
        self._in_change: Counter[TopicName] = Counter()
        """The number of requests in progress for each topic."""
        self._changed = Waiters(clock)

    def serve(self, link: Link) -> None:
        """Answer the requests of a controller; call it before the link is connected."""
        topic_host = self._topic_host

        async def evict(names: list[str], condition: str) -> bool:
            topics = list(map(TopicName.parse, names))
            return await topic_host.evict(topics, Condition(condition))

        async def apply(subject: str, partitions: int) -> None:
            await topic_host.apply(subject_named(subject), partitions)

        async def reauthorize(
            namespace: str, admins: list[str], permissions: dict[str, Any], prefix_mode: bool
        ) -> None:
            await topic_host.reauthorize(namespace, Grants(admins, permissions, prefix_mode))

        link.serve({f"topic_host.{work}": self._about_topic(work) for work in ABOUT_TOPICS})
        link.serve(
            {
                "topic_host.evict": evict,
                "topic_host.apply": apply,
                "topic_host.reauthorize": reauthorize,
                "topic_host.configure": topic_host.configure,
                "topic_host.settings": topic_host.change_settings,
            }
        )

    def held(self) -> list[TopicName]:
        """Return the topics whose metadata this process may be about to write."""
        return [*self._in_change, *self._topic_host.held()]

    async def settle(self) -> None:
        """Wait until the requests of a former controller have ended, and close what it evicted."""
        while self._in_change:
            await self._changed.wait()
        # promise: a topic that a former controller has evicted is closed before it is opened again
        await self._topic_host.close_evicted()

    def notify(self, link: Link) -> list[TopicName]:
        """Notify this controller of loaded and unloaded topics; return those loaded now."""

        def notify(name: TopicName, is_loaded: bool) -> None:
            link.notify("topic_host.changed", str(name), is_loaded)

        self._topic_host.topics.on_changed = notify
        return [topic.name for topic in self._topic_host.topics]

    def _about_topic(self, work: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def called(text: str, *rest: object) -> Any:
            name = TopicName.parse(text)
            self._in_change[name] += 1
            try:
                return await getattr(self._topic_host, work)(name, *rest)
            finally:
                self._in_change[name] -= 1
                if not self._in_change[name]:
                    del self._in_change[name]
                    self._changed.release()

        return called
