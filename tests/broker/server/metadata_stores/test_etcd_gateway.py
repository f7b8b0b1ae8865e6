"""Calls over etcd's gateway: connections, endpoints, users, answers that are none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker.server.metadata_stores.scripted_etcd import Reply, ScriptedEtcd, scripted
from magnetar_broker.server.metadata_stores.access import NO_ACCESS, MetadataAccess
from magnetar_broker.server.metadata_stores.etcd_gateway import Gateway
from magnetar_broker.server.metadata_stores.urls import etcd_place
from magnetar_storage.errors import AccessDenied, Unavailable

OK = Reply([{"header": {}}])
AWAY = Reply([{"code": 14, "message": "etcdserver: no leader"}], 503)


@asynccontextmanager
async def gateway_to(
    *servers: ScriptedEtcd, access: MetadataAccess = NO_ACCESS
) -> AsyncIterator[Gateway]:
    place = etcd_place("etcd:" + ",".join(server.endpoint for server in servers))
    gateway = Gateway(place, access)
    try:
        yield gateway
    finally:
        gateway.close()


async def test_a_connection_is_used_again() -> None:
    async with scripted(OK, OK, OK) as server, gateway_to(server) as gateway:
        for number in range(3):
            assert await gateway.call("/v3/any", {"number": number}) == {"header": {}}
        assert server.asked == [("/v3/any", {"number": number}) for number in range(3)]
        assert server.connections == 1


@pytest.mark.parametrize("cut", [Reply(is_cut=True), Reply([b'{"hea'], is_cut=True)])
async def test_a_call_that_may_have_taken_place_is_not_repeated(cut: Reply) -> None:
    async with (
        scripted(cut) as server,
        scripted(OK) as other,
        gateway_to(server, other) as gateway,
    ):
        with pytest.raises(Unavailable, match="was closed before the answer"):
            await gateway.call("/v3/any", {})
        assert other.asked == []
        # The next call goes to the next server.
        await gateway.call("/v3/any", {})
        assert len(other.asked) == 1


async def test_a_server_that_refuses_for_now_is_left() -> None:
    async with (
        scripted(AWAY) as server,
        scripted(OK, OK) as other,
        gateway_to(server, other) as gateway,
    ):
        with pytest.raises(Unavailable, match="refused a request: no leader"):
            await gateway.call("/v3/any", {})
        for _ in range(2):
            await gateway.call("/v3/any", {})
        assert len(server.asked) == 1


async def test_a_server_that_does_not_answer_is_left() -> None:
    hasty = replace(NO_ACCESS, request_seconds=0.01)
    async with (
        scripted() as server,
        scripted(OK) as other,
        gateway_to(server, other, access=hasty) as gateway,
    ):
        with pytest.raises(Unavailable, match=r"no answer within 0\.01 seconds"):
            await gateway.call("/v3/any", {})
        assert gateway._pools[0].endpoint.port == other.port


async def test_streams_of_a_server_that_is_left_end() -> None:
    begun = Reply([{"result": {"created": True}}], goes_on=True)
    async with (
        scripted(begun, AWAY) as server,
        scripted(OK) as other,
        gateway_to(server, other) as gateway,
    ):
        stream = gateway.stream("/v3/watch", {})
        assert await anext(stream) == {"created": True}
        with pytest.raises(Unavailable):
            await gateway.call("/v3/any", {})
        with pytest.raises(Unavailable, match="was closed before the answer"):
            await anext(stream)


async def test_the_parts_of_a_stream_may_be_cut_anywhere() -> None:
    pieces = [bytes([byte]) for byte in b'{"result":{"a":1}}\n\n{"result":{"a":2}}\n']
    async with scripted(Reply(pieces)) as server, gateway_to(server) as gateway:
        assert [one async for one in gateway.stream("/v3/watch", {})] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "reply", [Reply([b"<html>"]), Reply([b"Client sent an HTTP request"], 400), Reply([{}], 404)]
)
async def test_what_is_not_etcd_is_told(reply: Reply) -> None:
    async with scripted(reply, reply) as server, gateway_to(server) as gateway:
        with pytest.raises(Unavailable, match="the answer is not one of etcd's gateway"):
            await gateway.call("/v3/any", {})
        with pytest.raises(Unavailable, match="the answer is not one of etcd's gateway"):
            await anext(gateway.stream("/v3/watch", {}))


async def test_a_user_has_a_token_and_another_one_when_it_is_refused() -> None:
    expired = Reply([{"code": 16, "message": "etcdserver: invalid auth token"}], 401)
    access = MetadataAccess(user="me", password="s3cret")
    async with scripted(
        Reply([{"token": "one"}]), OK, expired, Reply([{"token": "two"}]), OK, expired,
        Reply([{"token": "three"}]), expired,
    ) as server, gateway_to(server, access=access) as gateway:  # fmt: skip
        await gateway.call("/v3/first", {})
        await gateway.call("/v3/second", {})
        with pytest.raises(AccessDenied):
            await gateway.call("/v3/third", {})
        login = ("/v3/auth/authenticate", {"name": "me", "password": "s3cret"})
        assert server.asked == [
            login, ("/v3/first", {}), ("/v3/second", {}), login, ("/v3/second", {}),
            ("/v3/third", {}), login, ("/v3/third", {}),
        ]  # fmt: skip
        tokens = [head.partition("authorization: ")[2].split("\r\n")[0] for head in server.headers]
        assert tokens == ["", "one", "one", "", "two", "two", "", "three"]


async def test_an_empty_answer_is_an_object() -> None:
    async with scripted(Reply([b" "])) as server, gateway_to(server) as gateway:
        assert await gateway.call("/v3/any", {}) == {}
