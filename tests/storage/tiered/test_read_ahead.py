"""Reads of objects are few, grow while they are in order, and keep within their limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.faulty_objects import Fault, FaultyObjects
from magnetar_storage.errors import Unavailable
from magnetar_storage.tiered.read_ahead import FIRST_BYTES, MOST_BYTES, ReadAhead

SIZE = 3 * MOST_BYTES
PLACE = "s3://bucket/prefix"


def stored(*names: str, size: int = SIZE) -> FaultyObjects:
    objects = FaultyObjects()
    for number, name in enumerate(names):
        objects.put(name, bytes((number + at // 1000) % 251 for at in range(0, size, 100)) * 100)
    objects.log.clear()
    return objects


def test_an_object_that_is_read_in_order_takes_few_requests() -> None:
    objects = stored("a")
    ahead, content = ReadAhead(lambda: objects, PLACE, MOST_BYTES), objects.content("a")
    step = 50_000
    for offset in range(0, len(content) - step, step):
        assert ahead.read("a", offset, step) == content[offset : offset + step]
    assert len(objects.log) <= 4 + len(content) // MOST_BYTES


def test_single_reads_elsewhere_ask_for_little() -> None:
    objects = stored("a")
    ahead = ReadAhead(lambda: objects, PLACE, MOST_BYTES)
    for offset in (SIZE // 2, SIZE // 4, SIZE // 8):
        ahead.read("a", offset, 10)
    assert len(objects.log) == 3
    assert ahead.kept_bytes == 3 * FIRST_BYTES


def test_two_readers_in_order_do_not_take_each_others_place() -> None:
    objects = stored("a")
    ahead = ReadAhead(lambda: objects, PLACE, 4 * MOST_BYTES)
    for offset in range(0, SIZE // 2 - 1000, 1000):
        ahead.read("a", offset, 1000)
        ahead.read("a", SIZE // 2 + offset, 1000)
    assert len(objects.log) <= 2 * (4 + SIZE // 2 // MOST_BYTES)


def test_a_missing_object_is_unavailable_and_names_the_place() -> None:
    ahead = ReadAhead(stored, PLACE, MOST_BYTES)
    with pytest.raises(Unavailable, match="object a is missing in s3://bucket/prefix: check"):
        ahead.read("a", 0, 10)
    with pytest.raises(Unavailable, match="object a is missing"):
        ahead.size("a")


def test_after_an_answer_that_was_cut_the_rest_is_read() -> None:
    objects = stored("a")
    ahead, content = ReadAhead(lambda: objects, PLACE, MOST_BYTES), objects.content("a")
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
    ahead = ReadAhead(lambda: objects, PLACE, limit)
    for name, offset, size in reads:
        assert ahead.read(name, offset, size) == objects.content(name)[offset : offset + size]
        assert ahead.kept_bytes <= max(limit, 5_000)
    assert len(objects.log) <= len(reads)
