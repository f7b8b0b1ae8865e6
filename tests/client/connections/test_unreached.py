"""A broker that cannot be reached: the reason, the remedy, and no waiting in vain."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import magnetar
from certificates import Authority
from fakes.client_clock import PATIENT, ManualClock
from fakes.waiting import HANGS_SECONDS, until
from magnetar.base.errors import ConnectionLost, OperationTimeout, TlsFailed, WrongProtocol
from magnetar.base.settings import Address, Settings
from magnetar.connections.unreached import failure_of
from magnetar.security.tls import Tls
from ports import free_ports
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
LONGEST_PAUSE_S = 10.0
TOPIC = "persistent://public/default/unreached"


@asynccontextmanager
async def peer(answer: bytes = b"") -> AsyncIterator[int]:
    """Serve a port that sends this answer to every client and disconnects; yield the port."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def refused_by(url: str, clock: ManualClock, **options: Any) -> magnetar.MagnetarError:
    """Return the error of a client whose clock does not advance, so that it made one attempt."""
    async with asyncio.timeout(HANGS_SECONDS), magnetar.connect(url, clock=clock, **options) as one:
        with pytest.raises(magnetar.MagnetarError) as caught:
            await one.producer(TOPIC)
    return caught.value


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [one.message for one in caplog.records if one.levelno == level]


async def test_a_refused_port_is_tried_until_the_time_is_up_and_logged_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "magnetar")
    (port,) = free_ports(1)
    async with magnetar.connect(f"pulsar://127.0.0.1:{port}", clock=clock) as client:
        with pytest.raises(OperationTimeout) as caught:
            await clock.drive(client.producer(TOPIC), LONGEST_PAUSE_S)
    why = (
        f"cannot connect to 127.0.0.1:{port}: connection refused, nothing listens there: start the "
        "broker, or correct the address"
    )
    assert str(caught.value).endswith(f"within 30 s: {why}")
    assert lines(caplog) == [f"{why}; trying again"]
    assert set(lines(caplog, logging.DEBUG)) == {f"{why}; trying again"}


async def test_another_reason_is_logged_too(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "magnetar")
    async with peer() as port:
        client = magnetar.connect(f"pulsar://127.0.0.1:{port}", clock=clock)
        opening = asyncio.create_task(client.producer(TOPIC))
        await until(lambda: lines(caplog), "the first attempt has failed")
    async with client, clock.running(LONGEST_PAUSE_S):
        with pytest.raises(OperationTimeout, match="connection refused"):
            await opening
    first, second = lines(caplog)
    assert first.startswith(f"127.0.0.1:{port} closed the connection")
    assert "during the handshake" in first and "connection refused" in second


async def test_a_broker_that_comes_up_is_found(
    make_broker: MakeBroker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker()
    broker.stop()
    async with magnetar.connect(broker.service_url, clock=clock, **PATIENT) as client:
        opening = asyncio.create_task(client.producer(TOPIC))
        await until(lambda: lines(caplog), "the first attempt has failed")
        await asyncio.to_thread(broker.start)
        async with clock.running(LONGEST_PAUSE_S):
            await (await opening).send(b"here")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP: use the broker's port for clients"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", r"does not speak .* begins with b'SSH-2.0-OpenSSH_'"),
    ],
)
async def test_another_protocol(clock: ManualClock, answer: bytes, why: str) -> None:
    async with peer(answer) as port:
        error = await refused_by(f"pulsar://127.0.0.1:{port}", clock)
    assert isinstance(error, WrongProtocol)
    with pytest.raises(WrongProtocol, match=why):
        raise error
    assert f"127.0.0.1:{port}" in str(error)


async def test_an_alert_of_tls(clock: ManualClock) -> None:
    async with peer(bytes.fromhex("15 0301 0002 0246")) as port:
        error = await refused_by(f"pulsar://127.0.0.1:{port}", clock)
    assert isinstance(error, TlsFailed)
    assert f"use pulsar+ssl://127.0.0.1:{port}" in str(error)


async def test_the_wrong_ports_of_a_broker(
    make_broker: MakeBroker, tmp_path: Path, clock: ManualClock
) -> None:
    authority = Authority(tmp_path)
    files = authority.server("localhost", "127.0.0.1")
    broker = make_broker(
        brokerServicePortTls="0", webServicePortTls="0",
        tlsCertificateFilePath=files.certificate, tlsKeyFilePath=files.key,
    )  # fmt: skip
    tls = Tls(authority.trust)
    clients_tls, http_tls = (url.partition("//")[2] for url in (broker.tls_url, broker.https_url))
    for url, kind, why in (
        (f"pulsar://{clients_tls}", TlsFailed, f"expects TLS: use pulsar+ssl://{clients_tls}"),
        (f"pulsar+ssl://localhost:{broker.port}", TlsFailed, "speaks the protocol without TLS"),
        (f"pulsar://localhost:{broker.http_port}", WrongProtocol, "speaks HTTP"),
        (f"pulsar+ssl://localhost:{broker.http_port}", TlsFailed, "it does not speak TLS"),
        (f"pulsar+ssl://{http_tls}", WrongProtocol, "speaks HTTP"),
    ):
        error = await refused_by(url, clock, tls=tls if "ssl" in url else None)
        assert isinstance(error, kind), (url, error)
        assert why in str(error)


async def test_an_address_that_only_the_broker_knows(
    make_broker: MakeBroker, clock: ManualClock
) -> None:
    listens, other = map(str, free_ports(2))
    inside, outside = f"pulsar://127.0.0.1:{listens}", f"pulsar://127.0.0.1:{other}"
    make_broker(brokerServicePort=listens, advertisedListeners=f"in:{inside},out:{outside}")
    async with magnetar.connect(inside, listener_name="out", clock=clock) as client:
        opening = asyncio.create_task(client.producer(TOPIC))
        await until(lambda: min(clock.pauses_s(), default=1) < 1, "the client tries again")
        clock.advance(Settings().operation_timeout_s)
        with pytest.raises(OperationTimeout, match="the broker named this address"):
            await opening


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the host name is unknown"),
        (OSError(113, "No route to host"), "no route to the host"),
        (OSError("Multiple exceptions: [Errno 111] a, [Errno 111] b"), "connection refused"),
        (OSError("Multiple exceptions: [Errno 111] a, [Errno 101] b"), "Multiple exceptions"),
        (ConnectionResetError(), "the connection was closed at once"),
        (TimeoutError(110, "Connection timed out"), "no answer: check the address"),
        (OSError(), "OSError"),
    ],
)
def test_what_the_system_says(error: OSError, why: str) -> None:
    failure = failure_of(Address("host.example", 6650), error)
    assert isinstance(failure, ConnectionLost)
    assert str(failure).startswith(f"cannot connect to host.example:6650: {why}")
