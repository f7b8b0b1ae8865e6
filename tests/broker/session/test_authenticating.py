"""Authentication of a connection: what waits for it, and what happens when credentials expire."""

from typing import Any

import jwt
import pytest

from credentials import SECRET
from fakes.sessions import Client, SessionWorld, produce
from fakes.world import ManualPromise
from magnetar_broker.authentication.authenticator import AuthenticationRules, Authenticator
from magnetar_broker.authentication.identity import Identity, Roles
from magnetar_broker.authentication.provider import Credentials
from magnetar_broker.authentication.token_keys import secret_key
from magnetar_broker.authentication.tokens import TokenRules, Tokens
from magnetar_broker.session.session import Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, PROTOCOL_VERSION
from magnetar_proto.frames import FrameDecoder

REFRESH = pb.FeatureFlags(supports_auth_refresh=True)


class Slow(Tokens):
    """Answers when the test says so."""

    promise: Any

    async def identify(self, credentials: Credentials) -> Identity:
        if self.promise is not None:
            await self.promise
        return await super().identify(credentials)


class World(SessionWorld):
    def __init__(self, is_slow: bool = False, **rules: Any) -> None:
        super().__init__()
        provider = Slow(secret_key(SECRET), TokenRules(), lambda: self.clock.now_ms() / 1000)
        self.promise = ManualPromise()
        provider.promise = self.promise if is_slow else None
        self.authenticator = Authenticator([provider], AuthenticationRules(**rules))
        self.broker.authenticator = self.authenticator

    def token(self, role: str, seconds: float | None = None) -> bytes:
        claims: dict[str, Any] = {"sub": role}
        if seconds is not None:
            claims["exp"] = self.clock.now_ms() // 1000 + int(seconds)
        return jwt.encode(claims, SECRET).encode()

    def stranger(self) -> "Stranger":
        return Stranger(self)

    def connected(
        self, role: str = "bob", seconds: float | None = None, **fields: Any
    ) -> "Stranger":
        client = self.stranger()
        client.send(connect(self.token(role, seconds), **fields))
        (answer,) = client.received()
        assert isinstance(answer, pb.CommandConnected)
        return client


class Stranger(Client):
    """A client that has not connected yet."""

    session: Session

    def __init__(self, world: World) -> None:
        self.address = "10.0.0.9:4711"
        self.reading = True
        self.closed = False
        self.session = world.session(self)
        self._world = world
        self._decoder = FrameDecoder(1 << 24)


def connect(data: bytes, **fields: Any) -> pb.CommandConnect:
    return pb.CommandConnect(
        client_version="test", protocol_version=PROTOCOL_VERSION, auth_method_name="token",
        auth_data=data, **fields,
    )  # fmt: skip


def response(data: bytes) -> pb.CommandAuthResponse:
    return pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=data))


def is_refused(client: Stranger) -> bool:
    (answer,) = client.received()
    return client.closed and answer == pb.CommandError(
        request_id=NO_REQUEST, error=pb.AuthenticationError, message="Failed to authenticate"
    )


def test_a_connection_has_the_role_that_it_proved() -> None:
    world = World()
    assert world.connected("bob").session.roles == Roles("bob")


@pytest.mark.parametrize("data", [b"", b"x", jwt.encode({"sub": "bob"}, SECRET[::-1]).encode()])
def test_a_client_without_proof_is_refused_and_closed(data: bytes) -> None:
    world = World(anonymous="nobody")
    client = world.stranger()
    client.send(connect(data), produce(1))
    assert is_refused(client)
    assert not client.session.connected and client.session.roles is None
    assert not list(world.broker.topics)


def test_what_follows_a_connect_waits_until_it_is_accepted() -> None:
    world = World(is_slow=True)
    client = world.stranger()
    client.send(connect(world.token("bob")), produce(1))
    client.send(pb.CommandPing())
    assert client.received() == [] and not client.session.connected and not client.reading
    assert not list(world.broker.topics)
    world.promise.set_result(None)
    connected, *rest = client.received()
    assert isinstance(connected, pb.CommandConnected)
    assert {type(answer) for answer in rest} == {pb.CommandProducerSuccess, pb.CommandPong}
    assert client.reading


def test_what_follows_a_refused_connect_is_never_handled() -> None:
    world = World(is_slow=True)
    client = world.stranger()
    client.send(connect(b"x"), produce(1), pb.CommandPing())
    assert client.received() == []
    world.promise.set_result(None)
    assert is_refused(client)
    assert not list(world.broker.topics)


