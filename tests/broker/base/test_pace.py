"""Slices of long work: how many pauses there are, and how long they last together."""

import asyncio

import pytest

from magnetar_broker.base.pace import LEAST_SECONDS, MOST_SECONDS, Slices

PIECE_SECONDS = LEAST_SECONDS / 8
PIECES = 1600
WORK_SECONDS = PIECES * PIECE_SECONDS


class Work:
    """Pieces of work, with pauses of a given length, at a time that passes with both."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._now = self._since = 0.0
        self.pauses = 0
        self.longest = 0.0
        """Of the slices."""

    async def do(self) -> None:
        slices = Slices(self._pause, lambda: self._now)
        for _ in range(PIECES):
            self._now += PIECE_SECONDS
            before = self.pauses
            assert await slices.after() == (self.pauses > before)

    async def _pause(self) -> None:
        self.pauses += 1
        self.longest = max(self.longest, self._now - self._since)
        self._now += self._pause_seconds
        self._since = self._now


def worked(pause_seconds: float) -> Work:
    work = Work(pause_seconds)
    asyncio.run(work.do())
    return work


def test_slices_are_short_where_pauses_are_short() -> None:
    work = worked(LEAST_SECONDS / 4)
    assert work.longest == pytest.approx(LEAST_SECONDS, abs=PIECE_SECONDS)
    assert work.pauses <= WORK_SECONDS / LEAST_SECONDS


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_pauses_take_no_longer_than_the_work(share: float) -> None:
    seconds = MOST_SECONDS * share
    work = worked(seconds)
    assert work.pauses * seconds <= WORK_SECONDS + seconds
    assert work.longest <= MOST_SECONDS + PIECE_SECONDS


def test_the_loop_has_its_turns_however_long_a_pause_takes() -> None:
    work = worked(MOST_SECONDS * 20)
    assert work.longest == pytest.approx(MOST_SECONDS, abs=PIECE_SECONDS)
    assert work.pauses <= WORK_SECONDS / MOST_SECONDS + 1
