"""Store directories: making them, finding them, and what earlier releases may not open."""

from pathlib import Path

import pytest

from effort import seeds
from fakes.faulty_disk import Crash, FaultyDisk, seeded
from fakes.local_store import Machine
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.local import directories, layout
from magnetar_storage.runtime.disk import LocalDisk


def test_with_one_worker_there_is_one_store_directory_as_ever() -> None:
    disk = FaultyDisk()
    assert directories.prepare(disk, 1) == [0]
    assert disk.content("FORMAT") == b"magnetar data directory, format 2\n"
    assert directories.present(disk) == [0]


def test_workers_have_directories_of_their_own() -> None:
    disk = FaultyDisk()
    assert directories.prepare(disk, 1) == [0]
    assert directories.prepare(disk, 3) == [0, 1, 2]
    assert disk.content("FORMAT") == b"magnetar data directory, format 3\n"
    before = disk.names()
    assert directories.prepare(disk, 2) == directories.prepare(disk, 1) == [0, 1, 2]
    assert disk.names() == before


def test_a_data_directory_with_data_gets_more_directories() -> None:
    machine = Machine()
    machine.open()
    segment = machine.create()
    machine.append(segment, [b"stays"], [1])
    machine.pump()
    machine.close()
    directories.prepare(machine.disk, 4)
    machine.open()
    machine.check()
    assert machine.create() == segment + 1  # ids rise when the directories are opened together


def test_other_names_among_the_directories_are_ignored() -> None:
    disk = FaultyDisk()
    for name in ("workers/lost+found/x", "workers/01/FORMAT", "workers/256/FORMAT", "workers/3/x"):
        disk.open(name, create=True)
    assert directories.present(disk) == [0, 3]


def test_there_are_not_more_workers_than_ids_can_name() -> None:
    with pytest.raises(Unavailable, match="257 workers: a data directory has room for 256"):
        directories.prepare(FaultyDisk(), 257)


def test_a_format_that_denies_the_other_directories_is_refused() -> None:
    disk = FaultyDisk()
    directories.prepare(disk, 2)
    layout.write_format(disk, layout.ALONE)
    with pytest.raises(Corrupt, match="a single store directory, but workers/1 exists"):
        directories.prepare(disk, 2)


@pytest.mark.parametrize("seed", seeds(20))
def test_making_directories_can_be_interrupted_and_repeated(seed: int) -> None:
    disk = FaultyDisk()
    directories.prepare(disk, 1)
    at = 0
    while True:
        tried = disk.fork()
        tried.crash_at = tried.operations + at
        try:
            directories.prepare(tried, 3)
        except Crash:
            tried.crash(seeded(seed))
            found = directories.present(tried)
            # Else an earlier release would use the root, and lose what is in the others.
            assert len(found) == 1 or layout.format_of(tried) == layout.SEVERAL
            assert directories.prepare(tried, 3) == [0, 1, 2]
            for number in range(3):
                machine = Machine(tried, directory=number)
                machine.open()
                machine.check_still_works()
            at += 1
        else:
            break
    assert at > 10


def test_the_names_of_new_directories_are_durable() -> None:
    disk = FaultyDisk()
    directories.prepare(disk, 1)
    before = len(disk.log)
    directories.prepare(disk, 2)
    asked = disk.log[before:]
    inside = next(at for at, what in enumerate(asked) if "workers/1/" in what)
    assert "rename FORMAT.tmp FORMAT" in asked[:inside]
    assert asked[inside - 2 : inside] == ["sync_dir workers", "sync_dir "]


class NotedDisk(LocalDisk):
    """A real disk that notes which directories are synced."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.synced: list[str] = []

    def sync_dir(self, directory: str) -> None:
        super().sync_dir(directory)
        self.synced.append(directory)


def test_the_names_of_directories_that_a_killed_start_has_made_are_durable(tmp_path: Path) -> None:
    disk = NotedDisk(str(tmp_path))
    directories.prepare(disk, 1)
    layout.write_format(disk, layout.SEVERAL)
    disk.make_dir("workers/1")  # and then it was killed
    disk.synced.clear()
    assert directories.prepare(disk, 2) == [0, 1]
    assert disk.synced[:2] == ["workers", ""]
