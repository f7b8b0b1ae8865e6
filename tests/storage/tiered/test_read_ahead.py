"""Reads of objects are few, grow while they are in order, and keep within their limit."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.faulty_objects import Fault, FaultyObjects
from magnetar_storage.errors import Unavailable
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.tiered.read_ahead import FIRST_BYTES, MOST_BYTES, ReadAhead

SIZE = 3 * MOST_BYTES
PLACE = "s3://bucket/prefix"


def stored(*names: str, size: int = SIZE) -> FaultyObjects:
    objects = FaultyObjects()
    for number, name in enumerate(names):
        objects.put(name, bytes((number + at // 1000) % 251 for at in range(0, size, 100)) * 100)
    objects.log.clear()
    return objects


class Source(NamedTuple):
    """A place with these objects."""

    store: FaultyObjects
    text: str = PLACE

    def objects(self) -> Objects:
        return self.store


class Reading(NamedTuple):
    """The objects of one place, with all that is read ahead."""

    all: ReadAhead
    source: Source

    @property
    def kept_bytes(self) -> int:
        return self.all.kept_bytes

    def read(self, name: str, offset: int, size: int) -> bytes:
        return self.all.of(self.source).read(name, offset, size)

    def size(self, name: str) -> int:
        return self.all.of(self.source).size(name)


def reading(objects: FaultyObjects, limit: int) -> Reading:
    return Reading(ReadAhead(lambda: limit), Source(objects))


def test_places_share_what_is_kept() -> None:
    """Each read asks its own place."""
    first, second = stored("a"), stored("b")
    ahead = ReadAhead(lambda: FIRST_BYTES)
    assert ahead.of(Source(first)).read("a", 0, 10) == first.content("a")[:10]
    assert ahead.of(Source(second)).read("b", 0, 10) == second.content("b")[:10]
    assert (first.log, second.log) == (["read a"], ["read b"])
    assert ahead.kept_bytes == FIRST_BYTES
    with pytest.raises(Unavailable, match="object a is missing in s3://other"):
        ahead.of(Source(second, "s3://other")).read("a", 0, 10)


def test_a_limit_that_is_lowered_drops_the_oldest() -> None:
    objects, limits = stored("a"), [MOST_BYTES]
    ahead = ReadAhead(lambda: limits[0])
    reads = ahead.of(Source(objects))
    for offset in (SIZE // 2, SIZE // 4, SIZE // 8):
        reads.read("a", offset, 10)
    assert not ahead.exceeds_limit()
    limits[0] = 2 * FIRST_BYTES
    assert ahead.exceeds_limit()
    ahead.trim()
    assert ahead.kept_bytes == 2 * FIRST_BYTES and not ahead.exceeds_limit()
    asked = len(objects.log)
    reads.read("a", SIZE // 8, 10)
    assert len(objects.log) == asked, "the newest ones are kept"


def test_an_object_that_is_read_in_order_takes_few_requests() -> None:
    objects = stored("a")
    ahead, content = reading(objects, MOST_BYTES), objects.content("a")
    step = 50_000
    for offset in range(0, len(content) - step, step):
        assert ahead.read("a", offset, step) == content[offset : offset + step]
    assert len(objects.log) <= 4 + len(content) // MOST_BYTES


def test_single_reads_elsewhere_ask_for_little() -> None:
    objects = stored("a")
    ahead = reading(objects, MOST_BYTES)
    for offset in (SIZE // 2, SIZE // 4, SIZE // 8):
        ahead.read("a", offset, 10)
    assert len(objects.log) == 3
    assert ahead.kept_bytes == 3 * FIRST_BYTES


def test_two_readers_in_order_do_not_take_each_others_place() -> None:
    objects = stored("a")
    ahead = reading(objects, 4 * MOST_BYTES)
    for offset in range(0, SIZE // 2 - 1000, 1000):
        ahead.read("a", offset, 1000)
        ahead.read("a", SIZE // 2 + offset, 1000)
    assert len(objects.log) <= 2 * (4 + SIZE // 2 // MOST_BYTES)


def test_a_missing_object_is_unavailable_and_names_the_place() -> None:
    ahead = reading(stored(), MOST_BYTES)
    with pytest.raises(Unavailable, match="object a is missing in s3://bucket/prefix: check"):
        ahead.read("a", 0, 10)
    with pytest.raises(Unavailable, match="object a is missing"):
        ahead.size("a")


def test_after_an_answer_that_was_cut_the_rest_is_read() -> None:
    objects = stored("a")
    ahead, content = reading(objects, MOST_BYTES), objects.content("a")
    objects.fault = lambda operation, name: Fault.CUT
    assert len(ahead.read("a", 0, 2 * FIRST_BYTES)) < 2 * FIRST_BYTES
    objects.fault = None
    assert ahead.read("a", 0, 100_000) == content[:100_000]
    assert ahead.read("a", 10, 200_000) == content[10:200_010]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5_000), st.integers(1, 3_000))),
    st.integers(1, 10_000),
)
def test_any_reads_return_what_the_object_has(
    reads: list[tuple[str, int, int]], limit: int
) -> None:
    objects = stored("a", "b", size=5_000)
    ahead = reading(objects, limit)
    for name, offset, size in reads:
        assert ahead.read(name, offset, size) == objects.content(name)[offset : offset + size]
        assert ahead.kept_bytes <= max(limit, 5_000)
    assert len(objects.log) <= len(reads)
