"""Parts of a data directory that do not belong together are refused, without any change."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from fakes.origins import MESSAGES
from fakes.world import InlineWorker, InlineWorkers, ManualClock, run
from magnetar_storage.errors import Incomplete
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import directories, layout
from magnetar_storage.local.limits import Limits
from magnetar_storage.metadata.database import FILE
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.multi_store.belonging import check, mark, take
from magnetar_storage.multi_store.opening import open_store
from magnetar_storage.runtime.disk import LocalDisk

V2 = Path(__file__).parents[1] / "samples" / "v2"
V3 = Path(__file__).parents[1] / "samples" / "v3"
ID = bytes(range(16))
SMALL_JOURNAL = Limits(journal_file_bytes=1 << 16)


class Life:
    """A start of all parts on a data directory; `stop` ends it."""

    def __init__(self, path: Path, workers: int | None = None, new_id: bytes = ID) -> None:
        self.clock = ManualClock()
        self.disk = LocalDisk(str(path))
        self._lock, noted = take(self.disk, workers)
        try:
            opening = SqliteMetadata.open(self.disk, InlineWorker(self.clock), self.clock)
            self.metadata = run(opening, self.clock)
            try:
                run(self.metadata.identify(partial(check, noted), new_id), self.clock)
            except Incomplete:
                run(self.metadata.close(), self.clock)
                raise
        except Incomplete:
            self._lock.close()
            raise
        mark(self.disk, self.metadata.identity.directory)
        opened = open_store(
            self.disk, InlineWorkers(self.clock), self.clock, SMALL_JOURNAL, lock=self._lock
        )
        try:
            self.store = run(opened, self.clock)
        except Incomplete:
            run(self.metadata.close(), self.clock)
            raise
        run(self.metadata.count_start(), self.clock)
        self.store.belong(lambda: self.metadata.identity)

    def change(self, key: str = "/settings") -> None:
        run(self.metadata.put(key, b"value"), self.clock)

    def append(self) -> int:
        writer = run(self.store.create(MESSAGES), self.clock)
        writer.append([b"entry"], [1], lambda error: None)
        self.clock.pump()
        return writer.segment

    def stop(self) -> None:
        run(self.metadata.close(), self.clock)
        run(self.store.close(), self.clock)


def lived(path: Path, times: int = 1, new_id: bytes = ID, workers: int | None = None) -> Path:
    """Create a data directory on which brokers were started and stopped `times` times."""
    for _ in range(times):
        life = Life(path, workers, new_id)
        life.change()
        life.append()
        life.stop()
    return path


def content(path: Path) -> dict[str, bytes]:
    """Return all files without those that carry no information."""
    names = (one for one in path.rglob("*") if one.is_file())
    ignored = ("LOCK", "metadata.digest", FILE, f"{FILE}-wal", f"{FILE}-shm")
    return {str(one): one.read_bytes() for one in names if one.name not in ignored}


def refused(path: Path, match: str, workers: int | None = None) -> None:
    """Check that every start is refused."""
    before = content(path)
    for _ in range(3):
        with pytest.raises(Incomplete, match=match):
            Life(path, workers)
    assert content(path) == before


def without_metadata(path: Path) -> None:
    for one in path.glob(f"{FILE}*"):
        one.unlink()


def put_metadata(source: Path, path: Path) -> None:
    without_metadata(path)
    for one in source.glob(f"{FILE}*"):
        shutil.copy(one, path)


def test_a_new_directory_gets_an_id_in_all_parts(tmp_path: Path) -> None:
    path = lived(tmp_path / "data", 2)
    assert (path / "FORMAT").read_text() == (
        f"magnetar data directory, format 5\nid {ID.hex()}\nstores 0\n"
    )
    (name,) = (one for one in path.iterdir() if one.name.startswith("checkpoint-"))
    found = checkpoints.decode(name.read_bytes())
    assert found is not None and found.identity == (ID, 2, 2)
    life = Life(path, new_id=bytes(16))
    assert life.metadata.identity == (ID, 3, 2)
    life.stop()


def test_a_missing_metadata_file_is_refused_and_taken_when_it_is_back(tmp_path: Path) -> None:
    path = lived(tmp_path / "data")
    copy = shutil.copytree(path, tmp_path / "copy")
    without_metadata(path)
    refused(path, "metadata.db is missing")
    put_metadata(copy, path)
    lived(path)


def test_it_is_missed_in_a_directory_of_an_earlier_release_too(tmp_path: Path) -> None:
    path = shutil.copytree(V2, tmp_path / "data")
    without_metadata(path)
    refused(path, "metadata.db is missing")


def test_a_start_that_was_cut_short_before_there_was_metadata_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "data"
    lock, _ = take(LocalDisk(str(path)))
    lock.close()
    lived(path)


def test_a_start_that_was_cut_short_before_the_format_had_the_id_is_repeated(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data"
    disk, clock = LocalDisk(str(path)), ManualClock()
    lock, noted = take(disk)
    metadata = run(SqliteMetadata.open(disk, InlineWorker(clock), clock), clock)
    run(metadata.identify(partial(check, noted), ID), clock)
    run(metadata.close(), clock)
    lock.close()
    lived(path, new_id=b"another id......")
    assert ID.hex() in (path / "FORMAT").read_text()


def test_new_metadata_is_refused(tmp_path: Path) -> None:
    path = lived(tmp_path / "data")
    without_metadata(path)
    (path / FILE).touch()
    refused(path, "no id")


def test_older_metadata_is_refused_by_its_starts_and_by_its_changes(tmp_path: Path) -> None:
    path = lived(tmp_path / "data", 2)
    copy = shutil.copytree(path, tmp_path / "copy")
    life = Life(path)
    between = tmp_path / "between"
    between.mkdir()
    run(life.metadata.hold(str(between / FILE)), life.clock)
    life.metadata.release()
    life.change("/later")
    life.append()
    life.stop()
    put_metadata(copy, path)
    refused(path, "older")
    put_metadata(between, path)
    refused(path, "older")


def test_metadata_that_lacks_a_start_is_refused_although_nothing_was_changed_in_it(
    tmp_path: Path,
) -> None:
    path = lived(tmp_path / "data")
    copy = shutil.copytree(path, tmp_path / "copy")
    life = Life(path)
    life.append()
    life.stop()
    put_metadata(copy, path)
    refused(path, "older")


def test_parts_of_another_directory_are_refused(tmp_path: Path) -> None:
    other = b"another id......"
    path, foreign = lived(tmp_path / "data"), lived(tmp_path / "other", 3, other)
    mine = shutil.copytree(path, tmp_path / "mine")
    put_metadata(foreign, path)
    refused(path, "different data directories")
    put_metadata(mine, path)
    for one in path.glob("checkpoint-*"):
        one.unlink()
    for one in foreign.glob("checkpoint-*"):
        shutil.copy(one, path)
    refused(path, "checkpoint-.* different data directories")


def test_metadata_alone_is_refused(tmp_path: Path) -> None:
    path = lived(tmp_path / "data")
    alone = tmp_path / "alone"
    alone.mkdir()
    put_metadata(path, alone)
    with pytest.raises(Incomplete, match="nothing but metadata"):
        Life(alone)


def test_a_directory_that_was_copied_whole_is_served(tmp_path: Path) -> None:
    copy = shutil.copytree(lived(tmp_path / "data", 2), tmp_path / "copy")
    lived(copy, 2)
    lived(tmp_path / "data", 3)


def killed(path: Path, has_entries: bool = True) -> None:
    """Create a directory as left by a kill: nothing closed, metadata in SQLite's log."""
    life = Life(path)
    life.change("/one")
    if has_entries:
        life.append()
    life.change("/two")
    twin = path.with_name("twin")
    shutil.copytree(path, twin)
    life.stop()
    shutil.rmtree(path)
    twin.rename(path)


