"""The objects of a client are freed when it has left, without a run of the garbage collector.

Collections are rare, because messages create no cyclic garbage: until the next one, clients that
come and leave would increase the memory of the process.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import ref

import pytest

from broker.server.clients.test_upstreams import connected, expect, produce, subscribe, topic_of
from fakes.loops import on_both_loops
from fakes.waiting import until
from fakes.workers import AsyncClient, Group, group, sessions_ended
from magnetar_broker.broker import Broker
from magnetar_broker.server.clients import in_process_client
from magnetar_broker.server.clients import upstreams as server_upstreams
from magnetar_broker.server.clients.upstreams import Upstreams, UpstreamSocket
from magnetar_broker.server.pages.health import HealthCheck
from magnetar_broker.session import read_gate
from magnetar_broker.session.relay import Upstream
from magnetar_broker.session.session import Handler, Outbox, Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import encode_flow
from raw_client import send_frame

NEVER = 1000.0
"""An interval, in seconds, longer than a test waits."""


@pytest.fixture(autouse=True)
def _without_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def visit(client: AsyncClient, topic: str) -> None:
    """Publish, receive, and watch the topics of the namespace."""
    await client.send(produce(1, topic))
    await expect(client, pb.CommandProducerSuccess)
    await client.send(subscribe(2, topic))
    await expect(client, pb.CommandSuccess)
    await client.send(encode_flow(1, 10) + send_frame(0, b"x"))
    kinds = {type(await client.receive()) for _ in range(2)}
    assert kinds == {pb.CommandSendReceipt, pb.CommandMessage}
    watch = pb.CommandWatchTopicList(
        request_id=3, watcher_id=1, namespace="public/default", topics_pattern=".*"
    )
    await client.send(encode(watch))
    await expect(client, pb.CommandWatchTopicListSuccess)


def sessions(workers: Group) -> list[Session]:
    """Return the sessions of all workers, that of the client first."""
    return [one.session for worker in workers.workers for one in worker.listener.connections]


def upstreams(workers: Group) -> list[Upstream]:
    """Return the upstreams with a producer of the client."""
    relay = sessions(workers)[0].relay
    return [] if relay is None else list(relay.producers.values())


def remains(workers: Group) -> list[Callable[[], object]]:
    """Return functions that each return one object which serves the client, or None if freed."""
    found: list[Any] = [one for worker in workers.workers for one in worker.listener.connections]
    found += sessions(workers)
    found += [one.relay for one in sessions(workers) if one.relay is not None]
    found += upstreams(workers)
    found += [one.channel for one in upstreams(workers)]
    return [ref(one) for one in found]


async def freed(parts: list[Callable[[], object]]) -> None:
    await until(lambda: not any(part() for part in parts), "what served the client is freed")


@on_both_loops
@pytest.mark.parametrize("closed_by", ["client", "broker"])
@pytest.mark.parametrize(
    ("count", "owner", "parts"), [(1, 0, 2), (2, 1, 7)], ids=["served here", "relayed"]
)
async def test_what_served_a_client_is_freed_at_once(
    closed_by: str, count: int, owner: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_gate, "KEEP_ALIVE_SECONDS", NEVER)
    async with group(count) as workers:
        client = await connected(workers)
        await visit(client, topic_of(owner))
        sessions(workers)[-1].ping_if_read()
        await expect(client, pb.CommandPing)
        before = remains(workers)
        assert len(before) == parts
        if closed_by == "broker":
            sessions(workers)[0].disconnect("the test ends it")
        await client.close()
        await sessions_ended(workers.workers)
        await freed(before)


@on_both_loops
async def test_a_client_is_freed_before_its_worker_reads_what_it_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_gate, "KEEP_ALIVE_SECONDS", NEVER)
    monkeypatch.setattr(server_upstreams, "CLOSE_SECONDS", NEVER)
    async with group(linked=False) as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)) + encode(pb.CommandPing()))
        await expect(client, pb.CommandPong)
        *before, channel = remains(workers)
        assert len(before) == 4
        await client.close()
        await sessions_ended(workers.workers)
        await freed(before)
        assert channel()
        workers.link(0, 1)
        await freed([channel])
        await sessions_ended(workers.workers)


@on_both_loops
async def test_an_upstream_that_ended_is_freed_while_its_client_stays() -> None:
    async with group() as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        (upstream,) = upstreams(workers)
        before: list[Callable[[], object]] = [ref(upstream), ref(upstream.channel)]
        del upstream
        workers.workers[1].listener.disconnect()
        await expect(client, pb.CommandCloseProducer)
        await freed(before)
        await client.close()


@on_both_loops
async def test_an_upstream_without_descriptors_is_freed_while_its_client_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Callable[[], object]] = []

    def connect(upstreams: Upstreams, *given: Any) -> UpstreamSocket:
        channel = original(upstreams, *given)
        made.extend((ref(channel), ref(given[-1])))
        return channel

    original = Upstreams.connect
    monkeypatch.setattr(Upstreams, "connect", connect)
    async with group() as workers:
        client = await connected(workers)
        monkeypatch.setattr(workers.workers[0].descriptors, "admits", lambda number: False)
        await client.send(produce(1, topic_of(1)))
        await expect(client, pb.CommandError)
        assert len(made) == 2
        await freed(made)
        await client.close()


async def test_a_health_check_leaves_nothing_to_collect(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Callable[[], object]] = []

    class Noted(Session):
        def __init__(self, broker: Broker, outbox: Outbox, handlers: Mapping[int, Handler]) -> None:
            super().__init__(broker, outbox, handlers)
            made.extend((ref(self), ref(outbox)))

    monkeypatch.setattr(in_process_client, "Session", Noted)
    async with group(1) as workers:
        await HealthCheck(workers.workers[0].broker).check()
        assert len(made) == 2
        await freed(made)
