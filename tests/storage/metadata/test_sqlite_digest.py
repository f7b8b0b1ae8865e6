"""The digest of the database: what a start need not check, and that it hides no damage."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from effort import parts
from fakes.world import InlineWorker, ManualClock, run, start
from magnetar_storage.errors import Corrupt
from magnetar_storage.metadata import sqlite_digest
from magnetar_storage.metadata.database import FILE
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.metadata.sqlite_digest import ALL, Checks, encode, needed
from magnetar_storage.runtime.disk import LocalDisk

CLOCK = ManualClock()
NOTHING = Checks(structure=False, rows=False)
STRUCTURE = Checks(structure=True, rows=False)
ROWS = 200


def opened(directory: Path) -> SqliteMetadata:
    disk = LocalDisk(str(directory))
    return run(SqliteMetadata.open(disk, InlineWorker(CLOCK), CLOCK), CLOCK)


def to_check(directory: Path) -> Checks:
    return needed(LocalDisk(str(directory)), FILE)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A database of some pages that was closed in order."""
    directory = tmp_path / "stopped"
    store = opened(directory)
    puts = [start(store.put(f"/{number:03}", b"value %d" % number)) for number in range(ROWS)]
    CLOCK.pump()
    assert all(put.done() for put in puts)
    run(store.close(), CLOCK)
    return directory


def rot_row(directory: Path, key: str) -> None:
    """Change a row, but not its checksum."""
    with sqlite3.connect(directory / FILE) as connection:
        connection.execute("UPDATE entries SET value = ? WHERE key = ?", (b"rot", key))
    connection.close()


def forge_digest(directory: Path) -> None:
    """As if everything had been checked."""
    path = directory / sqlite_digest.FILE
    path.write_bytes(encode(LocalDisk(str(directory)), FILE))


def test_after_an_orderly_end_nothing_is_checked_again(stopped: Path) -> None:
    assert to_check(stopped) == NOTHING
    store = opened(stopped)
    assert run(store.get("/007"), CLOCK) == (b"value 7", 8)
    run(store.close(), CLOCK)
    assert to_check(stopped) == NOTHING


def test_without_a_digest_everything_is_checked(stopped: Path) -> None:
    (stopped / sqlite_digest.FILE).unlink()
    assert to_check(stopped) == ALL
    rot_row(stopped, "/150")
    with pytest.raises(Corrupt, match="row of /150"):
        opened(stopped)


def test_after_a_kill_the_rows_are_covered_until_sqlite_moves_its_log(stopped: Path) -> None:
    store = opened(stopped)
    run(store.put("/new", b"value"), CLOCK)
    killed = stopped.parent / "killed"
    shutil.copytree(stopped, killed)
    assert to_check(killed) == STRUCTURE
    store._database._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    moved = stopped.parent / "moved"
    shutil.copytree(stopped, moved)
    assert to_check(moved) == ALL
    run(store.close(), CLOCK)
    for directory in (killed, moved):
        store = opened(directory)
        assert run(store.get("/new"), CLOCK) == (b"value", ROWS + 1)
        run(store.close(), CLOCK)
        assert to_check(directory) == NOTHING


@pytest.mark.parametrize("key", [f"/{number:03}" for number in (0, 99, ROWS - 1)])
def test_a_row_that_rots_while_the_broker_is_stopped_is_named(stopped: Path, key: str) -> None:
    rot_row(stopped, key)
    assert to_check(stopped) == ALL
    with pytest.raises(Corrupt, match=f"row of {key}"):
        opened(stopped)


@pytest.mark.parametrize("key", [f"/{number:03}" for number in (0, 99, ROWS - 1)])
def test_a_row_that_rots_while_the_broker_runs_is_named_at_its_end(stopped: Path, key: str) -> None:
    digest = stopped / sqlite_digest.FILE
    before = digest.read_bytes()
    store = opened(stopped)
    statement = "UPDATE entries SET value = ? WHERE key = ?"
    store._database._connection.execute(statement, (b"rot", key))
    with pytest.raises(Corrupt, match=f"row of {key}"):
        run(store.close(), CLOCK)
    assert digest.read_bytes() == before
    with pytest.raises(Corrupt, match=f"row of {key}"):
        opened(stopped)


def test_a_row_is_checked_when_it_is_read_though_the_digest_covers_it(stopped: Path) -> None:
    rot_row(stopped, "/100")
    forge_digest(stopped)
    assert to_check(stopped) == NOTHING
    store = opened(stopped)
    with pytest.raises(Corrupt, match="row of /100"):
        run(store.get("/100"), CLOCK)
    assert run(store.get("/101"), CLOCK) == (b"value 101", 102)
    store._database.close()


@pytest.mark.parametrize("part", parts(8))
def test_any_changed_byte_of_the_database_is_noticed(stopped: Path, part: int) -> None:
    path = stopped / FILE
    content = bytearray(path.read_bytes())
    for at in range(part * 13, len(content), 104):
        content[at] ^= 1 << part
        path.write_bytes(content)
        assert to_check(stopped) == ALL, at
        content[at] ^= 1 << part
    path.write_bytes(content[:-4096])
    assert to_check(stopped) == ALL
    path.write_bytes(content + bytes(4096))
    assert to_check(stopped) == ALL
    path.write_bytes(content)
    assert to_check(stopped) == NOTHING


def test_a_damaged_digest_is_as_none(stopped: Path) -> None:
    path = stopped / sqlite_digest.FILE
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at])
        assert to_check(stopped) == ALL
        rotten = bytearray(content)
        rotten[at] ^= 1 << at % 8
        path.write_bytes(rotten)
        assert to_check(stopped) == ALL
    run(opened(stopped).close(), CLOCK)
    assert to_check(stopped) == NOTHING


def test_no_digest_is_stored_while_sqlite_could_not_move_its_log(stopped: Path) -> None:
    """As after a full disk: the file alone may be half way between two states."""
    (stopped / sqlite_digest.FILE).unlink()
    store = opened(stopped)
    run(store.put("/new", b"value"), CLOCK)
    log = stopped / f"{FILE}-wal"
    kept = log.read_bytes()
    store._database.close()
    log.write_bytes(kept)
    store._store_digest()
    assert to_check(stopped) == ALL


def test_a_digest_without_its_database_is_as_none(stopped: Path) -> None:
    (stopped / FILE).unlink()
    assert to_check(stopped) == ALL
    store = opened(stopped)
    assert run(store.list("/"), CLOCK) == []
    run(store.close(), CLOCK)
    assert to_check(stopped) == NOTHING