def test_a_second_connect_does_not_change_the_role() -> None:
    world = World(is_slow=True)
    client = world.stranger()
    client.send(connect(world.token("bob")), connect(world.token("admin")))
    client.received()
    world.promise.set_result(None)
    client.received()
    assert client.closed and client.session.roles == Roles("bob")


def test_a_client_that_leaves_meanwhile_is_forgotten() -> None:
    world = World(is_slow=True)
    client = world.stranger()
    client.send(connect(world.token("bob", 60)))
    client.received()
    client.session.lost()
    world.promise.set_result(None)
    world.clock.pump()
    assert client.session.renewal is None and not client.session.connected


def test_a_connection_of_another_process_is_authenticated_there() -> None:
    world = World()
    client = world.stranger()
    client.session.is_upstream = True
    client.session.roles = Roles("alice")
    client.send(connect(b"no token"))
    assert isinstance(client.received()[0], pb.CommandConnected)
    assert client.session.roles == Roles("alice")


# Expiry ---------------------------------------------------------------------------------


def test_a_client_that_cannot_renew_is_cut_off_at_the_first_look_after_the_expiry() -> None:
    world = World()
    client = world.connected(seconds=90)
    world.clock.advance(61)
    assert client.received() == [] and not client.closed
    world.clock.advance(60)
    assert client.received() == [] and client.closed


def test_a_token_without_an_end_is_never_looked_at() -> None:
    world = World()
    client = world.connected()
    world.clock.advance(10_000)
    assert client.received() == [] and not client.closed


def test_a_client_that_can_renew_is_asked_and_goes_on() -> None:
    world = World()
    client = world.connected(seconds=30, feature_flags=REFRESH)
    world.clock.advance(61)
    (challenge,) = client.received()
    assert challenge.challenge.auth_method_name == "token"
    assert challenge.challenge.auth_data == b"PulsarAuthRefresh"
    client.send(response(world.token("bob", 90)), pb.CommandPing())
    world.clock.advance(60)  # the new one is valid
    assert [type(answer) for answer in client.received()] == [pb.CommandPong]
    world.clock.advance(60)  # not any more
    assert isinstance(client.received()[0], pb.CommandAuthChallenge)
    assert not client.closed


def test_a_client_that_does_not_answer_is_cut_off_at_the_next_look() -> None:
    world = World()
    client = world.connected(seconds=30, feature_flags=REFRESH)
    world.clock.advance(61)
    assert isinstance(client.received()[0], pb.CommandAuthChallenge)
    world.clock.advance(59)
    assert client.received() == [] and client.closed


def test_an_answer_without_proof_ends_the_connection() -> None:
    world = World()
    for data in (b"x", world.token("bob", -1)):
        client = world.connected(seconds=30, feature_flags=REFRESH)
        client.send(response(data))
        assert is_refused(client)


def test_an_answer_with_another_role_ends_the_connection_without_a_word() -> None:
    world = World()
    client = world.connected("bob", 30, feature_flags=REFRESH)
    client.send(response(world.token("admin")))
    assert client.received() == [] and client.closed


def test_the_client_of_a_proxy_that_has_no_credentials_of_it_is_cut_off() -> None:
    world = World(proxies=frozenset(("proxy",)))
    client = world.connected("proxy", 30, feature_flags=REFRESH, original_principal="bob")
    world.clock.advance(61)
    assert client.received() == [] and client.closed


def test_the_credentials_of_a_proxy_end_the_connection_though_its_client_can_renew() -> None:
    world = World(proxies=frozenset(("proxy",)), proves_originals=True)
    original = {"original_principal": "bob", "original_auth_method": "token"}
    client = world.connected(
        "proxy", 90, feature_flags=REFRESH, **original,
        original_auth_data=world.token("bob", 30).decode(),
    )  # fmt: skip
    world.clock.advance(61)
    assert isinstance(client.received()[0], pb.CommandAuthChallenge)
    client.send(response(world.token("bob", 1000)))
    world.clock.advance(61)
    assert client.received() == [] and client.closed


def test_an_answer_of_a_client_that_was_not_authenticated_breaks_the_protocol() -> None:
    world = SessionWorld()
    client = world.client()
    client.send(response(b"x"))
    assert client.received() == [] and client.closed
