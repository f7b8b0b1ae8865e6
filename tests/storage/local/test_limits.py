"""The size of the journal on disks of different sizes."""

import pytest

from magnetar_storage.local.limits import DEFAULT, fitting
from magnetar_storage.space.free_limit import FreeLimit, reserve_bytes

MB = 1 << 20


def test_a_large_disk_changes_nothing() -> None:
    assert fitting(DEFAULT, 100_000 * MB, 16) == DEFAULT


@pytest.mark.parametrize("workers", [1, 3, 64])
@pytest.mark.parametrize("size", [24 * MB, 300 * MB, 1000 * MB, 5000 * MB, 10**15])
def test_a_start_on_a_full_disk_has_room_for_what_is_in_a_journal_file(
    size: int, workers: int
) -> None:
    limit = FreeLimit().of(size)
    limits = fitting(DEFAULT, size, workers)
    assert 0 < limits.journal_file_bytes <= reserve_bytes(size, limit)
    assert limits.round_bytes <= reserve_bytes(size, limit)
    assert limits.unwritten_bytes * workers <= limit
    assert limits.write_behind_bytes < limits.unwritten_bytes
