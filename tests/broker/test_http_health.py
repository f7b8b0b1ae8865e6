"""What the HTTP port says when the broker is not well: in this process, on stores in memory."""

import asyncio
import contextlib
import http.client
import json
import logging
from collections.abc import Awaitable, Callable

import pytest

from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.ownership import SoleOwner
from magnetar_broker.server import http_server as http_port
from magnetar_broker.server.descriptors import Descriptors
from magnetar_broker.server.http_server import HttpServer
from magnetar_broker.server.world import LoopClock, LoopTasks
from magnetar_storage.cache import EntryCache
from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import Versioned
from magnetar_storage.log import Engine
from magnetar_storage.memory import MemoryMetadata, MemoryStore

HEALTH = "/admin/v2/brokers/health"
READY = "/admin/v2/brokers/ready"
LIST = "/admin/v2/persistent/public/default"
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"
PARTITIONS = "/admin/v2/persistent/public/default/t/partitions"
TENANT = "/admin/v2/tenants/public"


class Metadata(MemoryMetadata):
    """Raises `error` from every read, once that is set."""

    error: Exception | None = None

    async def get(self, key: str) -> Versioned | None:
        if self.error is not None:
            raise self.error
        return await super().get(key)


class Port:
    """A broker behind an open HTTP port."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        self.store, self.metadata = MemoryStore(clock), Metadata(clock)
        engine = Engine(self.store, self.metadata, EntryCache(1 << 20), clock, LoopTasks(loop))
        self.broker = Broker(Settings(), engine, SoleOwner("pulsar://127.0.0.1:6650"))
        self.server = HttpServer(self.broker, JournalStats(), Descriptors())
        self.port: int | None = None

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of an answer."""
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    async def refusal(self, path: str) -> tuple[int, str]:
        """Status and reason of a refusal."""
        status, body = await self.get(path)
        return status, json.loads(body)["reason"]


def with_port(test: Callable[[Port], Awaitable[None]]) -> None:
    async def main() -> None:
        port = Port()
        port.port = await port.server.start("127.0.0.1", 0)
        try:
            await test(port)
        finally:
            await port.broker.close()
            await port.server.stop()

    asyncio.run(main())


def test_before_the_broker_is_ready() -> None:
    async def test(port: Port) -> None:
        assert (await port.refusal(HEALTH))[0] == 503
        assert (await port.refusal(READY))[0] == 500
        for path in (LIST, LOOKUP, PARTITIONS):
            assert (await port.refusal(path))[0] == 503, path
        assert (await port.get("/metrics"))[0] == 200
        await port.broker.start()
        assert await port.get(HEALTH) == (200, "ok")
        assert await port.get(READY) == (200, "ok")
        assert (await port.get(LOOKUP))[0] == 200

    with_port(test)


def test_a_store_that_accepts_nothing_is_not_healthy() -> None:
    async def test(port: Port) -> None:
        await port.broker.start()
        port.store.trouble = Unavailable("the journal failed")
        status, reason = await port.refusal(HEALTH)
        assert status == 503
        assert "the journal failed" in reason
        assert await port.get(READY) == (200, "ok")

    with_port(test)


def test_metadata_that_cannot_be_read_is_not_healthy() -> None:
    async def test(port: Port) -> None:
        await port.broker.start()
        port.metadata.error = Unavailable("the database is gone")
        for path in (HEALTH, TENANT):
            status, reason = await port.refusal(path)
            assert status == 503, path
            assert "the database is gone" in reason

    with_port(test)


def test_a_defect_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def test(port: Port) -> None:
        await port.broker.start()
        port.metadata.error = RuntimeError("secret detail")
        status, reason = await port.refusal(TENANT)
        assert status == 500
        assert "secret detail" not in reason

    with caplog.at_level(logging.ERROR):
        with_port(test)
    (record,) = [r for r in caplog.records if r.name.startswith("magnetar_broker")]
    assert TENANT in record.getMessage()
    assert record.exc_info is not None
    assert "secret detail" in str(record.exc_info[1])


def test_too_many_lookups_are_refused() -> None:
    async def test(port: Port) -> None:
        await port.broker.start()
        with contextlib.ExitStack() as busy:
            for _ in range(port.broker.settings.max_concurrent_lookup_request):
                busy.enter_context(port.broker.lookup())
            for path in (LIST, LOOKUP, PARTITIONS):
                assert (await port.refusal(path))[0] == 503, path
        assert (await port.get(LOOKUP))[0] == 200

    with_port(test)


def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: Port) -> None:
        first = await asyncio.open_connection("127.0.0.1", port.port)
        first[1].write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await first[0].readline()).startswith(b"HTTP/1.1 200")
        second = await asyncio.open_connection("127.0.0.1", port.port)
        assert await second[0].read() == b""
        for _, writer in (first, second):
            writer.close()
            await writer.wait_closed()

    monkeypatch.setattr(http_port, "MAX_CONNECTIONS", 1)
    with_port(test)


def test_no_port_when_switched_off() -> None:
    async def main() -> None:
        port = Port()
        assert await port.server.start("127.0.0.1", None) is None
        await port.server.stop()

    asyncio.run(main())


def test_a_stop_does_not_wait_for_ever_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        port = Port()
        begun = asyncio.Event()

        async def never(key: str) -> Versioned | None:
            begun.set()
            return await asyncio.get_running_loop().create_future()

        await port.broker.start()
        monkeypatch.setattr(port.metadata, "get", never)
        port.port = await port.server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        writer.write(f"GET {TENANT} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        await begun.wait()
        await port.server.stop()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        monkeypatch.undo()
        await port.broker.close()

    monkeypatch.setattr(http_port, "STOP_SECONDS", 0.01)
    asyncio.run(main())


def test_a_stopped_server_leaves_its_port() -> None:
    async def main() -> None:
        port = Port()
        port.port = await port.server.start("127.0.0.1", 0)
        await port.server.stop()
        successor = Port()
        assert await successor.server.start("127.0.0.1", port.port) == port.port
        await successor.server.stop()

    asyncio.run(main())
