"""Clients of several workers: each is served by the worker that it names, and no byte is lost."""

import errno
import os
import resource
import socket
import struct
from typing import Any

import pytest

from fakes.loop_world import turns
from fakes.loops import on_both_loops
from fakes.waiting import until
from fakes.workers import (
    AsyncClient,
    address,
    connect_frame,
    group,
    listening_socket,
    sessions_ended,
)
from magnetar_broker.server.runtime import accepting
from magnetar_broker.session.session import MAX_FRAME_BEFORE_CONNECT
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST, encode
from magnetar_proto.frames import SIZE


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def own_topic(worker: int) -> str:
    """Return a topic of one worker of two, see `OwnersByLength`."""
    name = "persistent://public/default/topic"
    return name + "x" * ((worker - len(name)) % 2)


def producer(worker: int) -> bytes:
    return encode(pb.CommandProducer(topic=own_topic(worker), producer_id=1, request_id=7))


async def served_by(client: AsyncClient) -> int:
    worker = await client.served_by()
    await client.close()
    return worker


@on_both_loops
@pytest.mark.parametrize(
    ("url", "worker"),
    [("", 0), (address(0), 0), (address(1), 1), (f"pulsar://{address(2)}", 2)],
)
async def test_a_client_is_served_by_the_worker_that_it_names(url: str, worker: int) -> None:
    async with group(3) as workers:
        assert await served_by(await workers.client(connect_frame(url))) == worker
        assert [one.broker.connections_total for one in workers.workers] == [
            int(number == worker) for number in range(3)
        ]


@on_both_loops
async def test_who_names_nobody_that_is_known_is_refused() -> None:
    async with group() as workers:
        client = await workers.client(connect_frame("pulsar://elsewhere:6650"))
        error = await client.receive()
        assert isinstance(error, pb.CommandError)
        assert (error.error, error.request_id) == (pb.ServiceNotReady, NO_REQUEST)
        assert "elsewhere:6650" in error.message
        assert await client.receive() is None
        await client.close()


@on_both_loops
@pytest.mark.parametrize("worker", [0, 1])
async def test_connect_may_come_in_two_pieces_cut_anywhere(worker: int) -> None:
    frame = connect_frame(address(worker))
    async with group() as workers:
        for cut in range(1, len(frame)):
            client = await workers.client(frame[:cut])
            await turns()
            await client.send(frame[cut:])
            assert await served_by(client) == worker


@on_both_loops
@pytest.mark.parametrize("worker", [0, 1])
async def test_connect_and_what_follows_may_come_byte_by_byte(worker: int) -> None:
    async with group() as workers:
        client = await workers.client()
        for byte in connect_frame(address(worker)) + producer(worker):
            await client.send(bytes([byte]))
            await turns(1)
        assert await client.served_by() == worker
        assert isinstance(await client.receive(), pb.CommandProducerSuccess)
        await client.close()


@on_both_loops
@pytest.mark.parametrize("worker", [0, 1])
async def test_what_follows_connect_in_one_segment_is_not_lost(worker: int) -> None:
    async with group() as workers:
        client = await workers.client(
            connect_frame(address(worker)) + producer(worker) + encode(pb.CommandPing())
        )
        assert await client.served_by() == worker
        answers = [await client.receive(), await client.receive()]
        kinds = (pb.CommandProducerSuccess, pb.CommandPong)
        assert {type(answer) for answer in answers} == set(kinds)
        await client.close()


