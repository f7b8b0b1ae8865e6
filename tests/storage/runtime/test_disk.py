"""`LocalDisk` on a real file system, and a store on it with real threads."""

import asyncio
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from fakes.loop_world import LoopClock
from fakes.origins import MESSAGES
from fakes.world import InlineWorkers, ManualClock, run
from magnetar_storage.errors import DataDirLocked, Unavailable
from magnetar_storage.local.store import LocalStore
from magnetar_storage.runtime.disk import LocalDisk, ReadOnlyDisk
from magnetar_storage.runtime.local_file import LocalFile
from magnetar_storage.runtime.native_file import (
    IOV_MAX,
    NATIVE_FILE,
    VARIABLE,
    LinuxFile,
    MacFile,
    choose,
)


@pytest.fixture(params=[NATIVE_FILE, LocalFile], ids=["native", "portable"])
def files(request: pytest.FixtureRequest) -> type[LocalFile]:
    """Return the system calls that the disk uses."""
    return cast(type[LocalFile], request.param)


@pytest.fixture
def disk(tmp_path: Path, files: type[LocalFile]) -> LocalDisk:
    return LocalDisk(str(tmp_path / "data"), files=files)


def test_buffers_are_written_one_behind_the_other(disk: LocalDisk) -> None:
    file = disk.open("f", create=True)
    small = [b"%05d" % number for number in range(3 * IOV_MAX + 1)]
    large = [bytes([number]) * 10_000 for number in range(20)]
    file.write(3, small)
    file.write(3 + 5 * len(small), large)
    file.sync()
    whole = b"\0\0\0" + b"".join(small) + b"".join(large)
    assert file.size() == len(whole)
    assert file.read(0, len(whole) + 100) == whole
    assert file.read(3, 5) == b"00000"
    file.truncate(8)
    assert file.read(0, 100) == whole[:8]
    file.close()


def test_allocated_room_reads_as_zeros(disk: LocalDisk) -> None:
    file = disk.open("f", create=True)
    file.write(0, [b"head"])
    file.allocate(10_000)
    assert file.read(0, 20_000) == b"head" + b"\0" * 9996
    file.allocate(5_000)
    assert file.size() == 10_000, "nothing is cut off"
    file.close()


SYNCED_WRITE = getattr(os, "RWF_DSYNC", 0)


class Syncs:
    """The paths that the system was asked to make durable, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, partial(self._sync, getattr(os, name)))
        monkeypatch.setattr(os, "pwritev", partial(self._write, os.pwritev))

    def _sync(self, call: Callable[[int], None], fd: int) -> None:
        call(fd)
        self.asked.append(path_of(fd))

    def _write(
        self, call: Callable[..., int], fd: int, buffers: list[bytes], offset: int, flags: int = 0
    ) -> int:
        written = call(fd, buffers, offset, flags)
        if flags & SYNCED_WRITE:
            self.asked.append(path_of(fd))
        return written


def path_of(fd: int) -> str:
    return Path(os.readlink(f"/proc/self/fd/{fd}")).name


def test_what_is_synced_reaches_the_system(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.make_dir("inner")
    file = disk.open("inner/f", create=True)
    syncs = Syncs(monkeypatch)
    file.write(0, [b"some"])
    assert syncs.asked == []
    file.sync()
    disk.sync_dir("inner")
    assert syncs.asked == ["f", "inner"]
    file.write_through(4, [b"more"])
    assert syncs.asked == ["f", "inner", "f"]
    assert file.read(0, 100) == b"somemore"
    file.close()


def test_a_file_system_that_knows_no_synced_write_syncs_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    plain = os.pwritev

    def ignorant(fd: int, buffers: list[bytes], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "no such flag here")
        return plain(fd, buffers, offset)

    monkeypatch.setattr(os, "pwritev", ignorant)
    syncs = Syncs(monkeypatch)
    file.write_through(0, [b"one"])
    file.write_through(3, [b"two"])
    assert syncs.asked == ["f", "f"]
    assert file.read(0, 100) == b"onetwo"
    file.close()


class FullSyncs:
    """macOS's `fcntl`: it records the descriptors synced to the device, or refuses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusal: int | None = None) -> None:
        self.asked: list[str] = []
        self._refusal = refusal
        monkeypatch.setattr(fcntl, "fcntl", self._call)

    def _call(self, fd: int, command: int) -> int:
        assert command == MacFile.F_FULLFSYNC
        if self._refusal is not None:
            raise OSError(self._refusal, os.strerror(self._refusal))
        self.asked.append(path_of(fd))
        return 0


