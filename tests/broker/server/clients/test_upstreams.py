"""Sockets of upstreams: traffic between clients of one worker and topics of another."""

import asyncio
import socket
from typing import Any

import pytest

from fakes.loop_world import LoopClock
from fakes.loops import on_both_loops
from fakes.waiting import until
from fakes.workers import AsyncClient, Group, connect_frame, group, sessions_ended
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.limits.held_bytes import HeldBytes
from magnetar_broker.limits.reached import ClientLimit, ReachedLimits
from magnetar_broker.server.clients.socket_pair import attach
from magnetar_broker.server.clients.upstreams import WRITE_BUFFER, UpstreamSocket
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import encode_flow
from raw_client import send_frame

PREFIX = "persistent://public/default/"
BIG = b"x" * 100_000


def topic_of(worker: int, count: int = 2) -> str:
    """Return a topic of a worker, see `OwnersByLength`."""
    return next(
        topic for size in range(1, 9) if len(topic := PREFIX + "t" * size) % count == worker
    )


def produce(request_id: int, topic: str, producer_id: int = 1) -> bytes:
    return encode(pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=request_id))


def subscribe(request_id: int, topic: str) -> bytes:
    return encode(
        pb.CommandSubscribe(
            topic=topic,
            subscription="s",
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=1,
            request_id=request_id,
        )
    )


async def connected(workers: Group) -> AsyncClient:
    """Return a client of worker 0, for topics of any worker."""
    client = await workers.client(connect_frame())
    assert await client.served_by() == 0
    return client


async def expect(client: AsyncClient, kind: type) -> Any:
    answer = await client.receive()
    assert isinstance(answer, kind), answer
    return answer


@on_both_loops
async def test_a_client_publishes_and_receives_through_another_worker() -> None:
    async with group() as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        await client.send(subscribe(2, topic_of(1)) + encode_flow(1, 10))
        await expect(client, pb.CommandSuccess)
        await client.send(encode_flow(1, 100) + send_frame(0, BIG) + send_frame(1, b"y"))
        kinds = {type(await client.receive()) for _ in range(4)}
        assert kinds == {pb.CommandSendReceipt, pb.CommandMessage}
        await client.close()


@on_both_loops
async def test_the_worker_knows_the_client_by_its_address_and_does_not_count_it() -> None:
    async with group() as workers:
        client = await connected(workers)
        await client.send(subscribe(1, topic_of(1)))
        await expect(client, pb.CommandSuccess)
        await client.send(encode(pb.CommandConsumerStats(consumer_id=1, request_id=2)))
        stats = await expect(client, pb.CommandConsumerStatsResponse)
        assert stats.address == "{}:{}".format(*client.host)
        assert [one.broker.connections for one in workers.workers] == [1, 0]
        await client.close()


@on_both_loops
async def test_the_worker_knows_what_its_peer_has_authenticated() -> None:
    async with group() as workers:
        client = await connected(workers)
        (own,) = workers.workers[0].listener.connections
        own.session.roles = Roles("proxy", "alice")
        await client.send(subscribe(1, topic_of(1)))
        await expect(client, pb.CommandSuccess)
        (there,) = workers.workers[1].listener.connections
        assert there.session.roles == Roles("proxy", "alice")
        await client.close()


@on_both_loops
async def test_a_slow_reader_gets_everything_in_the_end() -> None:
    count = 200
    async with group() as workers:
        slow, other = await connected(workers), await connected(workers)
        await slow.send(subscribe(1, topic_of(1)))
        await expect(slow, pb.CommandSuccess)
        await slow.send(encode_flow(1, 1000))
        (connection,) = workers.workers[1].listener.connections
        await other.send(produce(1, topic_of(1)))
        await expect(other, pb.CommandProducerSuccess)
        for number in range(count):
            await other.send(send_frame(number, BIG))
            await expect(other, pb.CommandSendReceipt)
        await until(
            lambda: not connection.session.has_room(), "what the owner sends waits for the client"
        )
        for _ in range(count):
            await expect(slow, pb.CommandMessage)
        await slow.close()
        await other.close()


