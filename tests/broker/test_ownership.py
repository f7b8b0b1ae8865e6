"""The broker that owns everything."""

import asyncio

from magnetar_broker.ownership import SoleOwner
from magnetar_proto.names import TopicName


def topic(name: str) -> TopicName:
    return TopicName.parse(f"persistent://tenant/space/{name}")


def test_a_sole_owner_owns_everything_at_the_url_it_announced_last() -> None:
    owner = SoleOwner("pulsar://old:6650")
    owner.announce("pulsar://new:6650")

    async def ask() -> None:
        found = await owner.locate(topic("t"), authoritative=False)
        assert (found.service_url, found.is_self) == ("pulsar://new:6650", True)
        assert await owner.owns(topic("t"))

    asyncio.run(ask())
