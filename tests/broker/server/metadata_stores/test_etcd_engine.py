"""The watch of etcd after a compaction, after a restore of older data, and when it is refused."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from broker.server.metadata_stores.scripted_etcd import Reply, ScriptedEtcd, scripted
from magnetar_broker.server.metadata_stores.access import NO_ACCESS
from magnetar_broker.server.metadata_stores.engine import Batch
from magnetar_broker.server.metadata_stores.etcd_engine import EtcdEngine
from magnetar_broker.server.metadata_stores.urls import etcd_place
from magnetar_storage.errors import LeaseEnded, TooLarge, Unavailable
from magnetar_storage.interfaces import Change
from magnetar_storage.metadata.writes import Put

REFUSED_LEASE = Reply([{"code": 5, "message": "etcdserver: requested lease not found"}], 404)
TOO_LARGE = Reply([{"code": 3, "message": "etcdserver: request is too large"}], 400)
WRITTEN = Reply([{"header": {"revision": "7"}, "responses": [{"response_txn": {}}]}])


def part(revision: int, **fields: Any) -> dict[str, Any]:
    return {"result": {"header": {"revision": str(revision)}, **fields}}


def event(key: str, value: str, revision: int) -> dict[str, Any]:
    """Return a change of a key below the prefix of the engine; the value is in base64."""
    named = b64encode(f"/p{key}".encode()).decode()
    return {"kv": {"key": named, "value": value, "mod_revision": str(revision)}}


@asynccontextmanager
async def engine_to(server: ScriptedEtcd) -> AsyncIterator[EtcdEngine]:
    engine = EtcdEngine(etcd_place(f"etcd:{server.endpoint}/p"), NO_ACCESS)
    try:
        yield engine
    finally:
        await engine.close()


def starts(server: ScriptedEtcd) -> list[str | None]:
    """Return the revision from which each watch was requested."""
    return [message["create_request"].get("start_revision") for _, message in server.asked]


async def test_a_watch_has_positions_and_changes() -> None:
    reply = Reply(
        [
            part(5, created=True),
            part(
                9,
                events=[
                    event("/a", "MQ==", 8),
                    {"type": "DELETE", **event("/a", "", 9)},
                ],
            ),
            part(20),
            part(30, events=[{"kv": {"key": "/w==", "mod_revision": "30"}}, event("/b", "", 30)]),
        ],
        goes_on=True,
    )
    async with scripted(reply) as server, engine_to(server) as engine:
        async with aclosing(engine.changes("/", None)) as changes:
            assert await anext(changes) == Batch(5, None)
            assert await anext(changes) == Batch(9, [Change("/a", b"1", 8), Change("/a", None, 9)])
            assert await anext(changes) == Batch(20, [])
            # One of the keys has bytes that no broker writes.
            assert await anext(changes) == Batch(30, [Change("/b", b"", 30)])
        assert starts(server) == [None]


async def test_a_watch_goes_on_after_its_position() -> None:
    reply = Reply([part(9, created=True), part(9, events=[event("/a", "", 9)])], goes_on=True)
    async with scripted(reply) as server, engine_to(server) as engine:
        async with aclosing(engine.changes("/", 8)) as changes:
            assert await anext(changes) == Batch(9, [Change("/a", b"", 9)])
        assert starts(server) == ["9"]


@pytest.mark.parametrize(
    "first",
    [
        Reply([part(9, created=True), part(9, canceled=True, compact_revision="7")]),
        Reply([part(3, created=True)], goes_on=True),
    ],
    ids=["compacted", "restored"],
)
async def test_a_watch_that_cannot_go_on_begins_with_a_listing(first: Reply) -> None:
    again = Reply([part(9, created=True), part(10, events=[event("/a", "", 10)])], goes_on=True)
    async with scripted(first, again) as server, engine_to(server) as engine:
        async with aclosing(engine.changes("/", 5)) as changes:
            assert await anext(changes) == Batch(9, None)
            assert await anext(changes) == Batch(10, [Change("/a", b"", 10)])
        assert starts(server) == ["6", None]


async def test_a_watch_that_is_refused_is_not_an_end() -> None:
    reply = Reply([part(0, canceled=True, cancel_reason="permission denied")])
    async with scripted(reply) as server, engine_to(server) as engine:
        with pytest.raises(Unavailable, match="etcd ended a watch: permission denied"):
            await anext(engine.changes("/", None))


@pytest.mark.parametrize(("refused", "kind"), [(REFUSED_LEASE, LeaseEnded), (TOO_LARGE, TooLarge)])
async def test_a_transaction_that_is_refused_for_one_write_is_made_for_the_others(
    refused: Reply, kind: type[Exception]
) -> None:
    group = [Put("/a", b"", None, None), Put("/b", b"", None, "1"), Put("/c", b"", None, None)]
    async with scripted(refused, WRITTEN, refused, WRITTEN) as server, engine_to(server) as engine:
        outcomes = await engine.write(group)
        assert [outcomes[0], outcomes[2]] == [7, 7]
        assert type(outcomes[1]) is kind
        assert [len(message["success"]) for _, message in server.asked] == [3, 1, 1, 1]
