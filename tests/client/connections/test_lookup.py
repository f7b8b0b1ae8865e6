"""Finding the broker of a topic: redirects, proxies and refusals."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from magnetar.base.errors import NotFound, NotReady
from magnetar.base.settings import Address
from magnetar.connections.connection import Connection
from magnetar.connections.lookup import MAX_REDIRECTS, find_broker, find_partitions
from magnetar.connections.pool import Pool
from magnetar_proto import PulsarApi_pb2 as pb

Lookup = pb.CommandLookupTopicResponse
TOPIC = "persistent://public/default/t"


class Broker:
    """Answers requests from a list, and remembers them."""

    def __init__(self, answers: Sequence[Any], address: str = "one") -> None:
        self.address = Address(address, 6650)
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def request(self, command: Any) -> Any:
        self.asked.append(command)
        return self.answers.pop(0)


class Brokers:
    """Stands in for the pool: brokers by URL."""

    listener_name = ""

    def __init__(self, first: Broker, **others: Broker) -> None:
        self.first = first
        self.others = others
        self.proxies: list[Address | None] = []

    async def service(self) -> Broker:
        return self.first

    async def broker(self, url: str, tls_url: str, proxy: Address | None) -> Broker:
        self.proxies.append(proxy)
        return self.others[url]


def answer(kind: "Lookup.LookupType", url: str, **more: Any) -> Lookup:
    return Lookup(request_id=1, response=kind, brokerServiceUrl=url, **more)


async def find(brokers: Brokers) -> Connection:
    return await find_broker(cast(Pool, brokers), TOPIC)


async def test_redirects_are_followed_with_the_given_authority() -> None:
    two = Broker([answer(Lookup.Connect, "three", proxy_through_service_url=True)], "two")
    three = Broker([])
    one = Broker([answer(Lookup.Redirect, "two", authoritative=True)])
    brokers = Brokers(one, two=two, three=three)
    assert await find(brokers) is cast(Connection, three)
    assert not one.asked[0].authoritative
    assert two.asked[0].authoritative
    assert brokers.proxies == [None, two.address], "the proxy is the one that was asked"


async def test_endless_redirects_end() -> None:
    lost = Broker([answer(Lookup.Redirect, "lost") for _ in range(MAX_REDIRECTS)])
    with pytest.raises(NotReady, match="20 redirects"):
        await find(Brokers(lost, lost=lost))


async def test_a_refusal_gives_the_reason() -> None:
    refusing = Broker([answer(Lookup.Failed, "", error=pb.TopicNotFound, message="gone")])
    with pytest.raises(NotFound, match="gone"):
        await find(Brokers(refusing))


async def test_the_name_of_a_listener_is_in_the_lookup() -> None:
    for name in ("", "outside"):
        found = Broker([])
        asked = Broker([answer(Lookup.Connect, "found")])
        brokers = Brokers(asked, found=found)
        brokers.listener_name = name
        await find(brokers)
        assert asked.asked[0].advertised_listener_name == name


async def partitions(topic: str, *answers: Any) -> list[str]:
    return await find_partitions(cast(Pool, Brokers(Broker(answers))), topic)


async def test_partitions_have_names() -> None:
    kind = pb.CommandPartitionedTopicMetadataResponse
    assert await partitions("t", kind(request_id=1, partitions=0)) == [TOPIC]
    assert await partitions("t", kind(request_id=1, partitions=2)) == [
        f"{TOPIC}-partition-0",
        f"{TOPIC}-partition-1",
    ]
    assert await partitions(f"{TOPIC}-partition-5") == [f"{TOPIC}-partition-5"], (
        "no request is sent"
    )
    refused = kind(request_id=1, response=kind.Failed, error=pb.TopicNotFound, message="gone")
    with pytest.raises(NotFound, match="gone"):
        await partitions("t", refused)
