"""Metadata stores: the contract of every driver, then the specifics of SQLite."""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from crc32c import crc32c

from effort import parts
from fakes.links import LinkedMetadata
from fakes.world import InlineWorker, ManualClock, run, start
from magnetar_storage.errors import BadVersion, Corrupt, Unavailable
from magnetar_storage.interfaces import (
    ABSENT,
    RESYNC,
    Change,
    Changes,
    Lease,
    MetadataStore,
    Resync,
)
from magnetar_storage.memory.memory_metadata import MemoryMetadata
from magnetar_storage.metadata import sqlite
from magnetar_storage.metadata.sqlite import Database, SqliteMetadata
from magnetar_storage.metadata.statements import checksum
from magnetar_storage.metadata.watch import Watchers
from magnetar_storage.runtime.disk import LocalDisk

CLOCK = ManualClock()


def sqlite_at(directory: Path) -> SqliteMetadata:
    disk = LocalDisk(str(directory))
    return run(SqliteMetadata.open(disk, InlineWorker(CLOCK), CLOCK), CLOCK)


DRIVERS: dict[str, Callable[[Path], MetadataStore]] = {
    "memory": lambda _: MemoryMetadata(CLOCK),
    "sqlite": sqlite_at,
}


@pytest.fixture(params=[*DRIVERS, *(f"{driver}, linked" for driver in DRIVERS)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    """Open a store of each kind, in this process and at the other end of a link."""
    driver, _, linked = request.param.partition(", ")
    store = DRIVERS[driver](tmp_path)
    yield LinkedMetadata(store, CLOCK).remote if linked else store
    if isinstance(store, SqliteMetadata):
        store._database.close()


async def next_of(watch: Changes) -> Change | Resync:
    return await anext(watch)


def test_a_value_is_read_back_with_its_version(store: MetadataStore) -> None:
    version = run(store.put("/a", b"one"), CLOCK)
    assert run(store.get("/a"), CLOCK) == (b"one", version)
    assert run(store.get("/b"), CLOCK) is None


def test_versions_differ_after_every_write(store: MetadataStore) -> None:
    versions = [run(store.put("/a", b"same"), CLOCK) for _ in range(3)]
    run(store.delete("/a"), CLOCK)
    versions.append(run(store.put("/a", b"same"), CLOCK))
    assert len(set(versions)) == 4


def test_a_put_with_a_stale_version_changes_nothing(store: MetadataStore) -> None:
    old = run(store.put("/a", b"one"), CLOCK)
    new = run(store.put("/a", b"two", old), CLOCK)
    with pytest.raises(BadVersion):
        run(store.put("/a", b"three", old), CLOCK)
    with pytest.raises(BadVersion):
        run(store.put("/a", b"three", ABSENT), CLOCK)
    with pytest.raises(BadVersion):
        run(store.put("/b", b"three", old), CLOCK)
    with pytest.raises(BadVersion):
        run(store.delete("/a", old), CLOCK)
    with pytest.raises(BadVersion):
        run(store.delete("/b", old), CLOCK)
    assert run(store.get("/a"), CLOCK) == (b"two", new)


def test_deleting_what_is_missing_is_no_error(store: MetadataStore) -> None:
    run(store.delete("/a"), CLOCK)
    run(store.delete("/a", run(store.put("/a", b"", ABSENT), CLOCK)), CLOCK)
    assert run(store.get("/a"), CLOCK) is None


def test_writes_take_place_in_the_order_in_which_they_are_asked_for(
    store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "GROUP", 2)
    order: list[int] = []
    puts = [start(store.put("/a", b"%d" % number)) for number in range(5)]
    deletion = start(store.delete("/missing"))
    for number, asked in enumerate((*puts, deletion)):
        asked.when_done(partial(order.append, number))
    CLOCK.pump()
    assert order == list(range(6))
    assert run(store.get("/a"), CLOCK) == (b"4", puts[-1].result())


def test_keys_are_listed_in_order_and_in_pages(store: MetadataStore) -> None:
    keys = ["/t", "/t/a", "/t/a/b", "/t/b", "/t/é", "/u"]
    for key in reversed(keys):
        run(store.put(key, b""), CLOCK)
    assert run(store.list("/t/"), CLOCK) == ["/t/a", "/t/a/b", "/t/b", "/t/é"]
    assert run(store.list("/t/", limit=2), CLOCK) == ["/t/a", "/t/a/b"]
    assert run(store.list("/t/", after="/t/a/b", limit=1), CLOCK) == ["/t/b"]
    assert run(store.list(""), CLOCK) == keys


def test_a_watch_sees_changes_under_its_prefix_in_order(store: MetadataStore) -> None:
    watch = store.watch("/t/")
    first = start(next_of(watch))
    run(store.put("/other", b""), CLOCK)
    assert not first.done()
    one = run(store.put("/t/a", b"1"), CLOCK)
    run(store.delete("/t/a"), CLOCK)
    CLOCK.pump()
    assert first.result() == Change("/t/a", b"1", one)
    change = run(next_of(watch), CLOCK)
    assert isinstance(change, Change) and (change.key, change.value) == ("/t/a", None)
    waiting = start(next_of(watch))
    run(store.close(), CLOCK)
    with pytest.raises(StopAsyncIteration):
        waiting.result()


def test_keys_under_a_lease_go_with_it(store: MetadataStore) -> None:
    lease, other = run(store.lease(10), CLOCK), run(store.lease(10), CLOCK)
    run(store.put("/mine", b"", lease=lease), CLOCK)
    run(store.put("/taken", b"", lease=lease), CLOCK)
    run(store.put("/taken", b"", lease=other), CLOCK)
    run(store.put("/kept", b"", lease=lease), CLOCK)
    run(store.put("/kept", b""), CLOCK)
    run(store.revoke(lease), CLOCK)
    assert run(store.list("/"), CLOCK) == ["/kept", "/taken"]
    with pytest.raises(Unavailable):
        run(store.put("/mine", b"", lease=lease), CLOCK)


def test_a_watcher_that_lags_is_notified_to_list_again() -> None:
    watchers = Watchers(CLOCK, limit=2)
    watch = watchers.watch("/")
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
    with pytest.raises(Corrupt, match=r"row of /a.*restore"):
        run(store.close(), CLOCK)
    with pytest.raises(Corrupt, match=r"row of /a.*restore"):
        sqlite_at(tmp_path)


def values_of(store: SqliteMetadata) -> dict[str, object]:
    keys = run(store.list("/"), CLOCK)
    return {key: run(store.get(key), CLOCK) for key in keys}


@pytest.mark.parametrize("version", [0, 7, -1, 1 << 40, None, "7", b"7", 7.0])
@pytest.mark.parametrize("lease", [None, "process-1", 3])
def test_the_checksum_is_that_of_the_documented_fields(version: object, lease: object) -> None:
    text = f"4 ({version!r}, {lease!r}) /key".encode()
    assert checksum(b"/key", b"value", version, lease) == crc32c(text + b"value")
    assert checksum(b"/key", "value", version, lease) == -1
