"""Changes of metadata wait while a copy of the database is the state that counts."""

from pathlib import Path

import pytest

from fakes.world import InlineWorker, ManualClock, QueuedWorker, run, start
from magnetar_storage.errors import Unavailable
from magnetar_storage.metadata.database import FILE, Copying, Database
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk

CLOCK = ManualClock()


class GivenUpMeanwhile(Copying):
    """Is given up when some pages have been copied."""

    asked = 0

    def check(self, *progress: int) -> None:
        self.asked += 1
        self.given_up = self.asked > 2
        super().check(*progress)


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


def test_a_copy_can_be_given_up_while_it_is_made(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    for number in range(3):
        run(store.put(f"/{number}", bytes(1 << 20)), CLOCK)
    copying = GivenUpMeanwhile()
    with pytest.raises(Unavailable, match="given up"):
        store._database.copy_to(str(tmp_path / FILE), copying)
    assert copying.asked == 3
    assert (tmp_path / FILE).stat().st_size < 2 << 20
    run(store.hold(str(tmp_path / "whole.db")), CLOCK)
    assert keys_in(tmp_path / "whole.db") == ["/0", "/1", "/2"]
    store.release()
    run(store.close(), CLOCK)


def test_release_gives_up_the_copy(tmp_path: Path) -> None:
    worker = QueuedWorker(CLOCK)
    opening = start(SqliteMetadata.open(LocalDisk(str(tmp_path / "data")), worker, CLOCK))
    while worker.step():
        CLOCK.pump()
    store = opening.result()
    held = start(store.hold(str(tmp_path / FILE)))
    late = start(store.put("/late", b"x"))
    store.release()
    CLOCK.pump()
    while worker.step():
        CLOCK.pump()
    with pytest.raises(Unavailable, match="given up"):
        held.result()
    assert late.result() == 1
    closing = start(store.close())
    while worker.step():
        CLOCK.pump()
    closing.result()
