"""Data directories of released versions must load for ever.

The samples were written by this package: `samples/v2` (before there were digests) and
`samples/v2-digest-1` by `write_sample`, `samples/v2-index-1` by `write_index_sample`,
`samples/v3` by `write_sample_of_workers`, and `samples/v4` (before segments had origins) and
`samples/v5` by `write_identified_sample`.  A new version of a format adds a directory; the old ones
stay as they are.
"""

import shutil
from functools import partial
from pathlib import Path

import pytest

from fakes.origins import MESSAGES
from fakes.world import InlineWorker, InlineWorkers, ManualClock, run
from magnetar_storage.local import directories, index_file
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.segment_ids import FIRST_WITH_DIRECTORY
from magnetar_storage.local.store import LocalStore
from magnetar_storage.metadata import sqlite_digest
from magnetar_storage.metadata.database import FILE
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.belonging import check, mark, take
from magnetar_storage.multi_store.opening import open_store
from magnetar_storage.runtime.disk import LocalDisk

V2 = Path(__file__).parent / "samples" / "v2"
V2_DIGEST = Path(__file__).parent / "samples" / "v2-digest-1"
V2_INDEX = Path(__file__).parent / "samples" / "v2-index-1"
V4 = Path(__file__).parent / "samples" / "v4"
V5 = Path(__file__).parent / "samples" / "v5"
V4_ID = bytes(range(16))
V3 = Path(__file__).parent / "samples" / "v3"
SMALL = Limits(journal_file_bytes=1024)


def write_sample(directory: Path) -> None:
    """Write a finished, a sealed, an open and a deleted segment; then the process dies."""
    clock = ManualClock()
    store = run(
        LocalStore.open(LocalDisk(str(directory)), InlineWorkers(clock), clock, SMALL), clock
    )
    finished, sealed, unsealed, deleted = (run(store.create(MESSAGES), clock) for _ in range(4))
    for writer in (finished, sealed, unsealed, deleted):
        writer.append([b"first", b"", b"third"], [1, 2, 3], lambda error: None)
    run(finished.seal(), clock)
    run(store.checkpoint(), clock)
    run(store.delete(deleted.segment), clock)
    for number in range(20):
        unsealed.append([b"entry %d" % number * 9], [1], lambda error: None)
        clock.pump()
    sealed.append([b"last"], [9], lambda error: None)
    run(sealed.seal(), clock)
    metadata = run(
        SqliteMetadata.open(LocalDisk(str(directory)), InlineWorker(clock), clock), clock
    )
    run(metadata.put("/topics/sample", b"value"), clock)
    run(metadata.close(), clock)


def write_index_sample(directory: Path) -> None:
    """Write an open segment with an index file that ends before the segment; then a kill."""
    clock = ManualClock()
    limits = Limits(journal_file_bytes=1024, index_bytes=100)
    store = run(
        LocalStore.open(LocalDisk(str(directory)), InlineWorkers(clock), clock, limits), clock
    )
    writer = run(store.create(MESSAGES), clock)
    for number in range(20):
        writer.append([b"entry %d" % number, b""], [1, number], lambda error: None)
        clock.pump()
        if number in (5, 12):
            run(store.checkpoint(), clock)


def write_sample_of_workers(directory: Path) -> None:
    """Write a segment of a single worker, and two of each of three workers; then a kill."""
    clock = ManualClock()
    disk = LocalDisk(str(directory))
    workers = InlineWorkers(clock)
    alone = run(LocalStore.open(disk, workers, clock, SMALL), clock)
    run(alone.create(MESSAGES), clock).append([b"alone"], [1], lambda error: None)
    run(alone.close(), clock)
    directories.prepare(disk, 3)
    latest = FIRST_WITH_DIRECTORY
    for number in range(3):
        own = directories.disk_of(disk, number)
        store = run(LocalStore.open(own, workers, clock, SMALL, directory=number), clock)
        run(store.advance_beyond(latest), clock)
        finished, unsealed = (run(store.create(MESSAGES), clock) for _ in range(2))
        for writer in (finished, unsealed):
            writer.append([b"worker %d" % number, b""], [1, 2], lambda error: None)
        run(store.finish(finished.segment), clock)
        unsealed.append([b"last"], [3], lambda error: None)
        clock.pump()
        latest = store.last_id


def write_identified_sample(directory: Path) -> None:
    """Write a directory with an id: a finished, a quarantined and an open segment; then a kill."""
    clock = ManualClock()
    disk = LocalDisk(str(directory))
    lock, noted = take(disk)
    metadata = run(SqliteMetadata.open(disk, InlineWorker(clock), clock), clock)
    run(metadata.identify(partial(check, noted), V4_ID), clock)
    run(metadata.count_start(), clock)
    mark(disk, metadata.identity.directory)
    store = run(open_store(disk, InlineWorkers(clock), clock, SMALL, lock=lock), clock)
    store.belong(lambda: metadata.identity)
    finished, aside, unsealed = (run(store.create(MESSAGES), clock) for _ in range(3))
    run(metadata.put("/topics/sample", b"value"), clock)
    for writer in (finished, aside, unsealed):
        writer.append([b"first", b"", b"third"], [1, 2, 3], lambda error: None)
    run(finished.seal(), clock)
    run(store.set_aside([aside.segment], "a sample"), clock)
    unsealed.append([b"last"], [9], lambda error: None)
    clock.pump()
    run(metadata.close(), clock)


