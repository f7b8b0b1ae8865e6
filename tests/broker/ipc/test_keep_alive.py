"""Peers that are gone without a sign, and pauses between attempts to reach them again."""

from collections.abc import Callable
from typing import Any

from fakes.links import Joined
from magnetar_broker.ipc.backoff import Backoff
from magnetar_broker.ipc.keep_alive import INTERVAL_SECONDS, SILENCES, KeepAlive


class Watched:
    """A link of which both sides are watched; what arrives is noted as a wire does."""

    def __init__(self) -> None:
        self.pair = Joined()
        self.gone: list[str] = []
        self.left = KeepAlive(self.pair.left, self.pair.clock, lambda: self.gone.append("right"))
        self.right = KeepAlive(self.pair.right, self.pair.clock, lambda: self.gone.append("left"))
        for link, watch in ((self.pair.left, self.left), (self.pair.right, self.right)):
            link.receive = noted(link.receive, watch)  # type: ignore[assignment, method-assign]
        self.pair.connect()
        self.left.start()
        self.right.start()

    def pass_time(self, intervals: int) -> None:
        for _ in range(intervals):
            self.pair.clock.advance(INTERVAL_SECONDS)
            self.pair.clock.pump()


def noted(receive: Callable[[Any], None], watch: KeepAlive) -> Callable[[Any], None]:
    def receiving(data: Any) -> None:
        watch.heard()
        receive(data)

    return receiving


def test_an_idle_link_stays() -> None:
    watched = Watched()
    watched.pass_time(50)
    assert not watched.gone and not watched.pair.left.has_ended


def test_a_peer_that_is_silent_is_gone() -> None:
    watched = Watched()
    watched.pass_time(2)
    watched.pair.to_left.held = True  # in one direction only
    watched.pass_time(SILENCES)
    assert not watched.gone
    watched.pass_time(1)
    assert watched.gone == ["right"]
    watched.pass_time(10)
    assert watched.gone.count("right") == 1


def test_anything_that_arrives_is_a_sign_of_life() -> None:
    watched = Watched()
    watched.pair.to_left.held = True
    for _ in range(20):
        watched.pass_time(1)
        watched.left.heard()
    assert not watched.gone


def test_the_watch_ends_with_the_link() -> None:
    watched = Watched()
    watched.pass_time(1)
    watched.pair.cut()
    watched.pass_time(2 * SILENCES)
    assert not watched.gone


def test_the_watch_of_a_link_that_has_ended_already_does_not_begin() -> None:
    pair, gone = Joined(), list[str]()
    watch = KeepAlive(pair.left, pair.clock, lambda: gone.append("right"))
    pair.left.close()
    watch.start()
    for _ in range(2 * SILENCES):
        pair.clock.advance(INTERVAL_SECONDS)
    assert not gone


def test_pauses_double_up_to_a_limit_and_begin_again() -> None:
    backoff = Backoff()
    assert [backoff.pause() for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    backoff.succeeded()
    assert backoff.pause() == 0.1
