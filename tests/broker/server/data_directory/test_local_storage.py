"""The storage in a data directory, opened by one process and by several."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.origins import MESSAGES
from magnetar_broker.config import Durability, Settings
from magnetar_broker.config.domains import OffloadDriver
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_broker.server.data_directory import addresses
from magnetar_broker.server.data_directory.local_storage import LocalStorage
from magnetar_broker.server.data_directory.shared_storage import (
    LocalControllerStorage,
    LocalWorkerStorage,
)
from magnetar_broker.server.processes.link_sockets import connect
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.server.runtime.phases import Phases
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_broker.server.runtime.process_runtime import SoleRuntime
from magnetar_storage.errors import DataDirLocked, Fenced, Incomplete
from magnetar_storage.interfaces import Sealed, SegmentStore
from magnetar_storage.local.segment_ids import directory_of
from magnetar_storage.log.engine import Engine
from magnetar_storage.metadata.database import FILE

TIMER = LoopTimer()


@asynccontextmanager
async def runtime() -> AsyncIterator[SoleRuntime]:
    loop = asyncio.get_running_loop()
    threads = ThreadWorkers(loop)
    try:
        yield SoleRuntime(LoopClock(loop), LoopTasks(loop), threads, Phases(0.0))
    finally:
        threads.stop()


def storage_in(path: Path) -> LocalStorage:
    return LocalStorage(Settings(data_dir=str(path)))


async def filled(engine: Engine, payload: bytes) -> int:
    """Create a segment with one entry of two messages; return its id when the entry is durable."""
    writer = await engine.store.create(MESSAGES)
    stored = engine.clock.promise()
    writer.append([payload], [2], stored.set_result)
    assert await stored is None
    return writer.segment


async def read(store: SegmentStore, segment: int) -> list[bytes]:
    reader = await store.reader(segment)
    with closing(reader):
        return (await reader.read(0, 10, 1000)).payloads


async def test_what_one_process_stores_is_there_when_it_opens_the_storage_again(
    tmp_path: Path,
) -> None:
    async with runtime() as process:
        async with storage_in(tmp_path).open(process) as opened:
            segment = await filled(opened.engine, b"kept")
            await opened.engine.metadata.put("/key", b"value")
            assert opened.journal.figures().bytes_total > 0
            with pytest.raises(DataDirLocked):
                async with storage_in(tmp_path).open(process):
                    pass
            await opened.stop()
        async with storage_in(tmp_path).open(process) as opened:
            assert await read(opened.engine.store, segment) == [b"kept"]
            found = await opened.engine.metadata.get("/key")
            assert found is not None and found.value == b"value"


async def test_a_storage_that_is_refused_is_closed_and_its_start_is_not_counted(
    tmp_path: Path,
) -> None:
    data, older = tmp_path / "data", tmp_path / "older"
    async with runtime() as process:
        async with storage_in(data).open(process):
            pass
        shutil.copy(data / FILE, older)
        async with storage_in(data).open(process) as opened:
            await filled(opened.engine, b"x")
        newer = (data / FILE).read_bytes()
        for path in data.glob(f"{FILE}*"):
            path.unlink()
        shutil.copy(older, data / FILE)
        with pytest.raises(Incomplete):
            async with storage_in(data).open(process):
                pass
        (data / FILE).write_bytes(newer)
        async with storage_in(data).open(process):  # neither locked nor newer than its metadata
            pass


async def test_a_start_that_cannot_clear_interrupted_snapshots_closes_everything(
    tmp_path: Path,
) -> None:
    (tmp_path / "SNAPSHOT").mkdir(parents=True)  # cannot be removed as a file
    async with runtime() as process:
        with pytest.raises(OSError, match="SNAPSHOT"):
            async with storage_in(tmp_path).open(process):
                pass
        (tmp_path / "SNAPSHOT").rmdir()
        async with storage_in(tmp_path).open(process):
            pass


async def test_an_error_of_the_broker_closes_its_storage(tmp_path: Path) -> None:
    async with runtime() as process:
        with pytest.raises(ZeroDivisionError):
            async with storage_in(tmp_path).open(process):
                raise ZeroDivisionError
        async with storage_in(tmp_path).open(process):
            pass


def test_the_addresses_are_noted_in_the_directory_until_they_are_withdrawn(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    storage.announce(PortNumbers(1234, None, None, None))
    found = addresses.addresses_in(str(tmp_path))
    assert found is not None and found.clients.endswith(":1234")
    storage.withdraw()
    assert addresses.addresses_in(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("durability", "text"), [(Durability.FSYNC, "fsync: "), (Durability.RELAXED, "RELAXED: ")]
)
def test_the_banner_names_the_directory_and_what_is_durable(
    tmp_path: Path, durability: Durability, text: str
) -> None:
    lines = LocalStorage(Settings(data_dir=str(tmp_path), durability=durability)).described
    assert [word for word, _ in lines] == ["data", "durability"]
    assert lines[0][1] == str(tmp_path)
    assert lines[1][1].startswith(text)


def test_the_banner_names_the_place_of_offloaded_ledgers(tmp_path: Path) -> None:
    settings = replace(
        Settings(),
        managed_ledger_offload_driver=OffloadDriver.AWS_S3,
        managed_ledger_offload_bucket="b",
    )
    assert LocalStorage(settings).described[2:] == (("offload", "s3://b: on request or by policy"),)
    settings = replace(settings, managed_ledger_offload_threshold_in_seconds=0)
    assert LocalStorage(settings).described[2:] == (("offload", "s3://b"),)


# Several processes ------------------------------------------------------------------------


class Shared:
    """A controller and two workers in this process, joined by sockets."""

    def __init__(self, process: SoleRuntime) -> None:
        self.process = process
        self.links = [self._link() for _ in range(2)]
        self.controllers = [SuccessiveLinks("the controller", process.clock) for _ in range(2)]
        self.others = [SuccessiveLinks(f"worker-{n}", process.clock) for n in range(2)]
        self.controller: LocalControllerStorage
        self.workers: list[LocalWorkerStorage] = []

    def _link(self) -> Link:
        return Link("the controller", self.process.clock, self.process.tasks)

    async def open(self, path: Path, stack: AsyncExitStack) -> None:
        process, settings = self.process, Settings(data_dir=str(path))
        shared = LocalStorage(settings).share(2)
        links = WorkerLinks(2, process.clock)
        opening = shared.controller(settings, process, links, 2, is_first=True)
        self.controller = await stack.enter_async_context(opening)
        for number in range(2):
            others = {1 - number: self.others[1 - number]}
            worker = shared.worker(settings, process, number, self.controllers[number], others)
            self.workers.append(await stack.enter_async_context(worker))

    def connect(self) -> None:
        for number, link in enumerate(self.links):
            self.workers[number].serve_controller(link)
            self.controllers[number].replace(link)
            of_worker = self._link()
            self.controller.serve(number, of_worker, lambda key: key == "/allowed")
            self._join(link, of_worker)
            serving, asking = self._link(), self._link()
            self.workers[number].serve(serving)
            self.others[number].replace(asking)
            self._join(serving, asking)

    def _join(self, *links: Link) -> None:
        for link, end in zip(links, socket.socketpair(), strict=True):
            self.process.tasks.spawn(connect(link, end, TIMER))

    def close(self) -> None:
        for link in self.links:
            link.close()
        for links in self.others:
            links.close()


@asynccontextmanager
async def shared(path: Path) -> AsyncIterator[Shared]:
    async with runtime() as process, AsyncExitStack() as stack:
        world = Shared(process)
        await world.open(path, stack)
        stack.callback(world.close)
        world.connect()
        await asyncio.gather(*(worker.join() for worker in world.workers))
        yield world


async def test_workers_use_the_metadata_of_the_controller(tmp_path: Path) -> None:
    async with shared(tmp_path) as world:
        for number, worker in enumerate(world.workers):
            await worker.engine.metadata.put("/allowed", b"%d" % number)
            found = await world.controller.metadata.get("/allowed")
            assert found is not None and found.value == b"%d" % number
            with pytest.raises(Fenced):
                await worker.engine.metadata.put("/forbidden", b"")


async def test_a_worker_reads_and_deletes_segments_of_another(tmp_path: Path) -> None:
    async with shared(tmp_path) as world:
        first, second = (worker.engine for worker in world.workers)
        segment = await filled(first, b"moved")
        assert directory_of(segment) == 0
        assert await second.store.recover(segment) == Sealed(1, 2, 5)
        assert await read(second.store, segment) == [b"moved"]
        await second.store.delete(segment)
        assert [one async for one in first.store.segments()] == []


async def test_a_worker_that_takes_topics_over_continues_above_all_ids(tmp_path: Path) -> None:
    async with shared(tmp_path) as world:
        first, second = (worker.engine for worker in world.workers)
        largest = max([await filled(first, b"") for _ in range(5)])
        await world.controller.before_giving(1)
        assert await filled(second, b"") > largest


async def test_a_storage_of_several_processes_is_closed_by_the_last(tmp_path: Path) -> None:
    async with shared(tmp_path):
        with pytest.raises(DataDirLocked):
            storage_in(tmp_path).share(2)
    async with shared(tmp_path) as world:
        assert await world.controller.snapshots.complete() == []
