"""The requests of the controller to the loaded topics of a worker."""

from typing import Any

from magnetar_broker.authorization.rules import Grants
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.residence import Condition
from magnetar_broker.policies.policy import subject_named
from magnetar_broker.topic.residence import LocalResidence
from magnetar_proto.names import TopicName


def serve_residence(residence: LocalResidence, link: Link) -> None:
    """Answer requests of `DistributedResidence`, and notify it of what is loaded."""

    def notify(name: TopicName, is_loaded: bool) -> None:
        link.notify("residence.changed", str(name), is_loaded)

    async def load(name: str, create: bool) -> bool:
        return await residence.load(TopicName.parse(name), create)

    async def evict(names: list[str], condition: str) -> bool:
        return await residence.evict(
            [TopicName.parse(name) for name in names], Condition(condition)
        )

    async def unload(name: str) -> None:
        await residence.unload(TopicName.parse(name))

    async def erase(name: str) -> None:
        await residence.erase(TopicName.parse(name))

    async def apply(subject: str, partitions: int) -> None:
        await residence.apply(subject_named(subject), partitions)

    async def reauthorize(
        namespace: str, admins: list[str], permissions: dict[str, Any], prefix_mode: bool
    ) -> None:
        await residence.reauthorize(namespace, Grants(admins, permissions, prefix_mode))

    async def configure(changed: dict[str, str]) -> None:
        await residence.configure(changed)

    async def subscriptions_of(name: str) -> list[str]:
        return await residence.subscriptions_of(TopicName.parse(name))

    async def subscribe_unlisted(name: str, subscriptions: list[str]) -> None:
        await residence.subscribe_unlisted(TopicName.parse(name), subscriptions)

    residence.topics.on_changed = notify
    link.serve(
        {
            "residence.load": load,
            "residence.evict": evict,
            "residence.unload": unload,
            "residence.erase": erase,
            "residence.apply": apply,
            "residence.reauthorize": reauthorize,
            "residence.configure": configure,
            "residence.settings": residence.change_settings,
            "residence.subscriptions_of": subscriptions_of,
            "residence.subscribe_unlisted": subscribe_unlisted,
        }
    )
