"""The contract of `magnetar_storage.interfaces.MetadataStore`, for every driver of metadata."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fakes.links import LinkedMetadata
from fakes.memory_metadata import MemoryMetadata
from fakes.world import InlineWorker, ManualClock, run, start
from magnetar_storage.errors import BadVersion, Fenced, Unavailable
from magnetar_storage.interfaces import (
    ABSENT,
    PAGE_BYTES,
    RESYNC,
    Change,
    Changes,
    Guard,
    MetadataStore,
    Resync,
    Versioned,
)
from magnetar_storage.metadata import sqlite
from magnetar_storage.metadata.retrying import RetryingMetadata
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk

CLOCK = ManualClock()


def sqlite_at(directory: Path) -> SqliteMetadata:
    disk = LocalDisk(str(directory))
    return run(SqliteMetadata.open(disk, InlineWorker(CLOCK), CLOCK), CLOCK)


DRIVERS: dict[str, Callable[[Path], MetadataStore]] = {
    "memory": lambda _: MemoryMetadata(CLOCK),
    "sqlite": sqlite_at,
    "retrying": lambda _: RetryingMetadata(MemoryMetadata(CLOCK), CLOCK),
}


@pytest.fixture(params=[*DRIVERS, *(f"{driver}, linked" for driver in DRIVERS)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    """Open a store of each kind, in this process and at the other end of a link."""
    driver, _, linked = request.param.partition(", ")
    store = DRIVERS[driver](tmp_path)
    yield LinkedMetadata(store, CLOCK).remote if linked else store
    if isinstance(store, SqliteMetadata):
        store._database.close()


def watched(store: MetadataStore, prefix: str) -> Changes:
    """Return a watch of which the reader has seen that it must list the prefix."""
    watch = store.watch(prefix)
    assert run(next_of(watch), CLOCK) is RESYNC
    return watch


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
    watch = watched(store, "/t/")
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
    assert lease.is_lost and not other.is_lost and other.deadline > CLOCK.uptime()
    with pytest.raises(Unavailable):
        run(store.put("/mine", b"", lease=lease), CLOCK)


def test_a_watch_begins_with_a_listing_and_misses_nothing_after_it(store: MetadataStore) -> None:
    run(store.put("/t/before", b"1"), CLOCK)
    watch = store.watch("/t/")
    unseen = run(store.put("/t/unseen", b"2"), CLOCK)
    assert run(next_of(watch), CLOCK) is RESYNC
    assert run(store.list("/t/"), CLOCK) == ["/t/before", "/t/unseen"]
    later = run(store.put("/t/later", b"3"), CLOCK)
    while (change := run(next_of(watch), CLOCK)) != Change("/t/later", b"3", later):
        # A change from before the listing may come again, and never a change of another key.
        assert change == Change("/t/unseen", b"2", unseen)


def test_values_are_listed_with_their_keys_in_order_and_in_pages(store: MetadataStore) -> None:
    keys = ["/t", "/t/a", "/t/a/b", "/t/b", "/t/é", "/u"]
    versions = {key: run(store.put(key, key.encode()), CLOCK) for key in reversed(keys)}
    expected = [(key, Versioned(key.encode(), versions[key])) for key in keys]
    assert run(store.read_under("/t/"), CLOCK) == expected[1:5]
    assert run(store.read_under("/t/", limit=2), CLOCK) == expected[1:3]
    assert run(store.read_under("/t/", after="/t/a/b", limit=1), CLOCK) == expected[3:4]
    assert run(store.read_under("/t/", after="/t/é"), CLOCK) == []
    assert run(store.read_under(""), CLOCK) == expected


def test_large_values_are_listed_to_the_end_in_more_pages(store: MetadataStore) -> None:
    value = bytes(PAGE_BYTES // 3)
    for number in range(7):
        run(store.put(f"/t/{number}", value), CLOCK)
    found: list[str] = []
    while page := run(store.read_under("/t/", found[-1] if found else ""), CLOCK):
        assert all(isinstance(one, Versioned) and one.value == value for _, one in page)
        found += [key for key, _ in page]
    assert found == [f"/t/{number}" for number in range(7)]


def test_a_write_whose_guard_holds_takes_place(store: MetadataStore) -> None:
    guard = Guard("/leader", run(store.put("/leader", b"me"), CLOCK))
    version = run(store.put("/a", b"1", ABSENT, guard=guard), CLOCK)
    version = run(store.put("/a", b"2", version, guard=guard), CLOCK)
    assert run(store.get("/a"), CLOCK) == (b"2", version)
    run(store.delete("/a", version, guard), CLOCK)
    assert run(store.get("/a"), CLOCK) is None


@pytest.mark.parametrize("successor", [True, False], ids=["replaced", "deleted"])
def test_a_write_whose_guard_does_not_hold_changes_nothing(
    store: MetadataStore, successor: bool
) -> None:
    guard = Guard("/leader", run(store.put("/leader", b"me"), CLOCK))
    version = run(store.put("/a", b"1"), CLOCK)
    run(store.delete("/leader"), CLOCK)
    if successor:
        run(store.put("/leader", b"me"), CLOCK)
    for write in (
        store.put("/a", b"2", guard=guard),
        store.put("/a", b"2", version, guard=guard),
        store.put("/a", b"2", ABSENT, guard=guard),
        store.put("/new", b"2", guard=guard),
        store.delete("/a", guard=guard),
        store.delete("/a", version, guard),
    ):
        with pytest.raises(Fenced, match="/leader has changed"):
            run(write, CLOCK)
    assert run(store.get("/a"), CLOCK) == (b"1", version)
    assert run(store.get("/new"), CLOCK) is None


def test_a_guard_sees_the_writes_that_were_asked_for_before(store: MetadataStore) -> None:
    guard = Guard("/leader", run(store.put("/leader", b"me"), CLOCK))
    guarded, ended = start(store.put("/a", b"1", guard=guard)), start(store.delete("/leader"))
    late = start(store.put("/a", b"2", guard=guard))
    CLOCK.pump()
    assert run(store.get("/a"), CLOCK) == (b"1", guarded.result())
    assert ended.result() is None
    with pytest.raises(Fenced):
        late.result()
