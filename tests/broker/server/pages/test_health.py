"""Answers of the HTTP port of an unhealthy broker, in this process, on stores in memory."""

import asyncio
import contextlib
import http.client
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemorySegment, MemoryStore, MemoryWriter
from magnetar_broker.config import Settings, SubscriptionType
from magnetar_broker.limits.reached import ReachedLimits
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.placement.ownership import SoleOwner
from magnetar_broker.server.clients.in_process_client import ClientDisconnected, InProcessClient
from magnetar_broker.server.http.guard import HttpGuard, HttpLimits
from magnetar_broker.server.pages import health
from magnetar_broker.server.pages.audit import AuditLog
from magnetar_broker.server.processes import http_server as http_port
from magnetar_broker.server.processes.http_server import HttpServer, sole_context
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.ports import bound, open_ports, port_of
from magnetar_broker.standalone import Standalone, standalone
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import SegmentOrigin, Versioned
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine

HEALTH = "/admin/v2/brokers/health"
READY = "/admin/v2/brokers/ready"
HEARTBEAT = "persistent://pulsar/system/heartbeat"
LIST = "/admin/v2/persistent/public/default"
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"
PARTITIONS = "/admin/v2/persistent/public/default/t/partitions"
TENANT = "/admin/v2/tenants/public"


class Metadata(MemoryMetadata):
    """Raises `error` from every read, once it is set."""

    error: Exception | None = None

    async def get(self, key: str) -> Versioned | None:
        if self.error is not None:
            raise self.error
        return await super().get(key)


