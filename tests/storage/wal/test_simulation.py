"""Random schedules of one session: its writer goes on while recoveries end it."""

import pytest

from effort import seeds
from storage.wal.session_world import SessionWorld

TOGETHER = 50


@pytest.mark.parametrize("batch", seeds(160))
def test_recoveries_find_what_was_reported(batch: int) -> None:
    for seed in range(batch * TOGETHER, (batch + 1) * TOGETHER):
        try:
            SessionWorld(seed).play()
        except BaseException as error:
            error.add_note(f"to repeat it: SessionWorld({seed}).play()")
            raise
