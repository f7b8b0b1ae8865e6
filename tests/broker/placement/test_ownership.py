"""The ownership of a broker that is alone."""

import pytest

from magnetar_broker.base.errors import ListenerNotFound
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.ownership import Owner, SoleOwner
from magnetar_proto.names import TopicName


def topic(name: str) -> TopicName:
    return TopicName.parse(f"persistent://tenant/space/{name}")


async def test_a_sole_owner_owns_everything_at_the_url_it_announced_last() -> None:
    owner = SoleOwner("pulsar://old:6650")
    owner.announce(ListenerUrls("pulsar://new:6650"))

    found = await owner.locate(topic("t"), authoritative=False)
    assert (found.service_url, found.is_self) == ("pulsar://new:6650", True)
    assert await owner.owns(topic("t"))


def test_a_listener_has_addresses_of_its_own() -> None:
    inside, outside = ListenerUrls("pulsar://in:1"), ListenerUrls("pulsar://out:2")
    owner = Owner(inside, True, {"in": inside, "out": outside})
    assert owner.urls_of("out") is outside
    assert owner.urls_of("") is owner.urls_of(" ") is inside
    assert owner.service_url == "pulsar://in:1"


def test_an_unknown_listener_is_refused_with_the_ones_there_are() -> None:
    inside = ListenerUrls("pulsar://in:1")
    with pytest.raises(
        ListenerNotFound, match=r"do not have elsewhere listener.*\(in\).*advertisedListeners"
    ):
        Owner(inside, True, {"in": inside}).urls_of("elsewhere")
    with pytest.raises(ListenerNotFound, match="none"):
        Owner(inside, True).urls_of("in")
