"""The contract of `magnetar_storage.interfaces.MetadataStore`, for every driver of metadata."""

from functools import partial

import pytest

from fakes.world import ManualClock, run, start
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


async def next_of(watch: Changes) -> Change | Resync:
    return await anext(watch)


class Conformance:
    """The tests; a subclass has the fixture `store`, which is empty and runs on `clock`."""

    clock: ManualClock

    def watched(self, store: MetadataStore, prefix: str) -> Changes:
        """Return a watch of which the reader has seen that it must list the prefix."""
        watch = store.watch(prefix)
        assert run(next_of(watch), self.clock) is RESYNC
        return watch

    def test_a_value_is_read_back_with_its_version(self, store: MetadataStore) -> None:
        version = run(store.put("/a", b"one"), self.clock)
        assert run(store.get("/a"), self.clock) == (b"one", version)
        assert run(store.get("/b"), self.clock) is None

    def test_versions_differ_after_every_write(self, store: MetadataStore) -> None:
        versions = [run(store.put("/a", b"same"), self.clock) for _ in range(3)]
        run(store.delete("/a"), self.clock)
        versions.append(run(store.put("/a", b"same"), self.clock))
        assert len(set(versions)) == 4

    def test_a_put_with_a_stale_version_changes_nothing(self, store: MetadataStore) -> None:
        old = run(store.put("/a", b"one"), self.clock)
        new = run(store.put("/a", b"two", old), self.clock)
        with pytest.raises(BadVersion):
            run(store.put("/a", b"three", old), self.clock)
        with pytest.raises(BadVersion):
            run(store.put("/a", b"three", ABSENT), self.clock)
        with pytest.raises(BadVersion):
            run(store.put("/b", b"three", old), self.clock)
        with pytest.raises(BadVersion):
            run(store.delete("/a", old), self.clock)
        with pytest.raises(BadVersion):
            run(store.delete("/b", old), self.clock)
        assert run(store.get("/a"), self.clock) == (b"two", new)

    def test_deleting_what_is_missing_is_no_error(self, store: MetadataStore) -> None:
        run(store.delete("/a"), self.clock)
        run(store.delete("/a", run(store.put("/a", b"", ABSENT), self.clock)), self.clock)
        assert run(store.get("/a"), self.clock) is None

    def test_writes_take_place_in_the_order_in_which_they_are_asked_for(
        self, store: MetadataStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite, "GROUP", 2)
        order: list[int] = []
        puts = [start(store.put("/a", b"%d" % number)) for number in range(5)]
        deletion = start(store.delete("/missing"))
        for number, asked in enumerate((*puts, deletion)):
            asked.when_done(partial(order.append, number))
        self.clock.pump()
        assert order == list(range(6))
        assert run(store.get("/a"), self.clock) == (b"4", puts[-1].result())

    def test_keys_are_listed_in_order_and_in_pages(self, store: MetadataStore) -> None:
        keys = ["/t", "/t/a", "/t/a/b", "/t/b", "/t/é", "/u"]
        for key in reversed(keys):
            run(store.put(key, b""), self.clock)
        assert run(store.list("/t/"), self.clock) == ["/t/a", "/t/a/b", "/t/b", "/t/é"]
        assert run(store.list("/t/", limit=2), self.clock) == ["/t/a", "/t/a/b"]
        assert run(store.list("/t/", after="/t/a/b", limit=1), self.clock) == ["/t/b"]
        assert run(store.list(""), self.clock) == keys

    def test_a_watch_sees_changes_under_its_prefix_in_order(self, store: MetadataStore) -> None:
        watch = self.watched(store, "/t/")
        first = start(next_of(watch))
        run(store.put("/other", b""), self.clock)
        assert not first.done()
        one = run(store.put("/t/a", b"1"), self.clock)
        run(store.delete("/t/a"), self.clock)
        self.clock.pump()
        assert first.result() == Change("/t/a", b"1", one)
        change = run(next_of(watch), self.clock)
        assert isinstance(change, Change) and (change.key, change.value) == ("/t/a", None)
        waiting = start(next_of(watch))
        run(store.close(), self.clock)
        with pytest.raises(StopAsyncIteration):
            waiting.result()

    def test_keys_under_a_lease_go_with_it(self, store: MetadataStore) -> None:
        lease, other = run(store.lease(10), self.clock), run(store.lease(10), self.clock)
        run(store.put("/mine", b"", lease=lease), self.clock)
        run(store.put("/taken", b"", lease=lease), self.clock)
        run(store.put("/taken", b"", lease=other), self.clock)
        run(store.put("/kept", b"", lease=lease), self.clock)
        run(store.put("/kept", b""), self.clock)
        run(store.revoke(lease), self.clock)
        assert run(store.list("/"), self.clock) == ["/kept", "/taken"]
        assert lease.is_lost and not other.is_lost and other.deadline > self.clock.uptime()
        with pytest.raises(Unavailable):
            run(store.put("/mine", b"", lease=lease), self.clock)

    def test_a_watch_begins_with_a_listing_and_misses_nothing_after_it(
        self, store: MetadataStore
    ) -> None:
        run(store.put("/t/before", b"1"), self.clock)
        watch = store.watch("/t/")
        unseen = run(store.put("/t/unseen", b"2"), self.clock)
        assert run(next_of(watch), self.clock) is RESYNC
        assert run(store.list("/t/"), self.clock) == ["/t/before", "/t/unseen"]
        later = run(store.put("/t/later", b"3"), self.clock)
        while (change := run(next_of(watch), self.clock)) != Change("/t/later", b"3", later):
            # A change from before the listing may come again, and never a change of another key.
            assert change == Change("/t/unseen", b"2", unseen)

    def test_values_are_listed_with_their_keys_in_order_and_in_pages(
        self, store: MetadataStore
    ) -> None:
        keys = ["/t", "/t/a", "/t/a/b", "/t/b", "/t/é", "/u"]
        versions = {key: run(store.put(key, key.encode()), self.clock) for key in reversed(keys)}
        expected = [(key, Versioned(key.encode(), versions[key])) for key in keys]
        assert run(store.read_under("/t/"), self.clock) == expected[1:5]
        assert run(store.read_under("/t/", limit=2), self.clock) == expected[1:3]
        assert run(store.read_under("/t/", after="/t/a/b", limit=1), self.clock) == expected[3:4]
        assert run(store.read_under("/t/", after="/t/é"), self.clock) == []
        assert run(store.read_under(""), self.clock) == expected

    def test_large_values_are_listed_to_the_end_in_more_pages(self, store: MetadataStore) -> None:
        value = bytes(PAGE_BYTES // 3)
        for number in range(7):
            run(store.put(f"/t/{number}", value), self.clock)
        found: list[str] = []
        while page := run(store.read_under("/t/", found[-1] if found else ""), self.clock):
            assert all(isinstance(one, Versioned) and one.value == value for _, one in page)
            found += [key for key, _ in page]
        assert found == [f"/t/{number}" for number in range(7)]

    def test_a_write_whose_guard_holds_takes_place(self, store: MetadataStore) -> None:
        guard = Guard("/leader", run(store.put("/leader", b"me"), self.clock))
        version = run(store.put("/a", b"1", ABSENT, guard=guard), self.clock)
        version = run(store.put("/a", b"2", version, guard=guard), self.clock)
        assert run(store.get("/a"), self.clock) == (b"2", version)
        run(store.delete("/a", version, guard), self.clock)
        assert run(store.get("/a"), self.clock) is None

    @pytest.mark.parametrize("successor", [True, False], ids=["replaced", "deleted"])
    def test_a_write_whose_guard_does_not_hold_changes_nothing(
        self, store: MetadataStore, successor: bool
    ) -> None:
        guard = Guard("/leader", run(store.put("/leader", b"me"), self.clock))
        version = run(store.put("/a", b"1"), self.clock)
        run(store.delete("/leader"), self.clock)
        if successor:
            run(store.put("/leader", b"me"), self.clock)
        for write in (
            store.put("/a", b"2", guard=guard),
            store.put("/a", b"2", version, guard=guard),
            store.put("/a", b"2", ABSENT, guard=guard),
            store.put("/new", b"2", guard=guard),
            store.delete("/a", guard=guard),
            store.delete("/a", version, guard),
        ):
            with pytest.raises(Fenced, match="/leader has changed"):
                run(write, self.clock)
        assert run(store.get("/a"), self.clock) == (b"1", version)
        assert run(store.get("/new"), self.clock) is None

    def test_a_guard_sees_the_writes_that_were_asked_for_before(self, store: MetadataStore) -> None:
        guard = Guard("/leader", run(store.put("/leader", b"me"), self.clock))
        guarded, ended = start(store.put("/a", b"1", guard=guard)), start(store.delete("/leader"))
        late = start(store.put("/a", b"2", guard=guard))
        self.clock.pump()
        assert run(store.get("/a"), self.clock) == (b"1", guarded.result())
        assert ended.result() is None
        with pytest.raises(Fenced):
            late.result()
