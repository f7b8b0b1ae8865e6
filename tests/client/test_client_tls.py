"""Our client and TLS: whom it trusts, and that it leads nobody to an address without TLS."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import magnetar
from certificates import Authority
from fakes.waiting import until
from magnetar import Insecure, TlsFailed
from magnetar.auth import Certificate, Token
from magnetar.base.settings import Settings
from magnetar.connections.pool import Pool
from magnetar.security.security import Security
from magnetar.security.tls import Tls
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import decode, encode
from magnetar_proto.frames import FrameDecoder
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])
TOPICS = [f"persistent://public/default/topic-{number}" for number in range(8)]


def with_tls(authority: Authority, *hosts: str, **others: str) -> dict[str, str]:
    """Settings of a broker with a certificate for these hosts."""
    files = authority.server(*(hosts or ("localhost", "127.0.0.1")))
    return {
        "brokerServicePortTls": "0",
        "webServicePortTls": "0",
        "tlsCertificateFilePath": files.certificate,
        "tlsKeyFilePath": files.key,
        "tlsTrustCertsFilePath": authority.trust,
        **others,
    }


async def publishes(client: magnetar.Client) -> None:
    """A message to each of several topics, so that every worker is reached."""
    async with client:
        for topic in TOPICS:
            consumer = await client.subscribe(topic, "s")
            await (await client.producer(topic)).send(b"here")
            assert (await consumer.receive(timeout_s=60)).value == b"here"


@WORKERS
async def test_a_trusted_broker(make_broker: MakeBroker, tmp_path: Path, workers: str) -> None:
    authority = Authority(tmp_path)
    broker = make_broker(**with_tls(authority), magnetarWorkers=workers)
    await publishes(magnetar.connect(broker.tls_url, tls=Tls(authority.trust)))
    await publishes(
        magnetar.connect(broker.tls_url, tls=ssl.create_default_context(cafile=authority.trust))
    )


@WORKERS
async def test_certificates_of_clients(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    authority = Authority(tmp_path)
    broker = make_broker(
        **with_tls(authority), magnetarWorkers=workers,
        tlsRequireTrustedClientCertOnConnect="true",
        authenticationEnabled="true", authenticationProviders="tls",
    )  # fmt: skip
    files = authority.client("alice")
    auth = Certificate(files.certificate, files.key)
    await publishes(magnetar.connect(broker.tls_url, auth=auth, tls=Tls(authority.trust)))
    # The broker may end the connection without an alert; then the client tries again.
    async with magnetar.connect(
        broker.tls_url, tls=Tls(authority.trust), operation_timeout_s=5
    ) as client:
        with pytest.raises((TlsFailed, magnetar.OperationTimeout), match="certificate"):
            await client.producer(TOPICS[0])


async def test_brokers_that_are_not_trusted(make_broker: MakeBroker, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    broker = make_broker(**with_tls(authority, "broker.example"))
    for tls, why in (
        (None, "trust_file"),
        (Tls(other.trust), "trust_file"),
        (Tls(authority.trust), "not valid for 'localhost'|Hostname|IP address mismatch"),
    ):
        async with magnetar.connect(broker.tls_url, tls=tls) as client:
            with pytest.raises(TlsFailed, match=why):
                await client.producer(TOPICS[0])
    plain = broker.service_url.replace("pulsar://", "pulsar+ssl://")
    async with magnetar.connect(plain, tls=Tls(authority.trust), operation_timeout_s=5) as client:
        with pytest.raises((TlsFailed, magnetar.OperationTimeout)):
            await client.producer(TOPICS[0])


async def test_what_is_not_checked_is_logged_at_each_start(
    make_broker: MakeBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    broker = make_broker(**with_tls(authority, "broker.example"))
    for tls, warning in (
        (Tls(authority.trust, verify_hostname=False), "without verification of the host name"),
        (Tls(other.trust, allow_insecure=True), "any certificate is accepted"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "magnetar"):
            await publishes(magnetar.connect(broker.tls_url, tls=tls))
        (record,) = [one for one in caplog.records if one.name.startswith("magnetar.security.tls")]
        assert warning in record.message


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.client("alice")
    missing = str(tmp_path / "missing")
    for tls in (Tls(missing), Tls(files.key), Tls(authority.trust, missing, files.key)):
        with pytest.raises(ValueError, match=r"TLS: cannot use the .*(missing|key\.pem)"):
            magnetar.connect("pulsar+ssl://localhost", tls=tls)
    with pytest.raises(ValueError, match=r"use a pulsar\+ssl:// URL"):
        magnetar.connect("pulsar://localhost", auth=Certificate("/c", "/k"))


class Leading:
    """An address with TLS whose lookups name other addresses; it remembers what it was sent."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.sent: list[pb.BaseCommand] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder(1 << 20)
        while data := await reader.read(65536):
            for _, buf, start, mid, _ in decoder.feed(data):
                command = decode(buf, start, mid)
                self.sent.append(command)
                if command.HasField("connect"):
                    writer.write(encode(pb.CommandConnected(server_version="x")))
                if command.HasField("lookupTopic"):
                    writer.write(
                        encode(
                            pb.CommandLookupTopicResponse(
                                request_id=command.lookupTopic.request_id,
                                response=pb.CommandLookupTopicResponse.Connect,
                                **self.answer,
                            )
                        )
                    )
                if command.HasField("partitionMetadata"):
                    writer.write(
                        encode(
                            pb.CommandPartitionedTopicMetadataResponse(
                                request_id=command.partitionMetadata.request_id,
                                response=pb.CommandPartitionedTopicMetadataResponse.Success,
                                partitions=0,
                            )
                        )
                    )
        writer.close()