@on_both_loops
async def test_a_worker_that_reads_nothing_stops_the_client_alone() -> None:
    async with group() as workers:
        client, other = await connected(workers), await connected(workers)
        await client.send(produce(1, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        (connection,) = workers.workers[1].listener.connections
        resume = connection.session.hold_reading()
        count = 100
        sending = asyncio.create_task(
            client.send(b"".join(send_frame(number, BIG) for number in range(count)))
        )
        own = next(iter(one for one in workers.workers[0].listener.connections
                        if one.session.relay is not None)).session  # fmt: skip
        await until(lambda: own._gate.is_held, "the client is not read from")
        receiving = workers.workers[0].broker.receiving
        await until(
            lambda: any(isinstance(one, UpstreamSocket) for one in receiving._holders),
            "what waits for the worker is counted",
        )
        await other.send(encode(pb.CommandPing()))
        await expect(other, pb.CommandPong)
        assert not sending.done()
        resume()
        await sending
        receipts = 0
        while receipts < count:
            answer = await client.receive()
            receipts += isinstance(answer, pb.CommandSendReceipt)
        assert receiving.used == 0
        await client.close()
        await other.close()


class Recorded:
    """An upstream that records the calls of its socket."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def received(self, data: bytes) -> None:
        self.told.append("received")

    def wrote(self, full: bool) -> None:
        self.told.append("full" if full else "has room")

    def ended(self) -> None:
        self.told.append("ended")

    def give_up(self) -> None:
        self.told.append("gives the client up")


@on_both_loops
async def test_a_client_for_whose_worker_too_much_waits_is_disconnected() -> None:
    reached = ReachedLimits(LoopClock())
    held = HeldBytes(WRITE_BUFFER, reached, ClientLimit.RECEIVE_BUFFER, "receive")
    upstream, (own, other) = Recorded(), socket.socketpair()
    made = UpstreamSocket(upstream, LoopTimer().run, "client:1", held)  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    await attach(lambda: made, own)
    made.write([bytes(10 << 20)])
    await until(lambda: len(upstream.told) > 2, "the client is given up")
    assert upstream.told == ["has room", "full", "gives the client up"]
    assert reached.counts[ClientLimit.RECEIVE_BUFFER] == 1 and held.used == 0
    other.setblocking(False)
    while await loop.sock_recv(other, 1 << 20):
        pass
    other.close()


@on_both_loops
async def test_what_a_client_sent_before_it_left_arrives() -> None:
    async with group() as workers:
        client, other = await connected(workers), await connected(workers)
        await other.send(subscribe(1, topic_of(1)))
        await expect(other, pb.CommandSuccess)
        await other.send(encode_flow(1, 100))
        await client.send(produce(1, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        await client.send(b"".join(send_frame(number, BIG) for number in range(50)))
        client.finish_sending()
        for _ in range(50):
            await expect(other, pb.CommandMessage)
        await other.close()
        await client.close()


@on_both_loops
async def test_a_client_whose_worker_closes_the_upstream_reconnects() -> None:
    async with group() as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        workers.workers[1].listener.disconnect()
        closed = await expect(client, pb.CommandCloseProducer)
        assert closed.producer_id == 1
        await client.send(produce(2, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        await client.close()


@on_both_loops
async def test_requests_wait_for_a_worker_that_has_not_started() -> None:
    async with group(linked=False) as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)))
        await client.send(encode(pb.CommandPing()))
        await expect(client, pb.CommandPong)
        workers.link(0, 1)
        await expect(client, pb.CommandProducerSuccess)
        await client.close()


@on_both_loops
async def test_requests_for_a_worker_that_never_starts_are_refused() -> None:
    async with group(linked=False, seconds=0.01) as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)))
        error = await expect(client, pb.CommandError)
        assert (error.request_id, error.error) == (1, pb.ServiceNotReady)
        await client.close()


@on_both_loops
async def test_a_client_that_leaves_while_its_worker_starts_is_forgotten() -> None:
    async with group(linked=False) as workers:
        client = await connected(workers)
        await client.send(produce(1, topic_of(1)) + encode(pb.CommandPing()))
        await expect(client, pb.CommandPong)
        await client.close()
        await sessions_ended(workers.workers[:1])
        workers.link(0, 1)
        await until(lambda: not workers.workers[0].senders[1].held, "no client is kept")
        await sessions_ended(workers.workers[1:])


@on_both_loops
async def test_without_descriptors_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise OSError("no descriptors are left")

    async with group() as workers:
        client = await connected(workers)
        monkeypatch.setattr(socket, "socketpair", none)
        await client.send(produce(1, topic_of(1)))
        error = await expect(client, pb.CommandError)
        assert (error.request_id, error.error) == (1, pb.ServiceNotReady)
        monkeypatch.undo()
        descriptors = workers.workers[0].descriptors
        monkeypatch.setattr(descriptors, "admits", lambda number: False)
        await client.send(produce(3, topic_of(1)))
        assert (await expect(client, pb.CommandError)).request_id == 3
        monkeypatch.undo()
        await client.send(produce(2, topic_of(1)))
        await expect(client, pb.CommandProducerSuccess)
        await client.close()