@pytest.mark.parametrize("sample", [V2, V2_DIGEST], ids=lambda sample: sample.name)
def test_version_2_loads(tmp_path: Path, sample: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(sample, directory)
    clock = ManualClock()
    disk = LocalDisk(str(directory))
    store = run(LocalStore.open(disk, InlineWorkers(clock), clock, SMALL), clock)
    assert store.findings == []

    async def listed() -> list[int]:
        return [segment async for segment in store.segments()]

    assert run(listed(), clock) == [1, 2, 3]
    expected = {
        1: [b"first", b"", b"third"],
        2: [b"first", b"", b"third", b"last"],
        3: [b"first", b"", b"third", *(b"entry %d" % number * 9 for number in range(20))],
    }
    messages = {1: 6, 2: 15, 3: 26}
    for segment, payloads in expected.items():
        reader = run(store.reader(segment), clock)
        assert run(reader.read(0, 100, 1 << 20), clock).payloads == payloads
        sealed = run(store.recover(segment), clock)
        assert sealed == (len(payloads), messages[segment], sum(map(len, payloads)))
    assert run(store.create(MESSAGES), clock).segment > 4
    run(store.close(), clock)
    metadata = run(SqliteMetadata.open(disk, InlineWorker(clock), clock), clock)
    assert run(metadata.get("/topics/sample"), clock) == (b"value", 1)
    run(metadata.close(), clock)


def test_version_1_of_digests_is_believed(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(V2_DIGEST, directory)
    assert sqlite_digest.needed(LocalDisk(str(directory)), FILE) == (False, False)


def test_version_1_of_index_files_loads(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(V2_INDEX, directory)
    clock = ManualClock()
    disk = LocalDisk(str(directory))
    file = disk.open(index_file.file_name(1))
    kept = index_file.read(file, 1)
    file.close()
    assert (kept.found.blocks, kept.stops) == (13, [6, 13])
    store = run(LocalStore.open(disk, InlineWorkers(clock), clock, SMALL), clock)
    assert store.findings == []
    reader = run(store.reader(1), clock)
    payloads = [payload for number in range(20) for payload in (b"entry %d" % number, b"")]
    assert run(reader.read(0, 100, 1 << 20), clock).payloads == payloads
    assert run(reader.messages_before(40), clock) == 20 + sum(range(20))
    run(store.recover(1), clock)
    run(store.close(), clock)
    assert [path.name for path in (directory / "segments").iterdir()] == [f"{1:016x}.seg"]


def test_version_3_loads(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(V3, directory)
    assert (directory / "FORMAT").read_text() == "magnetar data directory, format 3\n"
    clock = ManualClock()
    store = run(open_store(LocalDisk(str(directory)), InlineWorkers(clock), clock, SMALL), clock)
    assert store.findings == []

    async def listed() -> list[int]:
        return [segment async for segment in store.segments()]

    segments = run(listed(), clock)
    above = (0x200, 0x300, 0x501, 0x601, 0x802, 0x902)
    assert segments == [1, *(FIRST_WITH_DIRECTORY + number for number in above)]
    expected = {1: ([b"alone"], 1)}
    for number in range(3):
        finished, unsealed = segments[2 * number + 1 : 2 * number + 3]
        expected[finished] = [b"worker %d" % number, b""], 3
        expected[unsealed] = [b"worker %d" % number, b"", b"last"], 6
    for segment, (payloads, messages) in expected.items():
        reader = run(store.reader(segment), clock)
        assert run(reader.read(0, 100, 1 << 20), clock).payloads == payloads
        assert run(reader.messages_before(len(payloads)), clock) == messages
    assert run(store.create(MESSAGES), clock).segment > max(segments)
    run(store.close(), clock)


@pytest.mark.parametrize("sample", [V4, V5], ids=lambda sample: sample.name)
def test_an_identified_directory_loads(tmp_path: Path, sample: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(sample, directory)
    clock = ManualClock()
    disk = LocalDisk(str(directory))
    lock, noted = take(disk)
    assert noted.directory == V4_ID and (V4_ID, 1, 1) in noted.parts.values()
    metadata = run(SqliteMetadata.open(disk, InlineWorker(clock), clock), clock)
    run(metadata.identify(partial(check, noted), bytes(16)), clock)
    run(metadata.count_start(), clock)
    assert metadata.identity == (V4_ID, 2, 1)
    assert run(metadata.get("/topics/sample"), clock) == (b"value", 1)
    run(metadata.close(), clock)
    store = run(open_store(disk, InlineWorkers(clock), clock, SMALL, lock=lock), clock)
    assert store.findings == []

    async def listed() -> list[int]:
        return [segment async for segment in store.segments()]

    assert run(listed(), clock) == [1, 3]
    whole = [b"first", b"", b"third"]
    for segment, payloads in ((1, whole), (2, whole), (3, [*whole, b"last"])):
        reader = run(store.reader(segment), clock)
        assert run(reader.read(0, 100, 1 << 20), clock).payloads == payloads
        assert run(store.origin(segment), clock) == (None if sample is V4 else MESSAGES)
    assert run(listed(), clock) == [1, 2, 3]  # one that is asked for leaves the quarantine
    run(store.close(), clock)


def test_a_directory_of_version_2_gets_workers(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(V2, directory)
    disk, clock = LocalDisk(str(directory)), ManualClock()
    assert directories.prepare(disk, 2) == [0, 1]
    store = run(open_store(disk, InlineWorkers(clock), clock, SMALL), clock)
    reader = run(store.reader(2), clock)
    payloads = [b"first", b"", b"third", b"last"]
    assert run(reader.read(0, 100, 1 << 20), clock).payloads == payloads
    assert run(store.create(MESSAGES), clock).segment >= FIRST_WITH_DIRECTORY
    run(store.close(), clock)
