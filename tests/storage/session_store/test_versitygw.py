"""Session stores on versitygw, a server of S3: a process goes on in threads while it is ended."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial

import pytest

import object_servers
from effort import seeds
from fakes.memory_metadata import MemoryMetadata
from fakes.origins import MESSAGES
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_storage.interfaces import SegmentWriter
from magnetar_storage.local.recovery import Finding
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.session_store.limits import SessionLimits
from magnetar_storage.session_store.opening import SessionWorkers, open_session_store
from magnetar_storage.session_store.store import SessionStore
from magnetar_storage.wal.slot_writer import WalLimits

if WHY := object_servers.why_no_versitygw():
    pytest.skip(WHY, allow_module_level=True)

LIMITS = SessionLimits(
    WalLimits(round_bytes=16 << 10, linger_seconds=0.001), settle_bytes=60_000, settle_slots=20
)
SEGMENTS = 5
UNREPORTED = 10
"""The number of runs of each segment that wait for their report at any time."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as endpoint:
        yield endpoint


@pytest.fixture
def objects(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Objects:
    object_servers.use_credentials(monkeypatch)
    return open_objects(object_servers.place_at(endpoint, "sessions"))


class Load:
    """Appends a run to a segment for each that is reported."""

    def __init__(self, writer: SegmentWriter, enough: int) -> None:
        self.writer = writer
        self._enough = enough
        self.is_running = asyncio.Event()
        self.is_over = asyncio.Event()
        self.appended = self.durable = 0
        for _ in range(UNREPORTED):
            self._append()

    def payload(self, number: int) -> bytes:
        return b"%d/%d," % (self.writer.segment, number) * 20

    def _append(self) -> None:
        number = self.appended
        self.appended += 1
        self.writer.append([self.payload(number)], [1], partial(self._done, number))

    def _done(self, number: int, error: BaseException | None) -> None:
        if error is not None:
            self.is_over.set()
            return
        assert number == self.durable
        self.durable += 1
        if self.durable == self._enough:
            self.is_running.set()
        self._append()


async def opened(
    objects: Objects, metadata: MemoryMetadata, workers: ThreadWorkers, prefix: str
) -> SessionStore:
    loop = asyncio.get_running_loop()
    findings: list[Finding] = []
    return await open_session_store(
        objects,
        SessionWorkers(workers.transfers(4), workers.transfers(4), workers.transfers(2)),
        LoopClock(loop),
        LoopTasks(loop),
        metadata,
        partial(os.urandom, NONCE_BYTES),
        findings.append,
        prefix=prefix,
        limits=LIMITS,
    )


@pytest.mark.parametrize("number", seeds(8, least=2))
async def test_nothing_that_was_reported_is_lost(objects: Objects, number: int) -> None:
    loop = asyncio.get_running_loop()
    workers, metadata = ThreadWorkers(loop), MemoryMetadata(LoopClock(loop))
    prefix = f"cluster-{number}/"
    one, *others = [await opened(objects, metadata, workers, prefix) for _ in range(3)]
    loads = [Load(await one.create(MESSAGES), 1 + 30 * (number % 5)) for _ in range(SEGMENTS)]
    for load in loads:
        await load.is_running.wait()
    await asyncio.gather(*(other.end_session(one.session) for other in others))
    for load in loads:
        await load.is_over.wait()
        segment = load.writer.segment
        ends = {await other.recover(segment) for other in others}
        (end,) = ends
        assert load.durable <= end.entries <= load.appended
        for other in others:
            reader = await other.reader(segment)
            found: list[bytes] = []
            while part := (await reader.read(len(found), 50, 1 << 20)).payloads:
                found += part
            assert found == [load.payload(entry) for entry in range(end.entries)]
            reader.close()
    await one.close()
    for load in loads:
        await others[0].delete(load.writer.segment)
    for other in others:
        await other.close()
    left = [listed.name for listed in objects.list(prefix)]
    assert [name for name in left if not name.startswith(f"{prefix}wal/00000001/")] == []
    workers.stop()
