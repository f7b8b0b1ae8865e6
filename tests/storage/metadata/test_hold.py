"""Changes of metadata wait while a copy of the database is the state that counts."""

from pathlib import Path

import pytest

from fakes.world import InlineWorker, ManualClock, run, start
from magnetar_storage.errors import Unavailable
from magnetar_storage.metadata.sqlite import FILE, Database, SqliteMetadata
from magnetar_storage.world.disk import LocalDisk

CLOCK = ManualClock()


def opened(directory: Path) -> SqliteMetadata:
    return run(SqliteMetadata.open(LocalDisk(str(directory)), InlineWorker(CLOCK), CLOCK), CLOCK)


def keys_in(path: Path) -> list[str]:
    copy = Database(str(path))
    try:
        return list(copy.keys().under(""))
    finally:
        copy.close()


def test_the_copy_has_what_was_answered_and_nothing_changes_until_release(tmp_path: Path) -> None:
    store, copy = opened(tmp_path / "data"), tmp_path / FILE
    run(store.put("/before", b"1"), CLOCK)
    run(store.hold(str(copy)), CLOCK)
    late, later = start(store.put("/late", b"2")), start(store.delete("/before"))
    CLOCK.pump()
    assert not late.done() and not later.done()
    assert run(store.get("/before"), CLOCK) == (b"1", 1), "reads go on"
    assert keys_in(copy) == ["/before"]
    store.release()
    CLOCK.pump()
    assert late.done() and later.done()
    assert run(store.get("/late"), CLOCK) == (b"2", 2)
    run(store.close(), CLOCK)
    assert keys_in(tmp_path / "data" / FILE) == ["/late"]


def test_a_change_that_is_under_way_is_in_the_copy_if_it_is_answered(tmp_path: Path) -> None:
    store, copy = opened(tmp_path / "data"), tmp_path / FILE
    puts = [start(store.put(f"/{number}", b"x")) for number in range(5)]
    held = start(store.hold(str(copy)))
    CLOCK.pump()
    assert held.done()
    answered = [f"/{number}" for number, put in enumerate(puts) if put.done()]
    assert keys_in(copy) == answered
    store.release()
    CLOCK.pump()
    assert all(put.done() for put in puts)
    run(store.close(), CLOCK)


def test_after_a_copy_that_failed_changes_go_on(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    with pytest.raises(Unavailable):
        run(store.hold(str(tmp_path / "missing" / FILE)), CLOCK)
    store.release()
    run(store.put("/after", b"1"), CLOCK)
    run(store.close(), CLOCK)
