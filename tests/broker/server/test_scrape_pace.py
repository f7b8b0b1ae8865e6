"""A scrape leaves the loop to others, and ends in time where they need much of it."""

import pytest

from fakes.world import ManualClock, start
from magnetar_broker.server.admin.routes import LARGE_PART, PARTS_AT_ONCE, gradually

PARTS = [b"x" * LARGE_PART, b"", b"small"] * 300


@pytest.mark.parametrize(("pause_ms", "most"), [(1, 600), (4, 152), (50, 600 // PARTS_AT_ONCE + 2)])
def test_the_longer_a_pause_takes_the_fewer_there_are(pause_ms: int, most: int) -> None:
    clock = ManualClock()
    page = start(gradually(iter(PARTS), clock))
    pauses = 0
    while not page.done():
        clock.set_forward(pause_ms - 1)
        clock.advance(0.001)
        pauses += 1
    assert page.result() == PARTS
    assert most - 5 < pauses <= most