@asynccontextmanager
async def leading(
    authority: Authority, tls: bool = True, **answer: Any
) -> AsyncIterator[tuple[int, Leading]]:
    files = authority.server("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    made = Leading(**answer)
    server = await asyncio.start_server(
        made.serve, "127.0.0.1", 0, ssl=context if tls else None
    )  # fmt: skip
    yield server.sockets[0].getsockname()[1], made
    server.close()


@pytest.mark.parametrize("field", ["brokerServiceUrl", "brokerServiceUrlTls"])
async def test_no_lookup_leads_from_tls_to_an_address_without(field: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with leading(authority, tls=False) as (plain_port, plain):
        plain_url = f"pulsar://localhost:{plain_port}"
        named: dict[str, Any] = {field: plain_url}
        async with (
            leading(authority, **named) as (port, _),
            magnetar.connect(
                f"pulsar+ssl://localhost:{port}", auth=Token("a.b.c"), tls=Tls(authority.trust)
            ) as client,
        ):
            with pytest.raises(Insecure, match=r"which has no TLS"):
                await client.producer(TOPICS[0])
        assert plain.sent == [], "nothing was sent there, least of all the token"


async def test_a_move_leads_to_no_address_without_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pool = Pool("pulsar+ssl://a", Settings(), Security(tls=Tls(authority.trust)))
    with pytest.raises(Insecure):
        await pool.broker("pulsar://b", "pulsar://b")


async def test_a_lookup_is_followed_to_the_address_with_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with leading(authority) as (owner_port, owner):
        urls: dict[str, Any] = {
            "brokerServiceUrl": "pulsar://localhost:1",
            "brokerServiceUrlTls": f"pulsar+ssl://localhost:{owner_port}",
        }
        async with leading(authority, **urls) as (port, _), magnetar.connect(
            f"pulsar+ssl://localhost:{port}", auth=Token("a.b.c"), tls=Tls(authority.trust),
            operation_timeout_s=60,
        ) as client:  # fmt: skip
            opening = asyncio.create_task(client.producer(TOPICS[0]))
            await until(
                lambda: any(one.HasField("producer") for one in owner.sent),
                "the owner was sent a PRODUCER",
            )
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
    connect = owner.sent[0].connect
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"a.b.c")
    assert connect.feature_flags.supports_auth_refresh
