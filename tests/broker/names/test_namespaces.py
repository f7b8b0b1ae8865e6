"""Tenants and namespaces."""

from typing import Any

import pytest

from fakes.logs import LogWorld
from fakes.named_worlds import NamedWorld, named
from magnetar_broker.base.errors import (
    AlreadyExists,
    LimitReached,
    NamespaceNotFound,
    TenantNotFound,
)
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import namespace_key
from magnetar_broker.names.namespaces import Namespace, Namespaces
from magnetar_broker.names.tenants import Tenant, Tenants
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.stored_bundles import StoredBundles
from magnetar_proto.names import NamespaceName

SPACE = NamespaceName.parse("tenant/space")


class Names:
    """Tenants and namespaces over a metadata store in memory."""

    def __init__(self, auto_create: bool = True, tenants: int = 0, namespaces: int = 0) -> None:
        self.world = LogWorld()
        self.do = self.world.do
        self.limits = (auto_create, tenants, namespaces)
        self.forgotten: list[str] = []
        self.begin()

    def begin(self) -> None:
        """The same store, seen by another process."""
        auto_create, tenants, namespaces = self.limits
        self.tenants = Tenants(GuardedMetadata(self.world.metadata, None), "here", tenants)
        bundles = StoredBundles(GuardedMetadata(self.world.metadata, None), 4)
        self.all = Namespaces(
            GuardedMetadata(self.world.metadata, None),
            self.tenants,
            auto_create,
            bundles,
            self._forget,
            namespaces,
        )
        self.do(self.all.start())

    async def _forget(self, namespace: str) -> None:
        self.forgotten.append(namespace)

    def make(self, name: NamespaceName = SPACE, namespace: Namespace | None = None) -> None:
        self.do(self.tenants.ensure(name.tenant))
        self.do(self.all.create(name, namespace or Namespace()))


def test_a_namespace_must_exist_or_be_made_on_its_first_use() -> None:
    strict = Names(auto_create=False)
    with pytest.raises(TenantNotFound, match="create it with PUT /admin/v2/tenants/tenant "):
        strict.do(strict.all.require("tenant/space"))
    strict.do(strict.tenants.ensure("tenant"))
    with pytest.raises(NamespaceNotFound, match="with PUT /admin/v2/namespaces/tenant/space "):
        strict.do(strict.all.require("tenant/space"))
    assert not strict.do(strict.all.has("tenant/space"))
    strict.do(strict.all.ensure(SPACE))
    strict.do(strict.all.ensure(SPACE))
    strict.do(strict.all.require("tenant/space"))

    lax = Names(auto_create=True)
    lax.do(lax.all.require("tenant/space"))
    assert lax.do(lax.all.has("tenant/space"))
    assert lax.do(lax.tenants.get("tenant")) == Tenant((), ("here",))


def test_what_another_process_made_is_found() -> None:
    names = Names(auto_create=False)
    before = names.all
    names.begin()
    names.do(names.all.ensure(SPACE))
    names.do(before.require("tenant/space"))


def test_namespaces_of_earlier_releases_get_their_tenants() -> None:
    names = Names()
    names.do(names.world.metadata.put(namespace_key("old/one"), b"{}"))
    names.do(names.world.metadata.put(namespace_key("old/two"), b"{}"))
    assert names.do(names.tenants.names()) == []
    names.begin()
    assert names.do(names.tenants.names()) == ["old"]
    assert names.do(names.all.of_tenant("old")) == ["old/one", "old/two"]
    assert names.do(names.all.get("old/one")).bundles == Bundles.even(4)


def test_tenants_come_and_change_and_go() -> None:
    names = Names()
    with pytest.raises(TenantNotFound, match="a does not exist"):
        names.do(names.tenants.get("a"))
    with pytest.raises(TenantNotFound):
        names.do(names.tenants.change("a", Tenant()))
    first = Tenant(("boss",), ("here", "there"))
    names.do(names.tenants.create("a", first))
    with pytest.raises(AlreadyExists, match="a already exists"):
        names.do(names.tenants.create("a", Tenant()))
    names.do(names.tenants.ensure("a"))
    assert names.do(names.tenants.get("a")) == first
    names.do(names.tenants.change("a", Tenant((), ("here",))))
    assert names.do(names.tenants.get("a")) == Tenant((), ("here",))
    names.do(names.tenants.delete("a"))
    assert names.do(names.tenants.names()) == []


