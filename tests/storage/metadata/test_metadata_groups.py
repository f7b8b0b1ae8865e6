"""SQLite's writes that wait together share a transaction, and have an outcome each."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, ManualPromise, QueuedWorkers, run, start
from magnetar_storage.errors import BadVersion, Corrupt, DiskFull, StorageError
from magnetar_storage.interfaces import ABSENT, MetadataStore
from magnetar_storage.metadata.database import Database
from magnetar_storage.metadata.sorted_keys import SortedKeys
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk


class Driven:
    """A store whose worker waits until the test releases it."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.workers = QueuedWorkers(self.clock)
        opening = SqliteMetadata.open(
            LocalDisk(str(directory)), self.workers.background, self.clock
        )
        self.store: SqliteMetadata = run(opening, self.clock, self.workers.step)
        self.connection = self.store._database._connection
        self.begun: list[str] = []
        self.connection.set_trace_callback(self._traced)

    def _traced(self, statement: str) -> None:
        if statement.startswith("BEGIN"):
            self.begun.append(statement)

    def settle(self) -> None:
        self.clock.pump()
        while self.workers.step():
            self.clock.pump()

    def run(self, work: Any) -> Any:
        return run(work, self.clock, self.workers.step)


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    driven = Driven(tmp_path)
    yield driven
    driven.run(driven.store.close())


def test_a_database_whose_keys_cannot_be_read_is_closed_on_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    workers = QueuedWorkers(clock)
    closed: list[Database] = []
    close = Database.close

    def failing(database: Database) -> SortedKeys:
        raise DiskFull("no room for the keys")

    def closing(database: Database) -> None:
        close(database)
        closed.append(database)

    monkeypatch.setattr(Database, "keys", failing)
    monkeypatch.setattr(Database, "close", closing)
    opening = start(SqliteMetadata.open(LocalDisk(str(tmp_path)), workers.background, clock))
    for _ in ("open", "read the keys"):
        clock.pump()
        assert not closed
        assert workers.step()
    clock.pump()
    assert not closed, "the connection is used by the worker's jobs only"
    assert workers.step()
    assert len(closed) == 1
    clock.pump()
    with pytest.raises(DiskFull, match="no room for the keys"):
        opening.result()


def test_writes_that_wait_together_share_a_transaction(driven: Driven) -> None:
    puts = [start(driven.store.put(f"/{number}", b"")) for number in range(50)]
    driven.settle()
    versions = [put.result() for put in puts]
    assert len(driven.begun) == 1
    assert versions == sorted(set(versions))
    assert driven.run(driven.store.get("/49")) == (b"", versions[-1])


def test_a_refusal_leaves_the_others_of_its_group_alone(driven: Driven) -> None:
    driven.run(driven.store.put("/taken", b"old"))
    before = start(driven.store.put("/before", b""))
    refused = start(driven.store.put("/taken", b"new", ABSENT))
    behind = start(driven.store.put("/behind", b""))
    driven.settle()
    with pytest.raises(BadVersion):
        refused.result()
    assert before.result() < behind.result()
    assert driven.run(driven.store.list("/")) == ["/before", "/behind", "/taken"]


def test_a_key_that_is_no_text_is_refused_alone(driven: Driven) -> None:
    before = start(driven.store.put("/before", b""))
    refused = [start(driven.store.put("/\ud800", b"")), start(driven.store.delete("/\ud800"))]
    behind = start(driven.store.put("/behind", b""))
    driven.settle()
    for one in refused:
        with pytest.raises(UnicodeEncodeError):
            one.result()
    assert before.result() < behind.result()
    driven.store._keys = None
    asked = [start(driven.store.get(key)) for key in ("/\ud800", "/behind")]
    driven.settle()
    with pytest.raises(UnicodeEncodeError):
        asked[0].result()
    assert asked[1].result() == (b"", behind.result())


