"""Clients that are passed between workers: each arrives once or is refused, if any process ends."""

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from fakes.loop_world import turns
from fakes.loops import on_both_loops
from fakes.waiting import HANGS_SECONDS, until
from fakes.workers import AsyncClient, Group, Worker, address, connect_frame, group
from magnetar_broker.server.clients import socket_sender as departure
from magnetar_broker.server.clients.origin import ON_ITS_OWN, Origin
from magnetar_broker.server.clients.socket_receiver import ACKNOWLEDGEMENT, SocketReceiver
from magnetar_broker.server.clients.socket_sender import WINDOW
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

TO_WORKER_1 = connect_frame(address(1))
PASSED_ON = ON_ITS_OWN.encoded() + TO_WORKER_1
PING = encode(pb.CommandPing())


class DyingWorker:
    """The far end of a channel, whose process ends before it receives a client, or during that."""

    def __init__(self, workers: Group, room: int = 1 << 20) -> None:
        sending, self._receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
        self._receiving.setblocking(False)
        workers.workers[0].senders[1].replace(sending)
        self.taken: list[socket.socket] = []

    def announce(self) -> None:
        """Report that the process is ready."""
        self._receiving.send(ACKNOWLEDGEMENT)

    async def readable(self) -> None:
        """Wait until something was sent."""
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self._receiving, readable.set_result, None)
        await readable
        loop.remove_reader(self._receiving)

    async def take(self, count: int) -> None:
        """Read `count` clients, and acknowledge none."""
        frames = b""
        while len(frames) < count * len(PASSED_ON):
            await self.readable()
            data, numbers, _, _ = socket.recv_fds(self._receiving, 1 << 16, WINDOW)
            frames += data
            self.taken += [socket.socket(fileno=number) for number in numbers]
        assert len(self.taken) == count

    def acknowledge(self, count: int) -> None:
        self._receiving.send(ACKNOWLEDGEMENT * count)

    def die(self) -> None:
        for client in (self._receiving, *self.taken):
            client.close()


async def clients(workers: Group, count: int) -> list[AsyncClient]:
    """Connect clients of worker 1."""
    return [await workers.client(TO_WORKER_1) for _ in range(count)]


async def answered(client: AsyncClient, worker: int = 1) -> None:
    """Check that a client is served: one CONNECTED, and a working connection."""
    assert await client.served_by() == worker
    await client.send(PING)
    assert isinstance(await client.receive(), pb.CommandPong)
    await client.close()


async def refused(client: AsyncClient, *words: str) -> None:
    error = await client.receive()
    assert isinstance(error, pb.CommandError) and error.error == pb.ServiceNotReady, error
    assert all(word in error.message for word in words), error.message
    assert await client.receive() is None
    await client.close()


async def held(worker: Worker, count: int) -> None:
    """Wait until `count` clients are kept for worker 1."""
    await until(lambda: worker.senders[1].held == count, f"{count} clients are kept")


@on_both_loops
async def test_a_thousand_clients_at_once_are_all_served() -> None:
    async with group(3) as workers:
        at_a_time = asyncio.Semaphore(200)
        served = [0, 0, 0]

        async def come(number: int) -> None:
            worker = number % 3
            frame = connect_frame(address(worker), filler=number * 7919 % 60_000)
            async with at_a_time:
                client = await workers.client(frame + PING)
                assert await client.served_by() == worker
                assert isinstance(await client.receive(), pb.CommandPong)
                await client.close()
            served[worker] += 1

        await asyncio.gather(*(come(number) for number in range(1000)))
        assert served == [334, 333, 333]
        assert [one.broker.connections_total for one in workers.workers] == served


@on_both_loops
async def test_a_channel_that_takes_little_at_a_time_loses_nothing() -> None:
    async with group(linked=False) as workers:
        sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        frame = connect_frame(address(1), filler=60_000)
        waiting = [await workers.client(frame + PING) for _ in range(20)]
        await held(workers.workers[0], 20)
        workers.workers[1].receive_from(0, receiving)
        workers.workers[0].senders[1].replace(sending)
        for client in waiting:
            await answered(client)