@on_both_loops
@pytest.mark.parametrize("worker", [0, 1])
async def test_the_largest_connect_is_passed_whole(worker: int) -> None:
    empty = connect_frame(address(worker), filler=MAX_FRAME_BEFORE_CONNECT // 2)
    filler = MAX_FRAME_BEFORE_CONNECT - len(empty) + MAX_FRAME_BEFORE_CONNECT // 2
    frame = connect_frame(address(worker), filler)
    assert len(frame) == MAX_FRAME_BEFORE_CONNECT
    async with group() as workers:
        assert await served_by(await workers.client(frame)) == worker


@on_both_loops
@pytest.mark.parametrize(
    "sent",
    [
        encode(pb.CommandPing()),
        SIZE.pack(MAX_FRAME_BEFORE_CONNECT) + connect_frame(address(1)),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
    ],
    ids=["PING", "too large", "HTTP", "no command"],
)
async def test_whatever_is_no_connect_ends_the_connection(sent: bytes) -> None:
    async with group() as workers:
        client = await workers.client(sent)
        assert await client.receive() is None
        await client.close()
        assert workers.workers[0].broker.connections_total == 1


@on_both_loops
async def test_a_client_that_does_not_complete_connect_is_disconnected_in_time() -> None:
    async with group(magnetar_handshake_timeout_seconds=1) as workers:
        silent = await workers.client()
        slow = await workers.client(connect_frame()[:-1])
        assert await slow.receive() is None and await silent.receive() is None
        for client in (slow, silent):
            await client.close()
        assert await served_by(await workers.client(connect_frame())) == 0


@on_both_loops
async def test_a_client_that_leaves_before_connect_is_forgotten() -> None:
    async with group() as workers:
        assert await served_by(await workers.client(connect_frame(address(1)))) == 1
        await sessions_ended(workers.workers)
        before = open_descriptors()
        leaving = await workers.client(connect_frame()[:5])
        await leaving.close()
        resetting = socket.create_connection(("127.0.0.1", workers.port))
        resetting.send(b"\0")
        resetting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        resetting.close()
        assert await served_by(await workers.client(connect_frame(address(1)))) == 1
        await until(lambda: open_descriptors() <= before, "all other descriptors are closed")


@on_both_loops
async def test_the_end_closes_connections_without_connect() -> None:
    async with group() as workers:
        client = await workers.client(connect_frame()[:5])
        await turns()
        workers.workers[0].stop_accepting()
        assert await client.receive() is None
        await client.close()


@on_both_loops
@pytest.mark.parametrize("worker", [0, 1])
async def test_a_limit_of_connections_applies_where_the_client_is_served(worker: int) -> None:
    async with group(broker_max_connections=1) as workers:
        frames = [connect_frame(address(number)) for number in (worker, 1 - worker, worker)]
        clients = [await workers.client(frame) for frame in frames[:2]]
        assert [await client.served_by() for client in clients] == [worker, 1 - worker]
        clients.append(await workers.client(frames[2]))
        error = await clients[2].receive()
        assert isinstance(error, pb.CommandError) and error.error == pb.NotAllowedError
        assert await clients[2].receive() is None
        for client in clients:
            await client.close()


@on_both_loops
async def test_a_limit_of_one_address_applies_to_clients_that_were_passed_on() -> None:
    async with group(broker_max_connections_per_ip=1) as workers:
        first = await workers.client(connect_frame(address(1)))
        assert await first.served_by() == 1
        second = await workers.client(connect_frame(address(1)))
        error = await second.receive()
        assert isinstance(error, pb.CommandError) and "127.0.0.1 has 1" in error.message
        for client in (first, second):
            await client.close()


@on_both_loops
async def test_descriptors_that_are_reserved_for_files_are_not_used_for_clients() -> None:
    async with group() as workers:
        # Open until the end: if it were being closed, its descriptors would be used again.
        first = await workers.client(connect_frame(address(1)))
        assert await first.served_by() == 1
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (2 * lowest_free, limits[1]))
            client = await workers.client(connect_frame(address(1)))
            assert await client.receive() is None
            await client.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await first.close()
        assert await served_by(await workers.client(connect_frame(address(1)))) == 1


@on_both_loops
async def test_they_are_not_used_for_clients_that_are_passed_on_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with group() as workers:
        monkeypatch.setattr(workers.workers[1].descriptors, "admits", lambda number: False)
        client = await workers.client(connect_frame(address(1)))
        assert await client.receive() is None
        await client.close()
        assert await served_by(await workers.client(connect_frame(address(0)))) == 0


class OutOfDescriptors(socket.socket):
    """A listening socket that fails once."""

    failed = False

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.failed:
            self.failed = True
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


@on_both_loops
async def test_accepting_goes_on_after_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "RETRY_SECONDS", 0.001)
    listening = OutOfDescriptors(fileno=listening_socket().detach())
    async with group(listening=listening) as workers:
        assert await served_by(await workers.client(connect_frame(address(1)))) == 1
        assert listening.failed


@on_both_loops
async def test_all_workers_accept_from_one_socket() -> None:
    listening = listening_socket()
    async with group(listening=listening) as workers:
        workers.workers[1].accept_from(listening.dup())
        for _ in range(20):
            assert await served_by(await workers.client(connect_frame(address(1)))) == 1
            assert await served_by(await workers.client(connect_frame(address(0)))) == 0
