"""A wall clock that jumps deletes nothing for a while."""

import pytest

from fakes.world import ManualClock
from magnetar_broker.base.clock_watch import HOLD_SECONDS, ClockWatch

DAY_MS = 86_400_000


def test_a_jump_forward_holds_deletions_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.advance(10)
    assert not watch.holds_deletions()
    clock.set_forward(DAY_MS)
    assert watch.holds_deletions()
    assert "the clock was set forward by 86400 seconds" in caplog.text
    clock.advance(HOLD_SECONDS - 1)
    assert watch.holds_deletions()
    clock.advance(1)
    assert not watch.holds_deletions()


def test_a_jump_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.set_forward(DAY_MS)
    for _ in range(3):
        clock.advance(10)
        assert watch.holds_deletions()
    assert caplog.text.count("the clock was set") == 1


def test_a_clock_that_is_set_right_ends_the_hold(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.set_forward(DAY_MS)
    assert watch.holds_deletions()
    clock.set_forward(-DAY_MS)
    assert not watch.holds_deletions()
    assert "the clock was set back by 86400 seconds" in caplog.text


def test_small_adjustments_are_no_jumps(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    for _ in range(10):
        clock.set_forward(59_000)
        assert not watch.holds_deletions()
    assert caplog.text == ""
