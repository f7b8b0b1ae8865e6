"""The requests of the controller to the loaded topics of a worker."""

from typing import Any

from magnetar_broker.authorization.rules import Grants
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.policies.policy import subject_named
from magnetar_broker.topic.local_topic_host import LocalTopicHost
from magnetar_proto.names import TopicName


def serve_topic_host(topic_host: LocalTopicHost, link: Link) -> None:
    """Answer requests of `DistributedTopicHost`, and notify it of what is loaded."""

    def notify(name: TopicName, is_loaded: bool) -> None:
        link.notify("topic_host.changed", str(name), is_loaded)

    async def load(name: str, create: bool) -> bool:
        return await topic_host.load(TopicName.parse(name), create)

    async def evict(names: list[str], condition: str) -> bool:
        return await topic_host.evict(
            [TopicName.parse(name) for name in names], Condition(condition)
        )

    async def unload(name: str) -> None:
        await topic_host.unload(TopicName.parse(name))

    async def erase(name: str) -> None:
        await topic_host.erase(TopicName.parse(name))

    async def apply(subject: str, partitions: int) -> None:
        await topic_host.apply(subject_named(subject), partitions)

    async def reauthorize(
        namespace: str, admins: list[str], permissions: dict[str, Any], prefix_mode: bool
    ) -> None:
        await topic_host.reauthorize(namespace, Grants(admins, permissions, prefix_mode))

    async def configure(changed: dict[str, str]) -> None:
        await topic_host.configure(changed)

    async def subscriptions_of(name: str) -> list[str]:
        return await topic_host.subscriptions_of(TopicName.parse(name))

    async def subscribe_unlisted(name: str, subscriptions: list[str]) -> None:
        await topic_host.subscribe_unlisted(TopicName.parse(name), subscriptions)

    topic_host.topics.on_changed = notify
    link.serve(
        {
            "topic_host.load": load,
            "topic_host.evict": evict,
            "topic_host.unload": unload,
            "topic_host.erase": erase,
            "topic_host.apply": apply,
            "topic_host.reauthorize": reauthorize,
            "topic_host.configure": configure,
            "topic_host.settings": topic_host.change_settings,
            "topic_host.subscriptions_of": subscriptions_of,
            "topic_host.subscribe_unlisted": subscribe_unlisted,
        }
    )
