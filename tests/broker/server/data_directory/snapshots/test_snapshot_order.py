"""The order of the steps of a snapshot, on real stores in this process."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread, current_thread, main_thread

import pytest

from fakes.origins import MESSAGES
from magnetar_broker.base.errors import NotReady
from magnetar_broker.config import Settings
from magnetar_broker.server.data_directory.snapshots import files, making
from magnetar_broker.server.data_directory.snapshots.making import Snapshots
from magnetar_broker.server.data_directory.snapshots.part import LocalPart
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, ThreadWorkers
from magnetar_storage.errors import Unavailable
from magnetar_storage.local import layout
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.metadata.database import FILE, Database
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import open_store
from magnetar_storage.runtime.disk import LocalDisk

LIMIT_SECONDS = 60
TURNS = 3


class Probe(LocalPart):
    """Changes metadata while the contents of the snapshot are determined."""

    metadata: SqliteMetadata
    late: "asyncio.Future[int]"
    fails = False
    changed_meanwhile = False
    reached: asyncio.Event | None = None
    """Set at the end of the cut, which then waits for ever."""

    async def cut(self, token: str) -> None:
        self.late = asyncio.ensure_future(self.metadata.put("/late", b"x"))
        await super().cut(token)
        if self.fails:
            raise Unavailable("as if the process had ended")
        for _ in range(TURNS):  # by the same thread, behind the change if that may go on
            await self.metadata.get("/before")
        self.changed_meanwhile = self.late.done()
        if self.reached is not None:
            self.reached.set()
            await asyncio.Event().wait()


class World:
    """One store directory, its metadata, and the parts that make snapshots of them."""

    def __init__(self, data: Path, store: JoinedStore, metadata: SqliteMetadata) -> None:
        self.store = store
        self.metadata = metadata
        self.clock = LoopClock(asyncio.get_running_loop())
        self.probe = Probe(store, str(data))
        self.probe.metadata = metadata
        settings = Settings(data_dir=str(data))
        self.snapshots = Snapshots(metadata, lambda: [self.probe], settings, self.clock)

    async def make(self, name: str) -> dict[str, object]:
        """Make a snapshot, and return its state."""
        self.snapshots.begin(name)
        async with asyncio.timeout(LIMIT_SECONDS):
            assert self.snapshots._task is not None
            await self.snapshots._task
        state = await self.snapshots.state(name)
        assert state is not None
        return state

    async def segment(self, sealed: bool) -> int:
        """Create a segment with one entry."""
        writer = await self.store.create(MESSAGES)
        stored = self.clock.promise()
        writer.append([b"entry"], [1], stored.set_result)
        assert await stored is None
        if sealed:
            await writer.seal()
        return writer.segment


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    workers, clock, disk = ThreadWorkers(loop), LoopClock(loop), LocalDisk(str(data))
    store = await open_store(disk, workers, clock)
    metadata = await SqliteMetadata.open(disk, workers.metadata, clock)
    try:
        await metadata.put("/before", b"1")
        yield World(data, store, metadata)
    finally:
        metadata.release()
        await metadata.close()
        await store.close()
        workers.stop()


def keys_in(path: Path) -> list[str]:
    copy = Database(str(path))
    try:
        return list(copy.keys().under(""))
    finally:
        copy.close()


async def test_metadata_is_that_of_before_and_waits_until_all_have_decided(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        state = await world.make("one")
        assert state["status"] == "SUCCESS"
        assert not world.probe.changed_meanwhile
        assert keys_in(tmp_path / "snapshots" / "one" / FILE) == ["/before"]
        assert await world.probe.late == 2, "it goes on afterwards"


async def test_a_snapshot_that_fails_leaves_nothing_and_metadata_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        world.probe.fails = True
        state = await world.make("one")
        assert (state["status"], state["error"]) == ("ERROR", "as if the process had ended")
        for store in world.store.directories.values():
            await store.checkpoint()  # behind the one whose files were to be taken
        assert not list(tmp_path.glob("snapshot-*")), "nor what was gathered"
        async with asyncio.timeout(LIMIT_SECONDS):
            await world.probe.late
        assert not list((tmp_path / "snapshots").iterdir())
        world.probe.fails = False
        assert (await world.make("one"))["status"] == "SUCCESS", "the name is still free"


async def test_what_a_snapshot_leaves_is_not_removed_by_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Thread] = []

    def remove(path: str) -> None:
        threads.append(current_thread())
        shutil.rmtree(path)

    async with opened(tmp_path) as world:
        for module in (files, making):
            monkeypatch.setattr(module, "remove_tree", remove)
        world.probe.fails = True
        await world.make("one")
        (tmp_path / "snapshots" / "two.unfinished").mkdir()
        (tmp_path / "snapshot-two").mkdir()
        await world.snapshots.clear()
        assert not list((tmp_path / "snapshots").iterdir())
        assert not (tmp_path / "snapshot-two").exists()
        assert len(threads) >= 3
        assert main_thread() not in threads


async def test_a_broker_that_starts_on_a_snapshot_makes_a_data_directory_of_it(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    async with opened(data) as world:
        await world.make("one")
    path = data / "snapshots" / "one"
    assert files.manifest_of(str(path)) is not None
    async with opened(path) as on_it:
        await on_it.snapshots.clear()
    assert files.manifest_of(str(path)) is None


async def test_a_stop_leaves_what_was_made_to_the_next_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        world.probe.reached = reached = asyncio.Event()
        world.snapshots.begin("one")
        async with asyncio.timeout(LIMIT_SECONDS):
            await reached.wait()
            await world.snapshots.stop()
            assert await world.metadata.put("/after", b"x"), "metadata goes on"
        assert [path.suffix for path in (tmp_path / "snapshots").iterdir()] == [".unfinished"]
        with pytest.raises(NotReady):
            world.snapshots.begin("two")
        await world.snapshots.clear()
        assert not list((tmp_path / "snapshots").iterdir())


async def test_what_was_gathered_is_removed_before_the_next_one_is_prepared(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.probe.prepare()
        await world.probe.cut("one")
        await world.probe.drop("another")
        await world.probe.copy("one", str(tmp_path / "copy"))
        await world.probe.cut("two")  # without an end, as if the request had not come through
        await world.probe.prepare()
        assert not list(tmp_path.glob("snapshot-*"))


async def test_a_snapshot_is_as_private_as_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with opened(data) as world:
        for mode in (0o700, 0o750):
            data.chmod(mode)
            await world.make(f"{mode:o}")
            assert (data / "snapshots" / f"{mode:o}").stat().st_mode & 0o777 == mode


async def test_what_may_still_grow_is_copied_and_the_rest_is_shared(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        finished, growing = await world.segment(True), await world.segment(False)
        await world.make("one")
        copy = tmp_path / "snapshots" / "one"
        assert (copy / file_name(finished)).stat().st_nlink == 2
        assert (copy / file_name(growing)).stat().st_nlink == 1
        assert not list(tmp_path.glob("snapshot-*")), "what was gathered is removed"


async def test_a_snapshot_has_its_name_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no room")

    async with opened(tmp_path) as world:
        monkeypatch.setattr(layout, "write_format", fail)
        state = await world.make("one")
        assert (state["status"], state["error"]) == ("ERROR", "no room")
        assert not list((tmp_path / "snapshots").iterdir())
