"""The contract of `magnetar_storage.objects.interfaces.Objects`, for every driver.

A class of tests with these, and a fixture `objects`, checks one driver.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from threading import Barrier
from typing import TypeVar

import pytest

from fakes.waiting import HANGS_SECONDS
from fakes.world import ManualClock, run
from magnetar_storage.errors import NoObject, ObjectChanged
from magnetar_storage.objects.creation import NONCE_BYTES, create_once
from magnetar_storage.objects.interfaces import Creation, Objects
from magnetar_storage.objects.probe import RACERS, probe
from storage.objects.real_threads import RealThread

T = TypeVar("T")

YEAR_2020_MS = 1_577_836_800_000

PART = 8 << 20
"""The size of parts of uploads, of which the tests upload several."""


def racing(count: int, act: Callable[[int], T]) -> list[T]:
    """Return what `act` returns for 0, 1, ... in as many threads, which start at once."""
    start = Barrier(count)

    def run_one(number: int) -> T:
        start.wait()
        return act(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run_one, range(count)))


class Reads:
    """The bytes for an upload, and a list of which of them were read."""

    def __init__(self, size: int) -> None:
        self.data = os.urandom(size)
        self.calls: list[tuple[int, int]] = []

    def __call__(self, offset: int, size: int) -> bytes:
        self.calls.append((offset, size))
        return self.data[offset : offset + size]


class Conformance:
    """Rules 1 to 6 of the interface for single calls and for races."""

    def test_what_was_created_is_read_back(self, objects: Objects) -> None:
        assert objects.create("a/b", [b"one", b"", b"two"]) is Creation.CREATED
        assert objects.read("a/b", 0, 100) == b"onetwo"
        assert objects.size("a/b") == 6

    def test_an_object_that_exists_is_not_created_again(self, objects: Objects) -> None:
        assert objects.create("a", [b"one"]) is Creation.CREATED
        assert objects.create("a", [b"other"]) is Creation.EXISTS
        assert objects.create("a", [b"one"]) is Creation.EXISTS
        assert objects.read("a", 0, 100) == b"one"
        objects.delete("a")
        assert objects.create("a", [b"two"]) is Creation.CREATED

    def test_parts_are_read_up_to_the_end(self, objects: Objects) -> None:
        objects.create("a", [bytes(range(10))])
        assert objects.read("a", 0, 10) == bytes(range(10))
        assert objects.read("a", 3, 4) == bytes((3, 4, 5, 6))
        assert objects.read("a", 8, 100) == bytes((8, 9))
        assert objects.read("a", 9, 1) == bytes((9,))
        for offset, size in ((10, 1), (10, 5), (11, 5), (1000, 5), (0, 0), (5, 0)):
            assert objects.read("a", offset, size) == b""

    def test_an_empty_object_exists(self, objects: Objects) -> None:
        assert objects.create("a", []) is Creation.CREATED
        assert objects.size("a") == 0
        assert objects.read("a", 0, 10) == b""
        assert objects.create("a", [b"x"]) is Creation.EXISTS

    def test_missing_objects_are_reported(self, objects: Objects) -> None:
        objects.create("there/too", [b"x"])
        for name in ("missing", "there", "there/not"):
            with pytest.raises(NoObject, match=name):
                objects.size(name)
            with pytest.raises(NoObject, match=name):
                objects.tag(name)
            with pytest.raises(NoObject, match=name):
                objects.read(name, 0, 1)
        objects.delete("missing")
        objects.delete("there/not")
        assert objects.read("there/too", 0, 1) == b"x"

    def test_names_may_have_all_kinds_of_characters(self, objects: Objects) -> None:
        names = ["a b+c", "50%", "%2F", "d#e?f&g=h", "é/ü", "~(x)!*'", "a:b@c$,;"]
        for name in names:
            assert objects.create(f"names/{name}", [name.encode()]) is Creation.CREATED
        assert {found.name for found in objects.list("names/")} == {f"names/{n}" for n in names}
        for name in names:
            assert objects.read(f"names/{name}", 0, 100) == name.encode()
            objects.delete(f"names/{name}")
        assert list(objects.list("names/")) == []

    def test_objects_are_listed_under_a_prefix(self, objects: Objects) -> None:
        assert list(objects.list("")) == []
        for name in ("a/1", "a/deep/2", "ab/3", "4"):
            objects.create(name, [name.encode()])
        assert {found.name for found in objects.list("a/")} == {"a/1", "a/deep/2"}
        assert {found.name for found in objects.list("")} == {"a/1", "a/deep/2", "ab/3", "4"}
        assert list(objects.list("b/")) == []
        sizes = {found.name: found.size for found in objects.list("")}
        assert sizes == {"a/1": 3, "a/deep/2": 8, "ab/3": 4, "4": 1}

    def test_the_time_of_writing_is_listed(self, objects: Objects) -> None:
        def time_of(name: str) -> int:
            return next(one.modified_ms for one in objects.list("") if one.name == name)

        objects.create("a", [b"x"])
        first = time_of("a")
        assert first > YEAR_2020_MS
        give_up_at = time.monotonic() + HANGS_SECONDS
        objects.create("b", [b"x"])
        # Some stores have whole seconds: write until the next one has begun.
        while time_of("b") <= first:
            assert time.monotonic() < give_up_at, "a later object has no later time"
            objects.replace("b", [b"y"], None)
        assert time_of("a") == first, "it is the time of the object"
        objects.replace("a", [b"y"], None)
        assert time_of("a") >= time_of("b")

    def test_one_of_many_creators_wins(self, objects: Objects) -> None:
        def create(number: int) -> Creation:
            return objects.create(name, [b"racer %d" % number])

        for turn in range(5):
            name = f"turn/{turn}"
            answers = racing(16, create)
            assert answers.count(Creation.CREATED) == 1
            assert answers.count(Creation.EXISTS) == 15
            assert objects.read(name, 0, 99) == b"racer %d" % answers.index(Creation.CREATED)

    def test_an_object_is_replaced_by_its_tag(self, objects: Objects) -> None:
        first = objects.replace("a", [b"one"], None)
        assert objects.tag("a") == first
        second = objects.replace("a", [b"tw", b"o"], first)
        assert second != first
        assert objects.tag("a") == second
        for stale in (first, "tag x"):
            with pytest.raises(ObjectChanged, match="a"):
                objects.replace("a", [b"three"], stale)
        assert objects.read("a", 0, 9) == b"two"
        with pytest.raises(ObjectChanged, match="missing"):
            objects.replace("missing", [b"x"], second)
        with pytest.raises(NoObject):
            objects.size("missing")
        objects.replace("a", [b"four"], None)
        assert objects.read("a", 0, 9) == b"four"

    def test_one_of_many_replacements_wins(self, objects: Objects) -> None:
        tag = objects.replace("a", [b"1"], objects.replace("a", [b"0"], None))

        def replace(number: int) -> bool:
            try:
                objects.replace("a", [b"racer %d" % number], tag)
            except ObjectChanged:
                return False
            return True

        won = racing(16, replace)
        assert sum(won) == 1
        assert objects.read("a", 0, 99) == b"racer %d" % won.index(True)

    @pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 2 * PART + 4711])
    def test_an_upload_is_written_as_a_whole(self, objects: Objects, size: int) -> None:
        objects.create("a", [b"old"])
        reads = Reads(size)
        objects.upload("a", size, reads)
        assert objects.size("a") == size
        assert b"".join(objects.read("a", at, PART) for at in range(0, size, PART)) == reads.data
        # Every byte once, in order.
        sizes = [wanted for _, wanted in reads.calls]
        assert [offset for offset, _ in reads.calls] == [0, *accumulate(sizes)][: len(sizes)]
        assert sum(sizes) == size

    @pytest.mark.parametrize("size", [10, 3 * PART])
    @pytest.mark.parametrize("name", ["old", "new"])
    def test_an_upload_that_fails_leaves_what_was_there(
        self, objects: Objects, name: str, size: int
    ) -> None:
        objects.create("old", [b"old"])

        def read(offset: int, wanted: int) -> bytes:
            if offset + wanted < size:
                return bytes(wanted)
            raise OSError("the disk cannot be read")

        def read_short(offset: int, wanted: int) -> bytes:
            return bytes(wanted if offset + wanted < size else wanted - 1)

        with pytest.raises(OSError, match="the disk cannot be read"):
            objects.upload(name, size, read)
        with pytest.raises(ValueError, match="expected"):
            objects.upload(name, size, read_short)
        assert [found.name for found in objects.list("")] == ["old"]
        assert objects.read("old", 0, 9) == b"old"

    def test_an_object_is_created_once_by_its_nonce(self, objects: Objects) -> None:
        clock, worker = ManualClock(), RealThread()
        nonces = [bytes([number]) * NONCE_BYTES for number in range(3)]
        created = [
            run(create_once(objects, worker, clock, "a", nonce, [b"data"], 60), clock)
            for nonce in (*nonces, nonces[0])
        ]
        assert created == [True, False, False, True]
        assert objects.read("a", 0, 99) == nonces[0] + b"data"

    def test_the_probe_accepts_it(self, objects: Objects) -> None:
        run(probe(objects, [RealThread() for _ in range(RACERS)], "probe/1"), ManualClock())
        assert list(objects.list("")) == []