class Port:
    """A broker with an open HTTP port."""

    def __init__(self, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        self.store, self.metadata = MemoryStore(clock), Metadata(clock)
        engine = Engine(self.store, self.metadata, EntryCache(1 << 20), clock, LoopTasks(loop))
        self.directory, self.broker = standalone(
            Settings(**settings), engine, SoleOwner("pulsar://127.0.0.1:6650")
        )
        context = sole_context(Standalone(self.directory, self.broker), JournalStats(), LoopTimer())
        self.guard = HttpGuard(HttpLimits.of(self.broker.settings), clock, ReachedLimits(clock))
        self.server = HttpServer(
            context, LoopTimer(), Descriptors(), AuditLog(clock, 1), guard=self.guard
        )
        self.port = 0

    async def open(self, port: int = 0) -> None:
        """Listen on this port; 0 takes any free one."""
        sockets = bound("127.0.0.1", port)
        await self.server.start(sockets)
        self.port = port_of(sockets)

    async def get(self, path: str) -> tuple[int, str]:
        """Return the status and body of an answer."""
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    async def refusal(self, path: str) -> tuple[int, str]:
        """Return the status and reason of a refusal."""
        status, body = await self.get(path)
        return status, json.loads(body)["reason"]


@contextlib.asynccontextmanager
async def open_port(**settings: Any) -> AsyncIterator[Port]:
    """Serve an HTTP port within the context."""
    port = Port(**settings)
    await port.open()
    try:
        yield port
    finally:
        await port.broker.close()
        await port.server.stop()


async def test_before_the_broker_is_ready() -> None:
    async with open_port() as port:
        assert (await port.refusal(HEALTH))[0] == 503
        assert (await port.refusal(READY))[0] == 500
        for path in (LIST, LOOKUP, PARTITIONS):
            assert (await port.refusal(path))[0] == 503, path
        assert (await port.get("/metrics"))[0] == 200
        await port.broker.start()
        assert await port.get(HEALTH) == (200, "ok")
        assert await port.get(READY) == (200, "ok")
        assert (await port.get(LOOKUP))[0] == 200


async def test_a_store_that_accepts_nothing_is_not_healthy() -> None:
    async with open_port() as port:
        await port.broker.start()
        port.store.trouble = Unavailable("the journal failed")
        status, reason = await port.refusal(HEALTH)
        assert status == 503
        assert "the journal failed" in reason
        assert await port.get(READY) == (200, "ok")


async def test_metadata_that_cannot_be_read_is_not_healthy() -> None:
    async with open_port() as port:
        await port.broker.start()
        port.metadata.error = Unavailable("the database is gone")
        for path in (HEALTH, TENANT):
            status, reason = await port.refusal(path)
            assert status == 503, path
            assert "the database is gone" in reason


async def test_a_message_that_cannot_be_stored_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_segment(origin: SegmentOrigin, beyond: int = 0) -> MemoryWriter:
        raise Unavailable("no room to write")

    async with open_port() as port:
        await port.broker.start()
        with monkeypatch.context() as trouble:
            trouble.setattr(port.store, "create", no_segment)
            status, reason = await port.refusal(HEALTH)
            assert status == 503
            assert reason.startswith(f"publishing to {HEARTBEAT}: the broker closed the topic")
            port.store.is_failing = True
            status, reason = await port.refusal(HEALTH)
            assert (status, reason.endswith("no room to write")) == (503, True), reason
        port.store.is_failing = False
        assert await port.get(HEALTH) == (200, "ok")
        for segment in port.store._segments.values():
            segment.refusal = Unavailable("the disk failed")
        assert await port.refusal(HEALTH) == (503, f"publishing to {HEARTBEAT}: the disk failed")
        assert await port.get(HEALTH) == (200, "ok")


async def test_a_store_that_is_slow_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_port() as port:
        await port.broker.start()
        assert await port.get(HEALTH) == (200, "ok")
        with monkeypatch.context() as trouble:
            trouble.setattr(health, "LIMIT_SECONDS", 0.05)
            trouble.setattr(MemorySegment, "confirm", lambda segment: None)
            status, reason = await port.refusal(HEALTH)
            assert status == 503
            assert reason == f"publishing to {HEARTBEAT}: not done within 0.05 s"
            assert await port.get(READY) == (200, "ok")


async def test_a_check_that_no_caller_waits_for_leaves_nothing_and_the_next_is_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_port() as port:
        await port.broker.start()
        health_check = health.HealthCheck(port.broker)
        is_publishing = asyncio.Event()
        with monkeypatch.context() as trouble:
            trouble.setattr(MemorySegment, "confirm", lambda segment: is_publishing.set())
            callers = [asyncio.create_task(health_check.check()) for _ in range(2)]
            await is_publishing.wait()
            for caller in callers:
                caller.cancel()
            await asyncio.wait(callers)
            assert all(caller.cancelled() for caller in callers)
            topic = port.broker.topics.get(TopicName.parse(HEARTBEAT))
            assert topic is not None
            assert not topic.producers and not topic.subscriptions
        for segment in port.store._segments.values():
            segment.confirm()
        await health_check.check()  # while the task of the other check has not ended yet


async def test_a_client_that_has_left_waits_for_nothing() -> None:
    async with open_port() as port:
        await port.broker.start()
        client = InProcessClient(port.broker, "test:0")
        arrival = asyncio.create_task(client.next())
        await asyncio.sleep(0)
        client.leave()
        for waiting in (arrival, client.next()):
            with pytest.raises(ClientDisconnected):
                await waiting


async def test_what_is_still_to_happen_for_a_client_that_has_left_does_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_port() as port:
        await port.broker.start()
        client = InProcessClient(port.broker, "test:0")
        client.send(encode(pb.CommandConnect(client_version="test")))
        client.leave()  # before CONNECTED is taken
        client.send(encode(pb.CommandPing()))
        client.leave()
        await asyncio.sleep(0)
        assert not caplog.records
        with pytest.raises(ClientDisconnected):
            await client.next()


async def test_metadata_that_is_slow_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_port() as port:

        async def never(key: str) -> Versioned | None:
            await asyncio.Event().wait()
            raise AssertionError

        await port.broker.start()
        with monkeypatch.context() as trouble:
            trouble.setattr(health, "LIMIT_SECONDS", 0.05)
            trouble.setattr(port.metadata, "get", never)
            status, reason = await port.refusal(HEALTH)
        assert (status, reason) == (503, "reading metadata: not done within 0.05 s")


async def test_checks_at_the_same_time_are_one() -> None:
    async with open_port() as port:
        await port.broker.start()
        health_check = health.HealthCheck(port.broker)
        await asyncio.gather(*(health_check.check() for _ in range(10)))
        topic = port.broker.topics.get(TopicName.parse(HEARTBEAT))
        assert topic is not None and topic.appender.messages_in == 1
        await health_check.check()
        assert topic.appender.messages_in == 2


async def test_a_check_leaves_nothing_in_lists_and_no_client() -> None:
    async with open_port() as port:
        await port.broker.start()
        for _ in range(2):
            assert await port.get(HEALTH) == (200, "ok")
        assert await port.get("/admin/v2/persistent/pulsar/system") == (200, "[]")
        topic = port.broker.topics.get(TopicName.parse(HEARTBEAT))
        assert topic is not None
        assert not topic.producers and not topic.subscriptions
        assert port.broker.connections == port.broker.connections_total == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"enable_persistent_topics": False},
        {"subscription_types_enabled": frozenset({SubscriptionType.SHARED})},
        {"allow_auto_topic_creation": False},
        {"broker_deduplication_enabled": True},
    ],
)
async def test_settings_that_the_check_keeps_to(settings: dict[str, Any]) -> None:
    async with open_port(**settings) as port:
        await port.broker.start()
        for _ in range(2):
            assert await port.get(HEALTH) == (200, "ok")


