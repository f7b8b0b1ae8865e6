"""Requests of administrators and clients while the metadata store is away, or loses answers."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fakes.named_worlds import NamedWorld, named
from fakes.outages import OutageWorld
from fakes.unreliable_metadata import Fate
from magnetar_broker.base.errors import AlreadyExists
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.policies.table import MESSAGE_TTL
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import Unavailable
from magnetar_storage.metadata.retrying import RETRY_SECONDS

AWAY_SECONDS = 2.0
TOPIC, PARTED, OLD = named("new"), named("parted"), named("old")
TENANT, NAMESPACE = "tenant", NamespaceName.parse("tenant/space")


class World(OutageWorld, NamedWorld):
    """A broker whose metadata is away at times."""

    def requests(self) -> list[Callable[[], Coroutine[Any, Any, Any]]]:
        """Return requests that change names and policies, to be made in this order."""
        directory = self.directory
        return [
            lambda: directory.creation.plain(TOPIC, {}),
            lambda: directory.creation.partitioned(PARTED, Partitioned(2)),
            lambda: directory.creation.grow(PARTED, 3),
            lambda: directory.enforcement.set(TOPIC, {MESSAGE_TTL: 10}),
            lambda: directory.enforcement.set(TOPIC.namespace_name, {MESSAGE_TTL: 10}),
            lambda: directory.tenants.create(TENANT, Tenant()),
            lambda: directory.namespaces.create(NAMESPACE, Namespace()),
            lambda: directory.namespaces.change_properties(str(NAMESPACE), lambda _: {"a": "b"}),
            lambda: self.broker.topic(OLD, True),
            lambda: directory.deletion.topics.delete(OLD, True),
            lambda: directory.deletion.topics.delete_partitioned(PARTED, True),
            lambda: directory.deletion.namespace(str(NAMESPACE), True),
            lambda: directory.deletion.tenant(TENANT, True),
        ]

    def content(self) -> dict[str, bytes]:
        """Return the keys and values in the store, apart from the number of starts."""
        return {
            key: self.unreliable._values[key].value
            for key in self.stored("/")
            if not key.startswith("/starts")
        }


def test_each_request_waits_while_metadata_is_away_for_two_seconds() -> None:
    world, quiet = World(), World()
    for request, same in zip(world.requests(), quiet.requests(), strict=True):
        world.away(AWAY_SECONDS)
        world.do(request())
        world.clock.advance(AWAY_SECONDS)
        quiet.do(same())
        quiet.clock.advance(AWAY_SECONDS)
    assert world.content().keys() == quiet.content().keys()
    assert world.names() == quiet.names() == ["new"]


@pytest.mark.parametrize("number", range(len(World().requests())))
@pytest.mark.parametrize("fate", [Fate.LOST, Fate.NOT_MADE, Fate.LATE])
def test_any_request_may_remain_without_an_answer(number: int, fate: Fate) -> None:
    """Not one is refused because of what it has done itself."""
    world, quiet = World(), World()
    for at, (request, same) in enumerate(zip(world.requests(), quiet.requests(), strict=True)):
        if at == number:
            world.unreliable.fates += [fate] * 3
        world.do(request())
        quiet.do(same())
    assert world.content().keys() == quiet.content().keys()
    assert world.names() == quiet.names() == ["new"]


def test_a_refusal_is_reported_while_answers_are_lost() -> None:
    world = World()
    world.do(world.directory.tenants.create(TENANT, Tenant()))
    world.unreliable.fates.append(Fate.LOST)
    with pytest.raises(AlreadyExists):
        world.do(world.directory.tenants.create(TENANT, Tenant(("admin",))))


def test_a_request_fails_when_metadata_stays_away() -> None:
    world = World()
    enforcement, namespace = world.directory.enforcement, TOPIC.namespace_name
    world.unreliable.is_away = True
    setting = world.begin(enforcement.set(namespace, {MESSAGE_TTL: 10}))
    world.clock.advance(RETRY_SECONDS - 1)
    assert not setting.done()
    world.clock.advance(1 + RETRY_SECONDS)
    with pytest.raises(Unavailable):
        setting.result()
    world.unreliable.is_away = False
    world.do(enforcement.set(namespace, {MESSAGE_TTL: 11}))
    world.restart()
    stored = world.do(world.directory.policies.values_of(namespace))
    assert stored == {MESSAGE_TTL.name: 11}
