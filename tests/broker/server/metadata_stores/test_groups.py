"""Groups of writes."""

from collections.abc import Sequence

import pytest

from magnetar_broker.server.metadata_stores.groups import GroupLimits, next_group
from magnetar_storage.interfaces import Guard
from magnetar_storage.metadata.writes import Delete, EndLease, Put, Write

FREE = GroupLimits(writes=3, bytes=10, repeats_keys=True)
DISTINCT = FREE._replace(repeats_keys=False)


def put(key: str, size: int = 1, guard: str = "") -> Put:
    return Put(key, bytes(size), None, None, Guard(guard, 1) if guard else None)


@pytest.mark.parametrize(
    ("limits", "waiting", "size"),
    [
        (FREE, [put("a")], 1),
        (FREE, [put(key) for key in "abcde"], 3),
        (FREE, [put("a"), put("a"), Delete("a", None)], 3),
        (DISTINCT, [put("a"), put("b"), put("a")], 2),
        (DISTINCT, [put("a"), Delete("a", None)], 1),
        (DISTINCT, [put("a"), put("b", guard="a")], 1),
        (DISTINCT, [put("b", guard="a"), put("a")], 2),
        (DISTINCT, [put("b", guard="a"), put("c", guard="a")], 2),
        (FREE, [put("a", 8), put("b", 0), put("c", 0)], 2),
        (FREE, [put("a", 99), put("b", 0)], 1),
        (FREE, [put("é", 7), put("b", 1)], 1),
        (FREE, [EndLease("1"), put("a")], 1),
        (FREE, [put("a"), EndLease("1"), put("b")], 1),
        (FREE, [EndLease("1"), EndLease("2")], 1),
    ],
)
def test_a_group_ends_before_a_write_that_must_wait(
    limits: GroupLimits, waiting: Sequence[Write], size: int
) -> None:
    assert list(next_group(waiting, limits)) == list(waiting[:size])
