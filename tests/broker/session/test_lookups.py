"""LOOKUP: the choice among a broker's addresses for a client."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.sessions import TOPIC, SessionWorld
from magnetar_broker.base.errors import being_unloaded
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.bundle_owners import BundleOwners
from magnetar_broker.placement.ownership import Owner, SoleOwner
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from magnetar_storage.errors import ProcessUnavailable

INSIDE = ListenerUrls("pulsar://127.0.0.1:6650")
OUTSIDE = ListenerUrls("pulsar://localhost:16650", "pulsar+ssl://localhost:16651")


def look_up(**fields: Any) -> pb.CommandLookupTopicResponse:
    world = SessionWorld()
    owner = world.directory.ownership
    assert isinstance(owner, SoleOwner)
    owner.announce(INSIDE, {"inside": INSIDE, "outside": OUTSIDE})
    answer = world.client().ask(pb.CommandLookupTopic(topic=TOPIC, request_id=7, **fields))
    assert isinstance(answer, pb.CommandLookupTopicResponse) and answer.request_id == 7
    return answer


def test_lookups_are_counted_by_their_answer() -> None:
    world = SessionWorld()
    owner = world.directory.ownership
    assert isinstance(owner, SoleOwner)
    owner.announce(INSIDE, {"inside": INSIDE})
    client, counts = world.client(), world.broker.lookups
    for listener in ("", "inside", "elsewhere"):
        command = pb.CommandLookupTopic(topic=TOPIC, request_id=7)
        command.advertised_listener_name = listener
        client.ask(command)
    assert (counts.answered, counts.redirected, counts.failed) == (2, 0, 1)
    assert (counts.durations.count, counts.durations.under_way) == (3, 0)
    assert (world.broker.connections_accepted, world.broker.connections_refused) == (1, 0)


def test_a_client_that_names_no_listener_gets_the_default_address() -> None:
    for fields in ({}, {"advertised_listener_name": ""}):
        answer = look_up(**fields)
        assert answer.response == answer.Connect
        assert answer.brokerServiceUrl == INSIDE.pulsar
        assert not answer.HasField("brokerServiceUrlTls")
        assert answer.proxy_through_service_url


def test_a_client_gets_the_addresses_of_the_listener_it_names() -> None:
    answer = look_up(advertised_listener_name="outside")
    assert answer.response == answer.Connect
    assert (answer.brokerServiceUrl, answer.brokerServiceUrlTls) == OUTSIDE[:2]
    assert not answer.proxy_through_service_url


def test_an_unknown_listener_is_refused() -> None:
    answer = look_up(advertised_listener_name="elsewhere")
    assert (answer.response, answer.error) == (answer.Failed, pb.ServiceNotReady)
    assert (
        "do not have elsewhere listener" in answer.message and "inside, outside" in answer.message
    )
    assert not answer.HasField("brokerServiceUrl")


class OwnersByPartition(SoleOwner):
    """Assigns every second partition to another process."""

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        owner = await super().locate(topic, authoritative)
        return replace(owner, process_url=f"pulsar://worker-{topic.partition % 2}:1")


def test_a_client_is_given_the_process_that_serves_the_topic() -> None:
    world = SessionWorld()
    owners = OwnersByPartition("")
    owners.announce(INSIDE, {"inside": INSIDE, "outside": OUTSIDE})
    world.directory.ownership = owners
    client, seen = world.client(), set()
    for number in range(4):
        topic = TopicName.parse(TOPIC).with_partition(number)
        for listener in ("", "outside"):
            command = pb.CommandLookupTopic(
                topic=str(topic), request_id=7, advertised_listener_name=listener
            )
            if listener:
                elsewhere = client.ask(command)
                assert elsewhere.response == elsewhere.Redirect and elsewhere.authoritative
                urls = elsewhere.brokerServiceUrl, elsewhere.brokerServiceUrlTls
                assert urls == OUTSIDE[:2]
                assert not elsewhere.proxy_through_service_url
                command.authoritative = True
            answer = client.ask(command)
            assert answer.response == answer.Connect
            assert answer.brokerServiceUrl == f"pulsar://worker-{number % 2}:1"
            assert answer.proxy_through_service_url
            seen.add(answer.brokerServiceUrl)
    assert len(seen) == 2
    unknown = pb.CommandLookupTopic(topic=TOPIC, request_id=7, advertised_listener_name="elsewhere")
    assert client.ask(unknown).response == pb.CommandLookupTopicResponse.Failed


THERE = ListenerUrls("pulsar://127.0.0.1:7650", "pulsar+ssl://127.0.0.1:7651")
THERE_OUTSIDE = ListenerUrls("pulsar://localhost:17650", "pulsar+ssl://localhost:17651")


class OwnerElsewhere(SoleOwner):
    """Finds every topic at another broker of the cluster, with several workers."""

    def __init__(self, process_url: str = "") -> None:
        super().__init__("")
        self.owners = BundleOwners(["pulsar://worker-0:1"], "b1")
        self.number = self.owners.join("b2/1", THERE, {"outside": THERE_OUTSIDE})
        self._process_url = process_url

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        return replace(self.owners.owner(self.number), process_url=self._process_url)


@pytest.mark.parametrize("authoritative", [False, True])
@pytest.mark.parametrize("process_url", ["", "pulsar://worker-1:7650"])
def test_a_client_is_redirected_to_the_broker_that_owns_the_topic(
    authoritative: bool, process_url: str
) -> None:
    world = SessionWorld()
    world.directory.ownership = OwnerElsewhere(process_url)
    client, counts = world.client(), world.broker.lookups
    for listener, urls in (("", THERE), ("outside", THERE_OUTSIDE)):
        command = pb.CommandLookupTopic(
            topic=TOPIC,
            request_id=7,
            authoritative=authoritative,
            advertised_listener_name=listener,
        )
        answer = client.ask(command)
        assert answer.response == answer.Redirect and answer.authoritative
        assert (answer.brokerServiceUrl, answer.brokerServiceUrlTls) == urls[:2]
        assert not answer.proxy_through_service_url
    assert (counts.answered, counts.redirected, counts.failed) == (0, 2, 0)
    command.advertised_listener_name = "elsewhere"
    assert client.ask(command).response == pb.CommandLookupTopicResponse.Failed


def test_a_client_keeps_its_connection_while_the_owner_is_not_there() -> None:
    world = SessionWorld()
    world.directory.ownership = ownership = OwnerElsewhere()
    ownership.number = ownership.owners.known("b3/0")
    answer = world.client().ask(pb.CommandLookupTopic(topic=TOPIC, request_id=7))
    assert (answer.response, answer.error) == (answer.Failed, pb.MetadataError)
    assert answer.message == "b3/0 is not there now: retry"


def _raising(error: Exception) -> Callable[..., Awaitable[Any]]:
    async def refuse(*_: object) -> None:
        raise error

    return refuse


@pytest.mark.parametrize(
    "error",
    [being_unloaded(TOPIC), ProcessUnavailable("the controller has ended; retry")],
    ids=lambda error: type(error).__name__,
)
def test_a_lookup_that_is_to_be_tried_again_does_not_close_the_connection(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Clients close the connection on ServiceNotReady."""
    world = SessionWorld()
    client = world.client()
    for name in ("locate", "partitions"):
        monkeypatch.setattr(world.broker.names, name, _raising(error))
    for command in (pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata):
        answer = client.ask(command(topic=TOPIC, request_id=7))
        assert (answer.response, answer.error) == (answer.Failed, pb.MetadataError)
        assert answer.message == str(error)