def test_a_group_without_room_is_not_written_at_all(driven: Driven) -> None:
    version = driven.run(driven.store.put("/there", b"old"))
    driven.connection.execute("PRAGMA max_page_count=1")
    puts = [
        start(driven.store.put("/small", b"")),
        start(driven.store.put("/large", bytes(1 << 20))),
    ]
    driven.settle()
    for put in puts:
        with pytest.raises(DiskFull, match="free some space"):
            put.result()
    assert driven.run(driven.store.list("/")) == ["/there"]
    assert driven.run(driven.store.get("/small")) is None
    driven.connection.execute("PRAGMA max_page_count=1000000")
    assert driven.run(driven.store.put("/small", b"")) > version
    driven.settle()
    assert driven.run(driven.store.list("/")) == ["/small", "/there"]
    assert driven.run(driven.store.get("/large")) is None


def test_what_is_not_there_is_known_without_asking(driven: Driven) -> None:
    driven.run(driven.store.put("/a", b""))
    driven.run(driven.store.delete("/a"))
    asked = start(driven.store.get("/a"))
    assert asked.done() and asked.result() is None
    listed = start(driven.store.list("/"))
    assert listed.done() and listed.result() == []


Operation = tuple[str, str, int]
OPERATIONS = st.tuples(
    st.sampled_from(("put", "put-absent", "put-seen", "delete", "delete-seen")),
    st.sampled_from(("/a", "/b", "/b/c")),
    st.integers(0, 3),
)


def begun(store: MetadataStore, operation: Operation, seen: list[int]) -> ManualPromise:
    """One operation; "seen" ones expect one of the versions that were given out before."""
    what, key, pick = operation
    version = seen[-1 - pick] if pick < len(seen) else 1 << 40
    calls: dict[str, Callable[[], Any]] = {
        "put": lambda: store.put(key, b"%d" % pick),
        "put-absent": lambda: store.put(key, b"%d" % pick, ABSENT),
        "put-seen": lambda: store.put(key, b"%d" % pick, version),
        "delete": lambda: store.delete(key),
        "delete-seen": lambda: store.delete(key, version),
    }
    return start(calls[what]())


def outcome(promise: ManualPromise) -> object:
    try:
        return promise.result()
    except StorageError as error:
        return type(error)


@settings(max_examples=examples(60))
@given(st.lists(st.lists(OPERATIONS, max_size=8), max_size=6))
def test_groups_do_what_one_write_after_the_other_does(groups: list[list[Operation]]) -> None:
    with TemporaryDirectory() as directory:
        driven = Driven(Path(directory))
        plain, clock = MemoryMetadata(driven.clock), driven.clock
        seen: list[int] = []
        for group in groups:
            expected = [outcome(begun(plain, one, seen)) for one in group]
            promises = [begun(driven.store, one, seen) for one in group]
            driven.settle()
            assert [outcome(promise) for promise in promises] == expected
            seen += [version for version in expected if isinstance(version, int)]
            keys = run(plain.list("/"), clock)
            assert driven.run(driven.store.list("/")) == keys
            for key in keys:
                assert driven.run(driven.store.get(key)) == run(plain.get(key), clock)
        driven.run(driven.store.close())


@given(st.lists(st.tuples(st.booleans(), st.text("ab/", max_size=4))), st.text("ab/", max_size=2))
def test_sorted_keys_are_a_sorted_set(changes: list[tuple[bool, str]], prefix: str) -> None:
    keys, model = SortedKeys(), set[str]()
    for add, key in changes:
        (keys.add if add else keys.discard)(key)
        (model.add if add else model.discard)(key)
        assert (key in keys) is add
    expected = sorted(key for key in model if key.startswith(prefix))
    assert keys.page(prefix, "", 1000) == [key for key in expected if key or prefix > ""]
    for at, key in enumerate(expected):
        assert keys.page(prefix, key, 2) == expected[at + 1 : at + 3]


def test_questions_that_wait_together_are_answered_together(driven: Driven) -> None:
    for key in ("/a", "/b", "/c"):
        driven.run(driven.store.put(key, key.encode()))
    change = "UPDATE entries SET value = ? WHERE key = '/b'"
    driven.connection.execute(change, (b"rot",))
    asked = [start(driven.store.get(key)) for key in ("/a", "/b", "/c")]
    driven.clock.pump()
    assert len(driven.workers.background) == 1
    driven.settle()
    assert [asked[0].result().value, asked[2].result().value] == [b"/a", b"/c"]
    with pytest.raises(Corrupt, match="row of /b"):
        asked[1].result()
    driven.connection.execute(change, (b"/b",))  # so that the store ends in order