@on_both_loops
async def test_clients_of_a_worker_that_has_not_started_wait_for_it() -> None:
    async with group(linked=False) as workers:
        waiting = await clients(workers, WINDOW + 10)
        await held(workers.workers[0], WINDOW + 10)
        workers.link(0, 1)
        for client in waiting:
            await answered(client)
        await held(workers.workers[0], 0)


@on_both_loops
async def test_nothing_is_sent_to_a_worker_that_is_not_ready() -> None:
    async with group(linked=False) as workers:
        dying = DyingWorker(workers)
        waiting = await clients(workers, 3)
        await held(workers.workers[0], 3)
        dying.die()
        assert not dying.taken
        workers.link(0, 1)
        for client in waiting:
            await answered(client)


@on_both_loops
@pytest.mark.parametrize("taken", [0, 2, 5])
async def test_clients_that_a_dead_worker_has_not_acknowledged_are_sent_again(taken: int) -> None:
    async with group(linked=False) as workers:
        dying = DyingWorker(workers)
        dying.announce()
        waiting = await clients(workers, 5)
        await held(workers.workers[0], 5)
        await dying.take(taken)
        dying.die()
        await turns()
        workers.link(0, 1)
        for client in waiting:
            await answered(client)
        assert workers.workers[1].broker.connections_total == 5


@on_both_loops
async def test_a_frame_that_a_dead_worker_has_begun_to_read_is_sent_again_whole() -> None:
    async with group(linked=False) as workers:
        dying = DyingWorker(workers, room=1)
        dying.announce()
        client = await workers.client(connect_frame(address(1), filler=60_000))
        await dying.readable()
        dying.die()
        workers.link(0, 1)
        await answered(client)


@on_both_loops
async def test_clients_of_a_worker_that_died_and_does_not_come_back_are_refused() -> None:
    async with group(linked=False, seconds=0.05) as workers:
        dying = DyingWorker(workers)
        dying.announce()
        waiting = await clients(workers, 3)
        await dying.readable()  # unread in the end, so that an error is reported
        dying.die()
        for client in waiting:
            await refused(client, "worker 1")


@on_both_loops
async def test_clients_that_a_dead_worker_has_acknowledged_end_with_it() -> None:
    async with group(linked=False) as workers:
        dying = DyingWorker(workers)
        dying.announce()
        waiting = []
        for number in range(5):  # one by one, so that they are sent in this order
            waiting += await clients(workers, 1)
            await held(workers.workers[0], number + 1)
        await dying.take(5)
        dying.acknowledge(2)
        dying.die()
        workers.link(0, 1)  # the end of the other process may not be noticed yet
        for client in waiting[:2]:
            assert await client.receive() is None
            await client.close()
        for client in waiting[2:]:
            await answered(client)


@on_both_loops
async def test_a_client_is_acknowledged_before_it_is_served() -> None:
    receiving, sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    sending.setblocking(False)
    taken = asyncio.get_running_loop().create_future()
    receiver = SocketReceiver(
        receiving,
        lambda *passed: taken.set_result((*passed, sending.recv(10))),
        Descriptors(),
        LoopTimer(),
    )
    assert sending.recv(10) == ACKNOWLEDGEMENT  # ready
    ours, theirs = socket.socketpair()
    origin = Origin("10.0.0.1:4711", certificate=b"DER")
    socket.send_fds(sending, [origin.encoded(), TO_WORKER_1], [theirs.fileno()])
    client, frame, passed, acknowledged = await asyncio.wait_for(taken, HANGS_SECONDS)
    assert (frame, passed, acknowledged) == (TO_WORKER_1, origin, ACKNOWLEDGEMENT)
    assert not client.getblocking() and not os.get_inheritable(client.fileno())
    receiver.stop()
    for one in (client, ours, theirs, sending):
        one.close()


