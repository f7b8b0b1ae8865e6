"""Connections without a handshake: they are closed in time, and block no other clients."""

import selectors
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from fakes.waiting import within_limit
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.frames import SIZE
from raw_client import Closed, RawClient
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]
HANGS_SECONDS = 60
WORKERS = pytest.mark.parametrize("workers", ["1", "2"])
CONNECT = encode(pb.CommandConnect(client_version="raw", protocol_version=21))


def opened(broker: RunningBroker, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", broker.port), HANGS_SECONDS)
    made.sendall(sent)
    return made


def is_ended(client: socket.socket) -> bool:
    """Wait until the broker closes a connection; tell whether it sent nothing."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def await_ended(clients: list[socket.socket], number: int) -> None:
    """Wait until the broker has closed `number` connections without sending anything."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        while number > 0:
            ready = selector.select(HANGS_SECONDS)
            assert ready, f"{number} more connections should be closed"
            for key, _ in ready:
                assert is_ended(key.fileobj)  # type: ignore[arg-type]
                selector.unregister(key.fileobj)
                number -= 1


@WORKERS
@pytest.mark.parametrize(
    "sent",
    [b"", CONNECT[:2], CONNECT[:-1], SIZE.pack(60_000) + bytes(50_000)],
    ids=["nothing", "half a size", "half a CONNECT", "half of a large one"],
)
def test_who_completes_no_handshake_is_disconnected(
    make_broker: Make, workers: str, sent: bytes
) -> None:
    broker = make_broker(
        magnetarHandshakeTimeoutSeconds="1", keepAliveIntervalSeconds="0", magnetarWorkers=workers
    )
    with (
        within_limit(lambda: RawClient(broker.port), Closed) as accepted,
        opened(broker, sent) as client,
    ):
        assert is_ended(client)
        accepted.ping()  # its own time is over, too


@WORKERS
def test_bytes_that_trickle_in_do_not_extend_the_time(make_broker: Make, workers: str) -> None:
    broker = make_broker(
        magnetarHandshakeTimeoutSeconds="1", keepAliveIntervalSeconds="0", magnetarWorkers=workers
    )
    with opened(broker, SIZE.pack(60_000)) as client:
        client.settimeout(0.02)  # between two bytes, of which there are enough for much longer
        for _ in range(HANGS_SECONDS * 50):
            try:
                client.send(b"\0")
                ended = client.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
            assert ended
            return
    pytest.fail("the connection is still open")


@WORKERS
def test_a_flood_keeps_nobody_out_who_completes_the_handshake(
    make_broker: Make, workers: str
) -> None:
    limit = 20
    broker = make_broker(
        magnetarMaxUnauthenticatedConnectionsPerIp=str(limit),
        magnetarHandshakeTimeoutSeconds="0",
        brokerMaxConnections="5",
        magnetarWorkers=workers,
    )
    with ExitStack() as stack:
        flood = [stack.enter_context(opened(broker, CONNECT[:-1])) for _ in range(10 * limit)]
        first = stack.enter_context(RawClient(broker.port))
        flood += [stack.enter_context(opened(broker)) for _ in range(10 * limit)]
        stack.enter_context(RawClient(broker.port)).ping()
        first.ping()
        await_ended(flood, len(flood) - limit * int(workers))
