"""SQLite as a metadata store: its locks, syncs, schemas and checksums; and lagging watchers."""

import sqlite3
from pathlib import Path

import pytest
from crc32c import crc32c

from effort import parts
from fakes.links import LinkedMetadata
from fakes.world import InlineWorker, ManualClock, run
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.interfaces import (
    RESYNC,
    Change,
    Changes,
    Lease,
    Resync,
)
from magnetar_storage.metadata.database import Database
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.metadata.statements import checksum
from magnetar_storage.metadata.watch import Watchers
from magnetar_storage.runtime.disk import LocalDisk

CLOCK = ManualClock()


def sqlite_at(directory: Path) -> SqliteMetadata:
    disk = LocalDisk(str(directory))
    return run(SqliteMetadata.open(disk, InlineWorker(CLOCK), CLOCK), CLOCK)


async def next_of(watch: Changes) -> Change | Resync:
    return await anext(watch)


def test_a_watcher_that_lags_is_notified_to_list_again() -> None:
    watchers = Watchers(CLOCK, limit=2)
    watch = watchers.watch("/")
    assert run(next_of(watch), CLOCK) is RESYNC
    for version in range(4):
        watchers.publish(Change("/a", b"", version))
    assert run(next_of(watch), CLOCK) is RESYNC
    watchers.publish(Change("/a", b"", 9))
    assert run(next_of(watch), CLOCK) == Change("/a", b"", 9)


def test_sqlite_keeps_values_and_drops_leases_across_processes(tmp_path: Path) -> None:
    store = sqlite_at(tmp_path)
    version = run(store.put("/a", b"kept"), CLOCK)
    run(store.put("/b", b"leased", lease=run(store.lease(10), CLOCK)), CLOCK)
    store._database._connection.close()
    store = sqlite_at(tmp_path)
    assert run(store.get("/a"), CLOCK) == (b"kept", version)
    assert run(store.get("/b"), CLOCK) is None
    assert run(store.put("/a", b"new"), CLOCK) > version
    with pytest.raises(Unavailable):
        run(store.put("/b", b"", lease=Lease("process-1")), CLOCK)
    run(store.close(), CLOCK)


def test_sqlite_reports_that_another_process_holds_the_lock(tmp_path: Path) -> None:
    store = sqlite_at(tmp_path)
    run(store.put("/a", b""), CLOCK)
    with pytest.raises(Unavailable, match="another process"):
        sqlite_at(tmp_path)
    run(store.close(), CLOCK)


def test_sqlite_syncs_every_transaction(tmp_path: Path) -> None:
    connection = Database(str(tmp_path / "metadata.db"))._connection
    full = 2
    assert connection.execute("PRAGMA synchronous").fetchone() == (full,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize("schema", [1, 99])
def test_sqlite_refuses_a_schema_that_it_does_not_know(tmp_path: Path, schema: int) -> None:
    with sqlite3.connect(tmp_path / "metadata.db") as connection:
        connection.execute(f"PRAGMA user_version={schema}")
    connection.close()
    with pytest.raises(Unavailable, match="use a release that knows it"):
        sqlite_at(tmp_path)


def test_sqlite_reports_damage(tmp_path: Path) -> None:
    store = sqlite_at(tmp_path)
    for number in range(300):
        run(store.put(f"/a/{number}", bytes(100)), CLOCK)
    run(store.close(), CLOCK)
    path = tmp_path / "metadata.db"
    content = bytearray(path.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="restore"):
        sqlite_at(tmp_path)
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Corrupt, match="restore"):
        sqlite_at(tmp_path)


@pytest.mark.parametrize("bit", parts(8))
def test_no_flipped_bit_of_the_database_goes_unnoticed(tmp_path: Path, bit: int) -> None:
    """SQLite checks the structure of its file, but not the content of rows: we must do that."""
    store = sqlite_at(tmp_path)
    for number in range(3):
        run(store.put(f"/topics/{number}", b'{"first_offset": 17}'), CLOCK)
    expected = values_of(store)
    run(store.close(), CLOCK)
    path = tmp_path / "metadata.db"
    content = path.read_bytes()
    refused = 0
    for offset in (offset for offset, byte in enumerate(content) if byte):
        rotten = bytearray(content)
        rotten[offset] ^= 1 << bit
        path.write_bytes(rotten)
        try:
            store = sqlite_at(tmp_path)
        except (Corrupt, Unavailable):
            refused += 1
            continue
        assert values_of(store) == expected, f"bit {bit} of byte {offset}"
        store._database.close()
    assert refused > 200


def test_a_row_that_rots_while_it_is_used_is_refused_alone(tmp_path: Path) -> None:
    store = sqlite_at(tmp_path)
    run(store.put("/a", b"value"), CLOCK)
    run(store.put("/b", b"other"), CLOCK)
    store._database._connection.execute("UPDATE entries SET value = ? WHERE key = '/a'", (b"rot",))
    with pytest.raises(Corrupt, match="row of /a"):
        run(store.get("/a"), CLOCK)
    assert run(store.get("/b"), CLOCK) == (b"other", 2)
    (rotten, other) = run(store.read_under("/"), CLOCK)
    assert rotten[0] == "/a" and isinstance(rotten[1], Corrupt) and "row of /a" in str(rotten[1])
    assert other == ("/b", (b"other", 2))
    ((_, sent), _) = run(LinkedMetadata(store, CLOCK).remote.read_under("/"), CLOCK)
    assert isinstance(sent, Corrupt) and str(sent) == str(rotten[1])
    with pytest.raises(Corrupt, match=r"row of /a.*restore"):
        run(store.close(), CLOCK)
    with pytest.raises(Corrupt, match=r"row of /a.*restore"):
        sqlite_at(tmp_path)


def test_a_key_that_rots_is_refused_with_its_page(tmp_path: Path) -> None:
    store = sqlite_at(tmp_path)
    run(store.put("/a", b"value"), CLOCK)
    store._database._connection.execute(
        "UPDATE entries SET key = CAST(x'2f80' AS TEXT) WHERE key = '/a'"
    )
    with pytest.raises(Corrupt, match="restore"):
        run(store.read_under("/"), CLOCK)
    store._database.close()


def values_of(store: SqliteMetadata) -> dict[str, object]:
    keys = run(store.list("/"), CLOCK)
    return {key: run(store.get(key), CLOCK) for key in keys}


@pytest.mark.parametrize("version", [0, 7, -1, 1 << 40, None, "7", b"7", 7.0])
@pytest.mark.parametrize("lease", [None, "process-1", 3])
def test_the_checksum_is_that_of_the_documented_fields(version: object, lease: object) -> None:
    text = f"4 ({version!r}, {lease!r}) /key".encode()
    assert checksum(b"/key", b"value", version, lease) == crc32c(text + b"value")
    assert checksum(b"/key", "value", version, lease) == -1
