"""Of segments and objects that cannot be listed together, those in the store are listed."""

import pytest

from magnetar_storage.interfaces import SegmentCopy, SegmentId
from magnetar_storage.log.log_record import Segment
from magnetar_storage.rebuild.segment_list import Placed, listed


def here(number: SegmentId, first: int, stop: int) -> Placed:
    entries = stop - first
    return Placed(first, Segment(number, 1, entries, entries, entries))


def there(number: SegmentId, first: int, stop: int) -> Placed:
    entries, copy = stop - first, SegmentCopy("s3://bucket", str(number), 1, 1, is_only=True)
    return Placed(first, Segment(number, 1, entries, entries, entries, copy=copy))


FILES = [here(10, 100, 200), here(20, 200, 240), here(30, 240, 300)]


@pytest.mark.parametrize(
    ("objects", "wanted", "left_out"),
    [
        ([there(40, 250, 350)], [10, 20, 30], (40,)),
        ([there(25, 250, 350)], [10, 20, 30], (25,)),
        ([there(5, 0, 101)], [10, 20, 30], (5,)),
        ([there(5, 0, 100)], [5, 10, 20, 30], ()),
        ([there(40, 300, 310), there(50, 305, 320)], [10, 20, 30, 50], (40,)),
        ([there(4, 40, 100), there(3, 0, 41), there(2, 0, 40)], [4, 10, 20, 30], (2, 3)),
    ],
)
def test_files_win_over_objects(
    objects: list[Placed], wanted: list[SegmentId], left_out: tuple[SegmentId, ...]
) -> None:
    found = listed([*objects, *FILES], 0, 5)
    assert [one.id for one in found.segments if one.kept is None] == wanted
    assert found.left_out == left_out


def test_of_objects_alone_the_newest_are_listed() -> None:
    found = listed([there(10, 0, 100), there(20, 0, 40), there(30, 40, 60)], 0, 5)
    assert [one.id for one in found.segments] == [20, 30] and found.left_out == (10,)


def test_files_of_a_deleted_log_of_the_same_name_are_left_out() -> None:
    found = listed([here(10, 0, 100), here(20, 0, 40), there(30, 40, 60)], 0, 5)
    assert [one.id for one in found.segments] == [20, 30] and found.left_out == (10,)
