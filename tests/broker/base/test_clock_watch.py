"""A wall clock that jumps deletes nothing for a while."""

import pytest

from fakes.world import ManualClock
from magnetar_broker.base.clock_watch import HOLD_SECONDS, ClockWatch

DAY_MS = 86_400_000


def test_ages_do_not_follow_a_jump_forward_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.advance(10)
    assert watch.now_ms() == clock.now_ms()
    clock.set_forward(DAY_MS)
    assert watch.now_ms() == clock.now_ms() - DAY_MS
    assert "the clock was set forward by 86400 seconds" in caplog.text
    clock.advance(HOLD_SECONDS - 1)
    assert watch.now_ms() == clock.now_ms() - DAY_MS
    clock.advance(1)
    assert watch.now_ms() == clock.now_ms()


def test_a_jump_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.set_forward(DAY_MS)
    for _ in range(3):
        clock.advance(10)
        assert watch.now_ms() == clock.now_ms() - DAY_MS
    assert caplog.text.count("the clock was set") == 1


def test_two_jumps_add_up() -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    for days in (1, 2):
        clock.set_forward(DAY_MS)
        assert watch.now_ms() == clock.now_ms() - days * DAY_MS


def test_a_clock_that_is_set_right_ends_the_hold(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.set_forward(DAY_MS)
    assert watch.now_ms() == clock.now_ms() - DAY_MS
    clock.set_forward(-DAY_MS)
    assert watch.now_ms() == clock.now_ms()
    assert "the clock was set back by 86400 seconds" in caplog.text


def test_small_adjustments_are_no_jumps(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    for _ in range(10):
        clock.set_forward(59_000)
        assert watch.now_ms() == clock.now_ms()
    assert caplog.text == ""
