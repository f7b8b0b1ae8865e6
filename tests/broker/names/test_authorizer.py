"""The directory of names decides by what is stored, also while it changes."""

from typing import Any

import pytest

from fakes.sessions import SessionWorld
from fakes.world import start
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.authorization.rules import AccessRequest, RequiredPermission
from magnetar_broker.base.errors import NotAuthorized
from magnetar_broker.base.metadata_keys import namespace_key
from magnetar_broker.names.tenants import Tenant
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import Unavailable

NAMESPACE = "public/default"
ASKED = [AccessRequest(RequiredPermission.PRODUCE, "persistent://public/default/topic")]


class World(SessionWorld):
    def __init__(self, **settings: Any) -> None:
        of_authentication = {
            "authentication_enabled": True,
            "authentication_providers": ("token",),
            "token_secret_key": "x" * 44,
        }
        of_authorization = {"authorization_enabled": True, "super_user_roles": ("root",)}
        super().__init__(**{**of_authentication, **of_authorization, **settings})

    def may(self, *roles: str) -> bool:
        try:
            self.do(self.directory.authorize(roles, ASKED))
        except NotAuthorized:
            return False
        return True

    def grant(self, role: str, *actions: str) -> None:
        self.do(self.directory.permissions.grant(NAMESPACE, role, list(actions)))


def test_without_authorization_everyone_may_do_everything() -> None:
    world = World(authorization_enabled=False)
    assert world.may() and world.may("anyone")
    assert world.broker.access.rules is None


def test_nobody_may_do_anything_without_a_role() -> None:
    world = World()
    assert not world.may() and not world.may("")


def test_changes_count_from_their_answer_on() -> None:
    world = World()
    for _ in range(2):
        assert not world.may("a")
        world.grant("a", "produce")
        assert world.may("a")
        world.do(world.directory.permissions.revoke(NAMESPACE, "a"))
    world.do(world.directory.tenants.change("public", Tenant(("a",), ("standalone",))))
    assert world.may("a")
    world.do(world.directory.tenants.change("public", Tenant((), ("standalone",))))
    assert not world.may("a")


def test_a_namespace_that_is_created_again_has_no_grants() -> None:
    world = World()
    name = NamespaceName.parse("public/short")
    asked = [AccessRequest(RequiredPermission.PRODUCE, "persistent://public/short/topic")]
    world.do(world.directory.namespaces.ensure(name))
    world.do(world.directory.permissions.grant(str(name), "a", ["produce"]))
    world.do(world.directory.authorize(["a"], asked))
    world.do(world.directory.deletion.namespace(str(name), False))
    with pytest.raises(NotAuthorized):
        world.do(world.directory.authorize(["a"], asked))
    world.do(world.directory.namespaces.ensure(name))
    with pytest.raises(NotAuthorized):
        world.do(world.directory.authorize(["a"], asked))


def test_what_is_read_while_grants_change_is_not_kept() -> None:
    world = World()
    world.grant("a", "produce")
    authorizer = world.directory.authorizer
    world.do(authorizer.changed(NAMESPACE))
    authorizer._known.clear()
    gate = world.clock.promise()
    get = world.metadata.get

    async def slow(key: str) -> Any:
        found = await get(key)
        if key == namespace_key(NAMESPACE):
            await gate
        return found

    world.metadata.get = slow  # type: ignore[method-assign]
    reading = start(world.directory.authorize(["a"], ASKED))
    world.clock.pump()
    world.metadata.get = get  # type: ignore[method-assign]
    world.do(world.directory.permissions.revoke(NAMESPACE, "a"))
    gate.set_result(None)
    world.clock.pump()
    reading.result()  # it was asked before the revocation
    assert not world.may("a")


def test_a_former_super_user_loses_what_is_open() -> None:
    world = World()
    client = world.client()
    client.session.roles = Roles("root")
    client.ask(pb.CommandProducer(topic=ASKED[0].subject, producer_id=1, request_id=1))
    dynamic = world.directory.dynamic
    world.do(dynamic.set("superUserRoles", "root,second"))
    assert client.received() == [] and world.may("root")
    world.do(dynamic.set("superUserRoles", "second"))
    (closed,) = client.received()
    assert isinstance(closed, pb.CommandCloseProducer)
    assert world.may("second") and not world.may("root")


def store(world: World, permissions: Any, namespace: str = NAMESPACE) -> None:
    """Store permissions without a check, as earlier releases did."""
    world.do(world.directory.namespaces.change_permissions(namespace, lambda _: permissions))


@pytest.mark.parametrize("bad", [
    {"namespace_auth": {"a": 5}},
    {"namespace_auth": {"a": "produce"}},
    {"namespace_auth": {"a": {"produce": 1}}},
    {"namespace_auth": 5},
    {"namespace_auth": None},
    {"destination_auth": 5},
])  # fmt: skip
def test_stored_permissions_of_another_form_are_none(
    bad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.grant("a", "produce")
    world.grant("b", "produce")
    clients = [world.client(), world.client()]
    for client, role in zip(clients, ("a", "b"), strict=True):
        client.session.roles = Roles(role)
        client.ask(pb.CommandProducer(topic=ASKED[0].subject, producer_id=1, request_id=1))
    store(world, bad)
    for client in clients:
        (closed,) = client.received()
        assert isinstance(closed, pb.CommandCloseProducer)
    assert not world.may("a") and world.may("root")
    assert NAMESPACE in caplog.text and "cannot be read" in caplog.text


def test_roles_of_a_subscription_of_another_form_are_nobody() -> None:
    world = World()
    asked = [AccessRequest(RequiredPermission.CONSUME, ASKED[0].subject, "sub")]
    for bad in ("abc", 5, 0, None):
        store(world, {
            "namespace_auth": {"a": ["consume"]}, "subscription_auth_roles": {"sub": bad},
        })  # fmt: skip
        with pytest.raises(NotAuthorized):
            world.do(world.directory.authorize(["a"], asked))


def test_one_namespace_that_cannot_be_checked_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    tenant = Tenant(("a",), ("standalone",))
    world.do(world.directory.tenants.change("public", tenant))
    world.do(world.directory.namespaces.ensure(NamespaceName.parse("public/another")))
    client = world.client()
    client.session.roles = Roles("a")
    client.ask(pb.CommandProducer(topic=ASKED[0].subject, producer_id=1, request_id=1))
    topic_host = world.directory.topic_host
    reauthorize = topic_host.reauthorize

    async def failing(namespace: str, grants: Any) -> None:
        if namespace == "public/another":
            raise TypeError("it cannot")
        await reauthorize(namespace, grants)

    monkeypatch.setattr(topic_host, "reauthorize", failing)
    with pytest.raises(TypeError, match="it cannot"):
        world.do(world.directory.tenants.change("public", Tenant((), ("standalone",))))
    (closed,) = client.received()
    assert isinstance(closed, pb.CommandCloseProducer)


def test_a_topic_that_cannot_follow_settings_keeps_no_super_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    client = world.client()
    client.session.roles = Roles("root")
    client.ask(pb.CommandProducer(topic=ASKED[0].subject, producer_id=1, request_id=1))
    topic_host = world.directory.topic_host
    configure = topic_host.configure

    async def failing(changed: Any) -> None:
        await configure(changed)
        raise Unavailable("a topic cannot")

    monkeypatch.setattr(topic_host, "configure", failing)
    with pytest.raises(Unavailable):
        world.do(world.directory.dynamic.set("superUserRoles", "second"))
    (closed,) = client.received()
    assert isinstance(closed, pb.CommandCloseProducer)
    assert world.may("second") and not world.may("root")