async def test_a_defect_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with open_port() as port:
            await port.broker.start()
            port.metadata.error = RuntimeError("secret detail")
            status, reason = await port.refusal(TENANT)
            assert status == 500
            assert "secret detail" not in reason
    (record,) = [r for r in caplog.records if r.name.startswith("magnetar_broker")]
    assert TENANT in record.getMessage()
    assert record.exc_info is not None
    assert "secret detail" in str(record.exc_info[1])


async def test_too_many_lookups_are_refused() -> None:
    async with open_port() as port:
        await port.broker.start()
        with contextlib.ExitStack() as busy:
            for _ in range(port.broker.settings.max_concurrent_lookup_request):
                busy.enter_context(port.directory.lookup())
            for path in (LIST, LOOKUP, PARTITIONS):
                assert (await port.refusal(path))[0] == 503, path
        assert (await port.get(LOOKUP))[0] == 200


async def test_a_connection_beyond_the_limit_takes_the_place_of_one_that_waits() -> None:
    async with open_port(max_http_server_connections=1) as port:
        first = await asyncio.open_connection("127.0.0.1", port.port)
        first[1].write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await first[0].readline()).startswith(b"HTTP/1.1 200")
        second = await asyncio.open_connection("127.0.0.1", port.port)
        second[1].write(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert (await second[0].readline()).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(ConnectionResetError):
            await first[0].read()
        await second[0].read()
        for _, writer in (first, second):
            writer.close()
            with contextlib.suppress(ConnectionResetError):
                await writer.wait_closed()


async def test_no_port_when_switched_off() -> None:
    ports = open_ports(Settings(broker_service_port=0, web_service_port=None))
    assert ports.http == ports.http_tls == []
    for one in ports.clients:
        one.close()
    port = Port()
    await port.server.start([])
    await port.server.stop()


async def test_a_stop_does_not_wait_for_ever_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "STOP_SECONDS", 0.01)
    port = Port()
    begun = asyncio.Event()

    async def never(key: str) -> Versioned | None:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    await port.broker.start()
    monkeypatch.setattr(port.metadata, "get", never)
    await port.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write(f"GET {TENANT} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    await begun.wait()
    await port.server.stop()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    monkeypatch.undo()
    await port.broker.close()


async def test_a_stopped_server_leaves_its_port() -> None:
    port = Port()
    await port.open()
    await port.server.stop()
    successor = Port()
    await successor.open(port.port)
    assert successor.port == port.port
    await successor.server.stop()
