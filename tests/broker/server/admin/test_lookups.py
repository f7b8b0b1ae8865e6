"""Lookups over HTTP for a topic that another broker of the cluster owns."""

import json

import pytest

from fakes.rest_world import World
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.bundle_owners import BundleOwners
from magnetar_broker.placement.ownership import Owner, SoleOwner
from magnetar_proto.names import TopicName

THERE = ListenerUrls("pulsar://there:6650", "pulsar+ssl://there:6651", "http://there:8080")
OUTSIDE = ListenerUrls("pulsar://outside:1", http_tls="https://outside:2")
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


class OwnerElsewhere(SoleOwner):
    """Finds every topic at another broker."""

    def __init__(self) -> None:
        super().__init__("pulsar://here:6650")
        self.owners = BundleOwners(["pulsar://worker-0:1"], "b1")
        self.number = self.owners.join("b2/1", THERE, {"outside": OUTSIDE})

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        return self.owners.owner(self.number)


@pytest.mark.parametrize(("query", "urls"), [("", THERE), ("?listenerName=outside", OUTSIDE)])
def test_the_addresses_are_those_of_the_owner(query: str, urls: ListenerUrls) -> None:
    world = World(1)
    world.context.directory.ownership = OwnerElsewhere()
    answer = json.loads(world.ask(f"GET {LOOKUP}{query}").body)
    assert answer == {
        "brokerUrl": urls.pulsar,
        "brokerUrlTls": urls.pulsar_tls,
        "brokerUrlSsl": "",
        "httpUrl": urls.http,
        "httpUrlTls": urls.http_tls,
        "nativeUrl": urls.pulsar,
    }


def test_an_owner_that_is_not_there_is_asked_for_later() -> None:
    world = World(1)
    world.context.directory.ownership = ownership = OwnerElsewhere()
    ownership.number = ownership.owners.known("b3/0")
    answer = world.ask(f"GET {LOOKUP}")
    assert (answer.status, json.loads(answer.body)) == (
        503,
        {"reason": "b3/0 is not there now: retry"},
    )
