"""Who waits for a rate that several share."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from fakes.connection import RecordingConnection
from fakes.world import ManualClock
from magnetar_broker.throttling.rate_limit import TICK_MS, Rate, RateLimit, throttle


class Taker:
    """Wants more all the time, so much at once, whenever its turn has come."""

    def __init__(self, limit: RateLimit, amount: int) -> None:
        self.limit = limit
        self.amount = amount
        self.turns = 0

    def go(self) -> None:
        while self.limit.admits(self):
            self.limit.take(self.amount, 0)
            self.turns += 1
        self.limit.wait(self, self.go)


@given(
    rate=st.integers(1, 500),
    amounts=st.lists(st.integers(1, 300), min_size=2, max_size=5),
    seconds=st.integers(20, 60),
)
def test_no_waiter_starves_and_the_rate_holds(rate: int, amounts: list[int], seconds: int) -> None:
    clock = ManualClock()
    limit = RateLimit("topic", Rate(rate, 0), clock)
    takers = [Taker(limit, amount) for amount in amounts]
    for taker in takers:
        taker.go()
    begun = [taker.turns for taker in takers]
    clock.advance(seconds)
    taken = sum(taker.turns * taker.amount for taker in takers)
    assert taken <= rate * (seconds + 1) + max(amounts)
    assert taken >= rate * (seconds + 1 - 2 * TICK_MS / 1000) - 1, "nothing is lost by waiting"
    round_of_all = sum(amounts) / rate
    if seconds > 3 * round_of_all + 3:
        assert all(taker.turns > before for taker, before in zip(takers, begun, strict=True))


def test_waiters_are_served_in_order() -> None:
    clock = ManualClock()
    limit = RateLimit("topic", Rate(10, 0), clock)
    limit.take(20, 0)
    order: list[str] = []

    def taking(name: str) -> Callable[[], None]:
        def go() -> None:
            order.append(name)
            limit.take(5, 0)

        return go

    for name in ("a", "b", "a"):
        limit.wait(name, taking(name))
    assert not limit.admits("c")
    clock.advance(1.5)
    assert order == ["a"]
    assert not limit.admits("c"), "b waits"
    clock.advance(0.5)
    assert order == ["a", "b"]
    assert limit.waits == 2


def test_a_newcomer_does_not_overtake_a_waiter() -> None:
    clock = ManualClock()
    limit = RateLimit("topic", Rate(1000, 0), clock)
    limit.take(1000, 0)
    gone: list[str] = []
    limit.wait("a", lambda: gone.append("a"))
    clock.advance(TICK_MS / 2000)
    assert (limit.wait_ms, gone) == (0, [])
    assert not limit.admits("b")
    clock.advance(TICK_MS / 2000)
    assert gone == ["a"]
    assert limit.admits("b")


def test_a_limit_that_holds_no_longer_lets_all_go() -> None:
    clock = ManualClock()
    limit = RateLimit("topic", Rate(1, 0), clock)
    limit.take(1000, 0)
    gone: list[str] = []
    limit.wait("a", lambda: gone.append("a"))
    limit.wait("b", lambda: gone.append("b"))
    limit.release_all()
    assert gone == ["a", "b"]
    clock.advance(5000)
    assert gone == ["a", "b"]


def test_a_connection_is_held_once_by_each_limit_until_its_debt_is_paid() -> None:
    clock = ManualClock()
    topic = RateLimit("topic", Rate(10, 0), clock)
    broker = RateLimit("broker", Rate(0, 100), clock)
    connection = RecordingConnection()
    throttle(connection, 5, 50, (topic, broker))
    assert connection.holds == 0
    throttle(connection, 10, 200, (topic, broker))
    assert connection.holds == 2
    throttle(connection, 1, 10, (topic, broker))
    assert connection.holds == 2, "it waits already"
    clock.advance(1)
    assert connection.holds == 1, "the debt of messages is paid"
    clock.advance(1)
    assert connection.holds == 0