def test_kills_are_no_reason_to_refuse(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for _ in range(4):
        killed(path)
    lived(path)
    killed(path)
    lived(path)


def test_a_kill_before_the_first_message_is_no_reason_to_refuse(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for _ in range(3):
        killed(path, has_entries=False)
    lived(path)


@pytest.mark.parametrize("sample", [V2, V3], ids=lambda sample: sample.name)
def test_a_directory_of_an_earlier_release_gets_its_id(tmp_path: Path, sample: Path) -> None:
    path = shutil.copytree(sample, tmp_path / "data")
    if not (path / FILE).exists():
        clock = ManualClock()
        disk = LocalDisk(str(path))
        made = run(SqliteMetadata.open(disk, InlineWorker(clock), clock), clock)
        run(made.close(), clock)
    copy = shutil.copytree(path, tmp_path / "copy")
    lived(path)
    disk = LocalDisk(str(path))
    for number in directories.present(disk):
        assert layout.format_of(directories.disk_of(disk, number)).directory == ID
    put_metadata(copy, path)
    refused(path, "no id")


@pytest.mark.parametrize("restarted", [None, 1, 2, 3])
def test_a_missing_store_directory_is_refused(tmp_path: Path, restarted: int | None) -> None:
    path = lived(tmp_path / "data", workers=3)
    assert "stores 0 1 2\n" in (path / "FORMAT").read_text()
    away = tmp_path / "away"
    (path / "workers" / "2").rename(away)
    refused(path, "workers/2", restarted)
    away.rename(path / "workers" / "2")
    lived(path, workers=restarted)


def test_more_workers_are_added(tmp_path: Path) -> None:
    path = lived(tmp_path / "data")
    lived(path, workers=2)
    assert "stores 0 1\n" in (path / "FORMAT").read_text()
    lived(path, workers=1)
    assert "stores 0 1\n" in (path / "FORMAT").read_text()


def test_a_store_directory_of_another_time_is_refused(tmp_path: Path) -> None:
    """The checkpoint of the store has changes that the metadata lacks."""
    path = lived(tmp_path / "data", workers=2)
    copy = shutil.copytree(path, tmp_path / "copy")
    lived(path, 2, workers=2)
    shutil.rmtree(copy / "workers")
    shutil.copytree(path / "workers", copy / "workers")
    refused(copy, r"older than workers/1/checkpoint", 2)


def test_a_segment_of_another_directory_is_refused(tmp_path: Path) -> None:
    """The segment's name exists in this directory: ids count from 1 in each."""
    path, other = lived(tmp_path / "data"), lived(tmp_path / "other", 2, bytes(16)[:-1] + b"x")
    names = sorted(one.name for one in (path / "segments").glob("*.seg"))
    right = (path / "segments" / names[0]).read_bytes()
    assert (other / "segments" / names[0]).stat().st_size == len(right)
    shutil.copy(other / "segments" / names[0], path / "segments")
    refused(path, f"segments/{names[0]} is of another data directory")
    (path / "segments" / names[0]).write_bytes(right)
    Life(path).stop()


def test_a_journal_of_another_directory_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "data", tmp_path / "one" / "other"
    for one, new_id in ((path, ID), (other, b"x" * 16)):
        lived(one, 1, new_id)
        killed(one)
    (name,) = (one.name for one in (path / "journal").glob("*.wal"))
    right = (path / "journal" / name).read_bytes()
    shutil.copy(other / "journal" / name, path / "journal")
    refused(path, f"journal/{name} is not of the data directory")
    (path / "journal" / name).write_bytes(right)
    Life(path).stop()
