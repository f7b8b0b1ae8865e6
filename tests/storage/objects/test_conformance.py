"""The contract of `Objects`, for the drivers that need no other program."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import object_servers
from fakes.faulty_objects import FaultyObjects
from fakes.world import InlineWorker, ManualClock, run
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_storage.errors import ConditionsNotKept
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.objects.probe import RACERS, probe
from storage.objects.conformance import PART, YEAR_2020_MS, Conformance, Reads
from storage.objects.real_threads import RealThread

NUMBERS = itertools.count()


class TestMemory(Conformance):
    @pytest.fixture
    def objects(self) -> Objects:
        milliseconds = itertools.count(2 * YEAR_2020_MS)
        return FaultyObjects(lambda: next(milliseconds))


class TestDirectory(Conformance):
    """A directory knows one condition alone: that a name is free."""

    @pytest.fixture
    def objects(self, tmp_path: Path) -> Objects:
        return open_objects(f"file://{tmp_path}")

    def test_an_object_is_replaced_by_its_tag(self, objects: Objects) -> None:
        tag = objects.replace("a", [b"one"], None)
        assert objects.tag("a") == tag
        with pytest.raises(ConditionsNotKept, match="cannot replace an object by its tag"):
            objects.replace("a", [b"two"], tag)
        assert objects.read("a", 0, 9) == b"one"
        assert objects.replace("a", [b"three"], None) != tag
        assert objects.read("a", 0, 9) == b"three"

    def test_the_file_of_a_writer_that_was_killed_is_no_object(
        self, objects: Objects, tmp_path: Path
    ) -> None:
        for left in (tmp_path / "a#1", tmp_path / "a#2"):
            left.write_bytes(b"half of it")
        assert list(objects.list("")) == []
        reads = Reads(2 * PART)
        objects.upload("a", len(reads.data), reads)
        objects.replace("b", [b"x"], None)
        assert objects.read("a", 0, 3 * PART) == reads.data
        assert {one.name for one in objects.list("")} == {"a", "b"}

    def test_one_of_many_replacements_wins(self, objects: Objects) -> None:
        """Not so here: none of them is made."""
        self.test_an_object_is_replaced_by_its_tag(objects)

    def test_the_probe_accepts_it(self, objects: Objects) -> None:
        """Not so here: the probe refuses it."""
        with pytest.raises(ConditionsNotKept, match="cannot replace an object by its tag"):
            run(probe(objects, [RealThread() for _ in range(RACERS)], "probe/1"), ManualClock())
        assert list(objects.list("")) == []


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        yield endpoint


class TestMoto(Conformance):
    """Without races: moto looks whether a condition holds before it writes."""

    @pytest.fixture
    def objects(self, moto: str, monkeypatch: pytest.MonkeyPatch) -> Objects:
        object_servers.use_credentials(monkeypatch)
        return open_objects(object_servers.place_at(moto, f"test/{next(NUMBERS)}"))

    def test_one_of_many_creators_wins(self, objects: Objects) -> None:
        """One after the other, as in the others of these tests."""
        self.test_an_object_that_exists_is_not_created_again(objects)

    def test_one_of_many_replacements_wins(self, objects: Objects) -> None:
        self.test_an_object_is_replaced_by_its_tag(objects)

    def test_the_probe_accepts_it(self, objects: Objects) -> None:
        clock = ManualClock()
        run(probe(objects, [InlineWorker(clock) for _ in range(RACERS)], "probe/1"), clock)
        assert list(objects.list("")) == []
