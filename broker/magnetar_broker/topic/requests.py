"""The requests of the controller to the loaded topics of a worker."""

from collections.abc import Callable, Coroutine
from typing import Any

from magnetar_broker.authorization.rules import Grants
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.policies.policy import subject_named
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_proto.names import TopicName

ABOUT_TOPICS = ("load", "unload", "erase", "subscriptions_of", "subscribe_unlisted")
"""The methods of `LocalTopicHost` whose first argument is a topic."""


def serve_topic_host(topic_host: LocalTopicHost, link: Link) -> None:
    """Answer requests of `DistributedTopicHost`, and notify it of loaded and unloaded topics."""

    def notify(name: TopicName, is_loaded: bool) -> None:
        link.notify("topic_host.changed", str(name), is_loaded)

    async def evict(names: list[str], condition: str) -> bool:
        return await topic_host.evict(list(map(TopicName.parse, names)), Condition(condition))

    async def apply(subject: str, partitions: int) -> None:
        await topic_host.apply(subject_named(subject), partitions)

    async def reauthorize(
        namespace: str, admins: list[str], permissions: dict[str, Any], prefix_mode: bool
    ) -> None:
        await topic_host.reauthorize(namespace, Grants(admins, permissions, prefix_mode))

    def about_topic(work: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def called(name: str, *rest: object) -> Any:
            return await getattr(topic_host, work)(TopicName.parse(name), *rest)

        return called

    topic_host.topics.on_changed = notify
    link.serve({f"topic_host.{work}": about_topic(work) for work in ABOUT_TOPICS})
    link.serve(
        {
            "topic_host.evict": evict,
            "topic_host.apply": apply,
            "topic_host.reauthorize": reauthorize,
            "topic_host.configure": topic_host.configure,
            "topic_host.settings": topic_host.change_settings,
        }
    )