def test_macos_syncs_files_and_directories_to_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(str(tmp_path), files=MacFile)
    full, plain = FullSyncs(monkeypatch), Syncs(monkeypatch)
    disk.make_dir("inner")
    file = disk.open("inner/f", create=True)
    file.write_through(0, [b"one"])
    file.sync()
    disk.sync_dir("inner")
    assert (full.asked, plain.asked) == (["f", "f", "inner"], [])
    assert file.read(0, 10) == b"one"
    file.close()


def test_macos_syncs_as_well_as_the_file_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalDisk(str(tmp_path), files=MacFile).open("f", create=True)
    plain = Syncs(monkeypatch)
    FullSyncs(monkeypatch, errno.ENOTSUP)
    file.write_through(0, [b"one"])
    assert plain.asked == ["f"]
    FullSyncs(monkeypatch, errno.EIO)
    with pytest.raises(Unavailable, match=r"cannot sync .*f"):
        file.sync()
    assert plain.asked == ["f"], "a failed device is not asked again"
    file.close()


def test_each_platform_has_its_system_calls() -> None:
    assert choose("linux", {}) is choose("linux", {VARIABLE: "native"}) is LinuxFile
    assert choose("darwin", {VARIABLE: ""}) is MacFile
    assert choose("freebsd14", {}) is LocalFile
    assert choose("linux", {VARIABLE: "portable"}) is LocalFile
    with pytest.raises(Unavailable, match="MAGNETAR_DISK_CALLS=fast: expected native or portable"):
        choose("linux", {VARIABLE: "fast"})


def test_a_write_that_the_system_cuts_short_is_continued(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("f", create=True)
    vector, plain = os.pwritev, os.pwrite
    monkeypatch.setattr(
        os, "pwritev", lambda fd, buffers, at, flags=0: vector(fd, [buffers[0][:7]], at, flags)
    )
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: plain(fd, data[:1000], at))
    buffers = [os.urandom(5000), os.urandom(6000)]
    file.write(0, buffers)
    file.write_through(11_000, buffers)
    assert file.read(0, 30_000) == b"".join(buffers) * 2
    file.close()


def test_a_python_without_the_flag_of_synced_writes_syncs_after_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pythons built for old C libraries also run on new kernels."""
    monkeypatch.delattr(os, "RWF_DSYNC", raising=False)
    file = LocalDisk(str(tmp_path), files=LinuxFile).open("f", create=True)
    syncs = Syncs(monkeypatch)
    file.write_through(0, [b"one"])
    assert syncs.asked == ["f"]
    assert file.read(0, 100) == b"one"
    file.close()


def test_without_durability_nothing_is_synced(
    tmp_path: Path, files: type[LocalFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalDisk(str(tmp_path / "relaxed"), False, files).open("f", create=True)
    syncs = Syncs(monkeypatch)
    file.write_through(0, [b"one"])
    file.sync()
    assert syncs.asked == []
    file.close()


def test_names_come_and_go(disk: LocalDisk) -> None:
    disk.make_dir("d")
    disk.make_dir("d")
    for name in ("d/b", "d/a"):
        disk.open(name, create=True).close()
    disk.rename("d/b", "d/c")
    disk.sync_dir("d")
    assert disk.list("d") == ["a", "c"]
    disk.remove("d/a")
    disk.remove("d/a")
    assert disk.list("d") == ["c"]
    assert disk.list("nowhere") == []
    with pytest.raises(FileNotFoundError):
        disk.open("d/a")


def test_an_error_of_the_system_names_the_remedy(disk: LocalDisk, tmp_path: Path) -> None:
    disk.make_dir("d")
    with pytest.raises(Unavailable, match=r"cannot open .*d"):
        disk.open("d")
    with pytest.raises(Unavailable, match="cannot create"):
        LocalDisk(str(tmp_path / "data" / "f" / "\0".replace("\0", "x" * 300)))


HOLDER = """
import sys
from magnetar_storage.runtime.disk import LocalDisk
lock = LocalDisk(sys.argv[1]).lock("LOCK")
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_may_lock(disk: LocalDisk, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "data")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(DataDirLocked, match=f"process {holder.pid}.*stop it"):
        disk.lock("LOCK")
    holder.communicate("")
    disk.lock("LOCK").close()