@on_both_loops
async def test_a_worker_that_ends_within_a_frame_takes_its_client_with_it() -> None:
    receiving, sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    SocketReceiver(receiving, lambda *_: pytest.fail("half a frame"), Descriptors(), LoopTimer())
    ours, theirs = socket.socketpair()
    socket.send_fds(sending, [PASSED_ON[:-1]], [theirs.fileno()])
    theirs.close()
    sending.close()
    ours.setblocking(False)
    assert await asyncio.get_running_loop().sock_recv(ours, 1) == b""
    assert receiving.fileno() == -1
    ours.close()


@on_both_loops
async def test_who_waits_too_long_is_refused() -> None:
    async with group(linked=False, seconds=0.05) as workers:
        for client in await clients(workers, 3):
            await refused(client, "worker 1")
        late = await workers.client(connect_frame(address(0)))
        await answered(late, worker=0)
        workers.link(0, 1)
        for client in await clients(workers, 3):
            await answered(client)


@on_both_loops
async def test_no_more_clients_wait_than_the_limit() -> None:
    async with group(linked=False, limit=2) as workers:
        first = await clients(workers, 2)
        await held(workers.workers[0], 2)
        (third,) = await clients(workers, 1)
        await refused(third, "worker 1", "too many")
        workers.link(0, 1)
        for client in first:
            await answered(client)


@on_both_loops
async def test_those_that_wait_for_a_worker_count_as_connections_that_are_not_accepted() -> None:
    limit = 5
    async with group(
        linked=False, magnetar_max_unauthenticated_connections_per_ip=limit
    ) as workers:
        admission = workers.workers[0].broker.admission
        waiting = []
        for number in range(limit + 3):  # one by one: the oldest make room
            waiting += await clients(workers, 1)
            await held(workers.workers[0], min(number + 1, limit))
        for client in waiting[:3]:
            await refused(client, "worker 1", "too many")
        assert admission.half_open == limit
        workers.link(0, 1)
        for client in waiting[3:]:
            await answered(client)
        await held(workers.workers[0], 0)
        assert admission.half_open == 0


@on_both_loops
async def test_those_that_a_dead_worker_has_not_taken_count_again() -> None:
    async with group(linked=False) as workers:
        admission = workers.workers[0].broker.admission
        dying = DyingWorker(workers)
        dying.announce()
        waiting = await clients(workers, 3)
        await dying.take(3)
        assert admission.half_open == 0
        dying.die()
        await until(lambda: admission.half_open == 3, "they are counted")
        workers.link(0, 1)
        for client in waiting:
            await answered(client)
        assert admission.half_open == 0


@on_both_loops
async def test_at_the_end_those_that_wait_are_refused_and_those_that_were_sent_are_not() -> None:
    async with group(linked=False) as workers:
        dying = DyingWorker(workers)
        dying.announce()
        sent = await clients(workers, WINDOW)
        await dying.take(WINDOW)
        (waiting,) = await clients(workers, 1)
        await held(workers.workers[0], WINDOW + 1)
        workers.workers[0].senders[1].stop()
        await refused(waiting, "stops")
        for passed in dying.taken:
            passed.send(PING)
        for client in sent:
            assert isinstance(await client.receive(), pb.CommandPing)
            await client.close()
        dying.die()


@on_both_loops
async def test_a_system_without_room_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "RETRY_SECONDS", 0.001)
    failures = iter([OSError(errno.ETOOMANYREFS, "too many descriptors on their way")] * 3)
    send_fds = socket.send_fds

    def fail_first(*arguments: Any) -> int:
        for failure in failures:
            raise failure
        return send_fds(*arguments)

    monkeypatch.setattr(socket, "send_fds", fail_first)
    async with group() as workers:
        (client,) = await clients(workers, 1)
        await answered(client)


@on_both_loops
async def test_clients_that_left_while_they_waited_do_no_harm() -> None:
    async with group(linked=False) as workers:
        leaving, staying = await clients(workers, 2)
        await held(workers.workers[0], 2)
        await leaving.close()
        workers.link(0, 1)
        await answered(staying)
