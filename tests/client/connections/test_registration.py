"""Registering again after the broker has closed a producer or consumer."""

import logging
from typing import cast

import pytest

from fakes.client_clock import ManualClock
from magnetar.base.errors import (
    MagnetarError,
    NotAllowed,
    NotFound,
    NotReady,
    OperationTimeout,
    TopicTerminated,
)
from magnetar.base.settings import Address, Settings
from magnetar.connections.connection import Connection
from magnetar.connections.pool import Pool
from magnetar.connections.registration import Registration
from magnetar_proto import PulsarApi_pb2 as pb

TOPIC = "persistent://public/default/t"
NEW = "pulsar://new:1"


class Broker:
    """One connection, on which the lookup of every topic returns `found`."""

    def __init__(self, name: str, is_proxied: bool = False) -> None:
        self.address = Address(name, 1)
        self.is_proxied = is_proxied
        self.found = ""

    async def request(self, command: pb.CommandLookupTopic) -> pb.CommandLookupTopicResponse:
        return pb.CommandLookupTopicResponse(
            request_id=command.request_id,
            response=pb.CommandLookupTopicResponse.Connect,
            brokerServiceUrl=self.found,
        )


class Scene:
    """A client registered with the broker `old`; it stands in for the pool, too.

    `refusals` are the answers to the next registrations, by the broker's name.
    """

    listener_name = ""

    def __init__(self, is_proxied: bool = False) -> None:
        self.old = Broker("old", is_proxied)
        self.old.found = "pulsar://old:1"
        self.refusals: dict[str, list[MagnetarError]] = {}
        self.registered: list[str] = []
        self.asked: list[tuple[str, Address | None]] = []
        self.failure: MagnetarError | None = None
        self.clock = ManualClock()
        self.registration = Registration(
            cast(Pool, self), Settings(clock=self.clock), TOPIC, self._register, self._failed
        )

    async def service(self) -> Broker:
        return self.old

    async def broker(self, url: str, tls_url: str, proxy: Address | None) -> Broker:
        self.asked.append((url, proxy))
        return self.old if url == self.old.found else Broker("new")

    async def _register(self, connection: Connection) -> None:
        name = connection.address.host
        self.registered.append(name)
        if self.refusals.get(name):
            raise self.refusals[name].pop(0)

    def _failed(self, error: MagnetarError) -> None:
        self.failure = error

    async def move(self, new_owner: str = NEW) -> Connection:
        """Let the old broker move the topic; return the next connection."""
        await self.registration.open()
        self.registered.clear()
        self.asked.clear()
        former = await self.registration.ready()
        self.registration.detached(former, new_owner)
        return await self.clock.drive(self.registration.ready(), 0.1)


async def test_the_new_owner_is_connected_to_without_a_lookup() -> None:
    scene = Scene()
    assert (await scene.move()).address.host == "new"
    assert scene.asked == [(NEW, None)]
    assert scene.registered == ["new"]


async def test_a_proxied_connection_is_followed_by_a_proxied_one() -> None:
    scene = Scene(is_proxied=True)
    await scene.move()
    assert scene.asked == [(NEW, scene.old.address)]


async def test_one_refusal_of_the_new_owner_is_followed_by_a_lookup() -> None:
    scene = Scene()
    scene.refusals["new"] = [NotReady(pb.ServiceNotReady, "not yet")]
    assert (await scene.move()).address.host == "old"
    assert scene.asked == [(NEW, None), (scene.old.found, None)]


async def test_a_refusal_that_is_final_is_final() -> None:
    scene = Scene()
    ended = TopicTerminated(pb.TopicTerminatedError, "over")
    scene.refusals = {"new": [ended], "old": []}
    await scene.registration.open()
    scene.refusals["old"] = [ended]
    former = await scene.registration.ready()
    scene.registration.detached(former, NEW)
    with pytest.raises(TopicTerminated):
        await scene.clock.drive(scene.registration.ready(), 0.1)
    assert scene.failure is ended


async def test_a_topic_that_was_deleted_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    deleted = [NotFound(pb.TopicNotFound, "no such topic") for _ in range(5)]
    partition = NotAllowed(pb.NotAllowedError, "no such partition")
    await scene.registration.open()
    scene.refusals["old"] = [*deleted, partition]
    former = await scene.registration.ready()
    with caplog.at_level(logging.WARNING, "magnetar"):
        scene.registration.detached(former)
        again = await scene.clock.drive(scene.registration.ready(), 60.0)
    assert again.address.host == "old"
    assert scene.failure is None
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2, "a refusal that stays the same is logged once"
    assert "no such topic" in told[0]
    assert "no such partition" in told[1]


async def test_waiting_in_time_ends_with_the_reason() -> None:
    scene = Scene()
    await scene.registration.open()
    scene.refusals["old"] = [NotAllowed(pb.NotAllowedError, "may not be created")] * 1000
    scene.registration.detached(await scene.registration.ready())
    with pytest.raises(OperationTimeout, match=r"seeking in .*/t .* 30 s: .*may not be created"):
        await scene.clock.drive(scene.registration.ready_in_time("seeking in"), 10.0)
    assert scene.failure is None, "it goes on to register"
    scene.refusals["old"].clear()
    await scene.clock.drive(scene.registration.ready_in_time("seeking in"), 10.0)
    assert scene.registration.refusal is None


async def test_a_topic_that_is_left_when_it_was_deleted_is_not_waited_for() -> None:
    scene = Scene()
    await scene.registration.open()
    gone: list[str] = []
    scene.registration.on_gone = lambda: gone.append(TOPIC)
    scene.refusals["old"] = [NotFound(pb.TopicNotFound, "no such topic")]
    scene.registration.detached(await scene.registration.ready())
    with pytest.raises(NotFound):
        await scene.clock.drive(scene.registration.ready(), 0.1)
    assert (gone, scene.failure) == ([TOPIC], None)


async def test_a_closed_attachment_follows_nobody() -> None:
    scene = Scene()
    await scene.registration.open()
    former = await scene.registration.ready()
    await scene.registration.close()
    scene.registration.detached(former, NEW)
    assert scene.registered == ["old"]