def test_there_are_not_more_than_there_may_be() -> None:
    names = Names(tenants=1, namespaces=1)
    names.do(names.tenants.create("tenant", Tenant()))
    with pytest.raises(LimitReached, match="maxTenants"):
        names.do(names.tenants.create("other", Tenant()))
    names.make()
    with pytest.raises(LimitReached, match="maxNamespacesPerTenant"):
        names.make(NamespaceName.parse("tenant/more"))
    with pytest.raises(AlreadyExists):
        names.make()


def test_limits_hold_for_what_is_made_by_use() -> None:
    names = Names(tenants=1, namespaces=1)
    names.do(names.all.require("tenant/space"))
    names.do(names.all.require("tenant/space"))
    with pytest.raises(LimitReached, match="maxNamespacesPerTenant"):
        names.do(names.all.require("tenant/more"))
    with pytest.raises(LimitReached, match="maxTenants"):
        names.do(names.all.require("other/space"))


def test_a_namespace_keeps_its_bundles_and_properties() -> None:
    names = Names()
    with pytest.raises(TenantNotFound):
        names.do(names.all.create(SPACE, Namespace()))
    odd = Bundles.parse(["0x00000000", "0x10000000", "0xffffffff"])
    names.make(SPACE, Namespace(odd, {"a": "b"}))
    with pytest.raises(AlreadyExists, match="tenant/space already exists"):
        names.make()
    names.begin()
    assert names.do(names.all.get("tenant/space")) == Namespace(odd, {"a": "b"})
    names.do(names.all.change_properties("tenant/space", lambda old: old | {"c": "d"}))
    assert names.do(names.all.get("tenant/space")).properties == {"a": "b", "c": "d"}
    for missing in (
        names.all.get("tenant/other"),
        names.all.change_properties("tenant/other", dict),
    ):
        with pytest.raises(NamespaceNotFound, match="tenant/other"):
            names.do(missing)


def test_a_namespace_that_is_being_deleted_is_not_used_or_created() -> None:
    names = Names(auto_create=True)
    names.make()
    names.do(names.all.require("tenant/space"))
    names.all.close("tenant/space")
    with pytest.raises(NamespaceNotFound, match="created or deleted"):
        names.do(names.all.require("tenant/space"))
    names.do(names.all.delete("tenant/space"))
    with pytest.raises(NamespaceNotFound, match="created or deleted"):
        names.do(names.all.require("tenant/space"))
    assert not names.do(names.all.has("tenant/space"))
    names.all.reopen("tenant/space")
    names.do(names.all.require("tenant/space"))
    assert names.do(names.all.has("tenant/space"))


@pytest.mark.parametrize("steps", range(0, 20, 2))
def test_a_namespace_that_is_deleted_while_it_is_asked_for_is_not_remembered(steps: int) -> None:
    world = NamedWorld(allow_auto_namespace_creation=False)
    directory = world.directory
    world.do(directory.namespaces.ensure(NamespaceName.parse("tenant/space")))
    listing = world.metadata.list
    gate = world.clock.promise()

    async def late(*asked: Any, **more: Any) -> list[str]:
        found = await listing(*asked, **more)
        await gate
        return found

    deleting = world.begin(directory.deletion.namespace("tenant/space", force=True))
    for _ in range(steps):
        world.clock.step()
    world.metadata.list = late  # type: ignore[method-assign]
    asking = world.begin(directory.namespaces.require("tenant/space"))
    world.metadata.list = listing  # type: ignore[method-assign]
    world.clock.pump()
    deleting.result()
    gate.set_result(None)
    world.clock.pump()
    with pytest.raises(NamespaceNotFound):
        asking.result()
    with pytest.raises(NamespaceNotFound):
        world.do(world.broker.topic(named("topic", "tenant/space"), create=True))
