"""Silent clients: pinged, and disconnected when they do not answer."""

import asyncio

import pytest

from fakes.world import ManualClock, start
from magnetar_broker.session.liveness import Liveness


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pings = 0
        self.liveness = Liveness(self.clock, 2.0, self.ping)

    def ping(self) -> None:
        self.pings += 1


def test_a_silent_client_is_pinged_once_and_then_given_up() -> None:
    world = World()
    assert world.liveness.check() and world.pings == 1
    assert not world.liveness.check() and world.pings == 1


def test_anything_received_is_a_sign_of_life() -> None:
    world = World()
    for pings in range(1, 4):
        assert world.liveness.check() and world.pings == pings
        world.liveness.received()


def test_a_probe_is_settled_by_an_answer_by_its_time_or_by_the_end() -> None:
    world = World()
    answered = [start(world.liveness.probe()) for _ in range(2)]
    world.liveness.received()
    world.clock.pump()
    assert [one.result() for one in answered] == [True, True] and world.pings == 2
    late = start(world.liveness.probe())
    world.clock.advance(1.9)
    assert not late.done()
    world.clock.advance(0.2)
    assert late.result() is False
    world.liveness.received()
    lost = start(world.liveness.probe())
    world.liveness.end()
    world.clock.pump()
    assert lost.result() is False


def test_a_client_that_is_read_from_again_is_not_given_up_and_has_not_answered() -> None:
    world = World()
    assert world.liveness.check()
    probe = start(world.liveness.probe())
    world.liveness.resumed()
    assert world.liveness.check() and not probe.done()
    world.clock.advance(2.1)
    assert probe.result() is False


@pytest.mark.parametrize("how", ["received", "end", "too late"])
async def test_who_gives_up_a_probe_disturbs_no_other(how: str) -> None:
    world = World()
    world.clock.promise = asyncio.get_running_loop().create_future  # type: ignore[method-assign,assignment]
    gives_up, stays = (asyncio.create_task(world.liveness.probe()) for _ in range(2))
    await asyncio.sleep(0)
    gives_up.cancel()
    await asyncio.sleep(0)
    assert gives_up.cancelled() and not stays.done()
    if how == "too late":
        world.clock.advance(2.1)
    else:
        getattr(world.liveness, how)()
    assert await stays is (how == "received")
