"""Metadata on a disk without room: the pages that SQLite reuses, and the room freed for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.world import InlineWorkers, ManualClock, run
from magnetar_storage.errors import DiskFull
from magnetar_storage.metadata.database import FILE
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk

LARGE = bytes(100_000)


class Small:
    """A database that cannot get further pages until room is made."""

    def __init__(self, directory: Path, rooms: int) -> None:
        """Open the database; room can be made `rooms` times."""
        self.clock = ManualClock()
        self.rooms = rooms
        self.asked = 0
        self.closed = False
        self.store: SqliteMetadata = run(
            SqliteMetadata.open(
                LocalDisk(str(directory)),
                InlineWorkers(self.clock).background,
                self.clock,
                self.make_room,
            ),
            self.clock,
        )
        self.limit_pages(0)

    def limit_pages(self, more: int) -> None:
        connection = self.store._database._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages + more}")

    def make_room(self) -> bool:
        self.asked += 1
        if not self.rooms:
            return False
        self.rooms -= 1
        self.limit_pages(100)
        return True

    def put(self, key: str) -> None:
        run(self.store.put(key, LARGE), self.clock)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.limit_pages(1000)
            run(self.store.close(), self.clock)

    def value(self, key: str) -> bytes | None:
        found = run(self.store.get(key), self.clock)
        return None if found is None else bytes(found.value)


@pytest.fixture
def make_small(tmp_path: Path) -> Iterator[Callable[[int], Small]]:
    """Open databases of one directory, which are closed at the end of the test."""
    made: list[Small] = []

    def make(rooms: int) -> Small:
        made.append(Small(tmp_path, rooms))
        return made[-1]

    yield make
    for small in made:
        small.close()


def test_a_write_that_finds_no_room_is_made_when_room_was_given_back(
    make_small: Callable[[int], Small],
) -> None:
    small = make_small(1)
    small.put("/a")
    assert small.value("/a") == LARGE
    assert small.asked == 1


def test_what_is_set_aside_is_kept_while_the_log_of_the_database_has_room(
    make_small: Callable[[int], Small], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make_small(1)

    def reuse() -> bool:
        small.limit_pages(100)
        return True

    monkeypatch.setattr(small.store._database, "_reuse_log", reuse)
    small.put("/a")
    assert small.value("/a") == LARGE
    assert small.asked == 0


def test_without_any_room_a_write_fails_and_changes_nothing(
    make_small: Callable[[int], Small],
) -> None:
    small = make_small(0)
    with pytest.raises(DiskFull, match=r"no room to write .*metadata\.db"):
        small.put("/a")
    assert small.value("/a") is None
    small.limit_pages(100)
    small.put("/a")
    assert small.value("/a") == LARGE


def test_a_start_writes_nothing_to_a_database_that_needs_nothing(
    make_small: Callable[[int], Small], tmp_path: Path
) -> None:
    """A database can therefore be opened on a disk without a free byte."""
    small = make_small(1)
    small.put("/a")
    small.close()
    before = (tmp_path / FILE).read_bytes()
    again = make_small(0)
    log = tmp_path / f"{FILE}-wal"
    assert not log.exists() or log.stat().st_size == 0
    again.close()
    assert (tmp_path / FILE).read_bytes() == before


def test_room_is_found_in_the_log_of_the_database(
    make_small: Callable[[int], Small], tmp_path: Path
) -> None:
    """The log's content is moved to the database, and the log is written from its start again."""
    small = make_small(0)
    small.limit_pages(1000)
    for _ in range(5):
        small.put("/a")
    log = tmp_path / f"{FILE}-wal"
    size = log.stat().st_size
    assert small.store._database._reuse_log()
    for _ in range(3):
        small.put("/a")
    assert log.stat().st_size == size
    assert small.value("/a") == LARGE