def test_a_read_only_disk_changes_nothing(disk: LocalDisk, tmp_path: Path) -> None:
    disk.open("f", create=True).write(0, [b"content"])
    looking = ReadOnlyDisk(str(tmp_path / "data"))
    assert (looking.list(""), looking.open("f").read(0, 99)) == (["f"], b"content")
    with pytest.raises(FileNotFoundError):
        looking.open("g")
    with pytest.raises(Unavailable, match="cannot write"):
        looking.open("f").write(0, [b"other"])
    looking.lock("LOCK").close()
    assert disk.list("") == ["f"], "an unused directory needs no lock"
    with pytest.raises(Unavailable, match="not a directory"):
        ReadOnlyDisk(str(tmp_path / "nowhere"))


def test_readers_and_writers_of_the_directory_exclude_each_other(
    disk: LocalDisk, tmp_path: Path
) -> None:
    looking = ReadOnlyDisk(str(tmp_path / "data"))
    writing = disk.lock("LOCK")
    with pytest.raises(DataDirLocked, match="in use by process"):
        looking.lock("LOCK")
    writing.close()
    first, second = looking.lock("LOCK"), looking.lock("LOCK")
    with pytest.raises(DataDirLocked):
        disk.lock("LOCK")
    first.close()
    second.close()
    disk.lock("LOCK").close()


def test_a_store_keeps_everything_across_restarts(disk: LocalDisk) -> None:
    clock = ManualClock()
    workers = InlineWorkers(clock)
    store = run(LocalStore.open(disk, workers, clock), clock)
    writer = run(store.create(MESSAGES), clock)
    payloads = [os.urandom(size) for size in (0, 1, 100, 70_000, 5_000_000)]
    writer.append(payloads, [1, 2, 3, 4, 5], lambda error: None)
    clock.pump()
    assert writer.confirmed == 4
    run(store.close(), clock)
    store = run(LocalStore.open(disk, workers, clock), clock)
    reader = run(store.reader(writer.segment), clock)
    found = run(reader.read(0, 10, 1 << 30), clock)
    assert (found.payloads, list(found.counts)) == (payloads, [1, 2, 3, 4, 5])
    run(store.close(), clock)


class ThreadOf:
    """A worker with a real thread."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.pool = ThreadPoolExecutor(1)

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        def work() -> None:
            try:
                result = job()
            except Exception as error:
                self.loop.call_soon_threadsafe(done, None, error)
            else:
                self.loop.call_soon_threadsafe(done, result, None)

        self.pool.submit(work)

    def run(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        return self.loop.run_in_executor(self.pool, job)


class Threads:
    """Three workers with a thread each."""

    def __init__(self) -> None:
        self.journal, self.background, self.reads = ThreadOf(), ThreadOf(), ThreadOf()

    def stop(self) -> None:
        for worker in (self.journal, self.background, self.reads):
            worker.pool.shutdown()


async def test_a_store_with_real_threads(disk: LocalDisk) -> None:
    threads, clock = Threads(), LoopClock()
    store = await LocalStore.open(disk, threads, clock)
    writers = [await store.create(MESSAGES) for _ in range(5)]
    runs = 100
    left = asyncio.Semaphore(0)

    def outcome(error: BaseException | None) -> None:
        assert error is None
        left.release()

    for number in range(runs):
        for writer in writers:
            writer.append([b"%d" % number, b"x" * 100], [1, 1], outcome)
        if number % 10 == 0:
            await store.checkpoint()
    for _ in range(runs * len(writers)):
        await left.acquire()
    for writer in writers:
        assert (await writer.seal()).entries == 2 * runs
        reader = await store.reader(writer.segment)
        found: list[bytes] = []
        while part := (await reader.read(len(found), 1000, 1 << 20)).payloads:
            found.extend(part)
        assert found[::2] == [b"%d" % number for number in range(runs)]
    await store.close()
    threads.stop()
