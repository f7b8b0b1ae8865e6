"""The limits of a session store."""

import pytest

from magnetar_storage.session_store.limits import SLOTS_BEHIND, SessionLimits
from magnetar_storage.wal.slot_writer import WalLimits


def test_a_log_may_not_run_further_ahead_than_a_takeover_looks() -> None:
    assert SessionLimits(WalLimits(unreported_slots=SLOTS_BEHIND)).wal
    with pytest.raises(ValueError, match="unreported_slots"):
        SessionLimits(WalLimits(unreported_slots=SLOTS_BEHIND + 1))
