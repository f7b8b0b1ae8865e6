"""Files of segments that are read from several packs, and from packs that they are moved to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar_storage.errors import NoObject, Unavailable
from magnetar_storage.local import segment_file
from magnetar_storage.session_store.manifest import Extent, SegmentRow
from magnetar_storage.session_store.session_ids import first_above
from magnetar_storage.session_store.settled_files import ObjectNames, SettledFiles

NAMES = ObjectNames("prefix/")
SEGMENT = first_above(0, 3)
FILE = segment_file.file_name(SEGMENT)


class Packs:
    """Packs of session 3 by number; a test says what happens when one is missing."""

    def __init__(self, packs: dict[int, bytes]) -> None:
        self.packs = {NAMES.of(3, number): data for number, data in packs.items()}
        self.files = SettledFiles(self, NAMES)
        self.moved: SegmentRow | None = None

    def size(self, name: str) -> int:
        return len(self.packs[name])

    def read(self, name: str, offset: int, size: int) -> bytes:
        if name not in self.packs:
            if self.moved is not None:
                self.files.put(SEGMENT, self.moved)
            raise NoObject(name)
        return self.packs[name][offset : offset + size]


def row(*extents: tuple[int, int, int]) -> SegmentRow:
    return SegmentRow(extents=tuple(Extent(*each) for each in extents))


@given(st.integers(0, 9), st.integers(0, 9))
def test_any_part_of_a_file_is_read(offset: int, size: int) -> None:
    files = Packs({1: b"..abc", 2: b"de..fgh"}).files
    files.put(SEGMENT, row((1, 2, 3), (2, 0, 2), (2, 4, 2)))
    assert files.read(FILE, offset, size) == b"abcdefg"[offset : offset + size]
    assert files.size(FILE) == files.stored[FILE].size == 7


def test_a_file_that_was_moved_while_it_was_read_is_read_from_its_new_pack() -> None:
    packs = Packs({2: b"new"})
    packs.files.put(SEGMENT, row((1, 0, 3)))
    packs.moved = row((2, 0, 3))
    assert packs.files.read(FILE, 0, 3) == b"new"


def test_a_missing_pack_is_not_a_missing_file() -> None:
    packs = Packs({})
    packs.files.put(SEGMENT, row((1, 0, 3)))
    with pytest.raises(Unavailable, match="is incomplete"):
        packs.files.read(FILE, 0, 3)
    packs.files.drop(SEGMENT)
    with pytest.raises(NoObject):
        packs.files.read(FILE, 0, 3)


def test_a_pack_that_ends_too_early_is_noticed() -> None:
    packs = Packs({1: b"ab"})
    packs.files.put(SEGMENT, row((1, 0, 3)))
    with pytest.raises(Unavailable, match="answered 2 bytes"):
        packs.files.read(FILE, 0, 3)
