"""When leases are renewed, and when they may have ended."""

import pytest

from fakes.world import ManualClock, run
from magnetar_broker.server.metadata_stores.lease_times import LeaseTimes, keep
from magnetar_storage.errors import Unavailable

TTL = 12.0
DEADLINE = 10.0


class Owner:
    """The owner of a lease, whose renewals take `answers` in turn: seconds, and the outcome."""

    def __init__(self, *answers: tuple[float, bool | None]) -> None:
        self.clock = ManualClock(0)
        self.sent: list[float] = []
        self.deadlines: list[float] = []
        self._answers = list(answers)

    async def renew(self) -> bool:
        self.sent.append(self.clock.uptime())
        seconds, exists = self._answers.pop(0) if self._answers else (0, None)
        self.clock.advance(seconds)
        if exists is None:
            raise Unavailable("no answer")
        return exists

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.clock.advance(seconds)

    def keep(self) -> float:
        """Keep the lease until it is lost; return when."""
        times = LeaseTimes(TTL, self.clock.uptime())
        uptime, renewed = self.clock.uptime, self.deadlines.append
        run(keep(times, self.renew, uptime, self.sleep, renewed), self.clock)
        return self.clock.uptime()


def test_a_lease_is_renewed_four_times_in_its_time_to_live() -> None:
    owner = Owner(*[(0, True)] * 4, (0, False))
    assert owner.keep() == 15
    assert owner.sent == [3, 6, 9, 12, 15]
    assert owner.deadlines == [13, 16, 19, 22]


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    owner = Owner((2, True), (0, False))
    owner.keep()
    assert owner.sent == [3, 6]
    assert owner.deadlines == [3 + DEADLINE]


def test_without_answers_it_is_lost_at_its_deadline_and_not_before() -> None:
    owner = Owner()
    assert owner.keep() == pytest.approx(DEADLINE)
    assert owner.sent == pytest.approx([3 + 0.75 * number for number in range(10)])


def test_one_answer_is_enough() -> None:
    owner = Owner((0, None), (0, None), (0, True))
    assert owner.keep() == pytest.approx(4.5 + DEADLINE)
    assert owner.deadlines == pytest.approx([4.5 + DEADLINE])


def test_an_answer_after_the_deadline_does_not_count() -> None:
    owner = Owner((7, True))
    assert owner.keep() == DEADLINE
    assert owner.deadlines == []


def test_a_process_that_was_stopped_has_lost_its_lease() -> None:
    owner = Owner()
    times = LeaseTimes(TTL, owner.clock.uptime())
    owner.clock.advance(60)
    assert times.has_ended(owner.clock.uptime())
    run(
        keep(times, owner.renew, owner.clock.uptime, owner.sleep, owner.deadlines.append),
        owner.clock,
    )
    assert owner.sent == []
