"""Segments of another worker: what is asked of a process that ends is asked of its next one."""

import pytest

from fakes.links import Joined
from fakes.world import ManualClock, start
from magnetar_broker.ipc.segments import RemoteHolder
from magnetar_broker.ipc.successive import RESTART_SECONDS, SuccessiveLinks
from magnetar_storage.errors import NoSegment, ProcessUnavailable
from magnetar_storage.interfaces import Sealed

SEGMENT = 1 << 33


class World:
    """A holder, and the processes of the worker that it asks."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.links = SuccessiveLinks("worker-1", self.clock)
        self.holder = RemoteHolder(self.links)
        self.asked: list[str] = []

    def process(self, answers: bool = True) -> Joined:
        """The next process of the worker; one that does not answer ends in the middle."""
        joined = Joined(self.clock)

        async def recover(segment: int) -> tuple[int, int, int]:
            self.asked.append("recover")
            if not answers:
                await self.clock.promise()
            return (3, 4, 5)

        def delete(segment: int) -> None:
            raise NoSegment(f"there is no segment {segment}")

        joined.right.serve({"segments.recover": recover, "segments.delete": delete})
        joined.connect()
        self.links.replace(joined.left)
        return joined


def test_a_request_goes_to_the_next_process_if_the_first_one_ends() -> None:
    world = World()
    first = world.process(answers=False)
    asking = start(world.holder.recover(SEGMENT))
    world.clock.pump()
    first.cut()
    world.clock.pump()
    assert not asking.done() and world.asked == ["recover"]
    world.process()
    world.clock.pump()
    assert asking.result() == Sealed(3, 4, 5) and world.asked == ["recover"] * 2


def test_a_process_that_has_not_started_is_waited_for() -> None:
    world = World()
    asking = start(world.holder.recover(SEGMENT))
    world.clock.pump()
    assert not asking.done()
    world.process()
    world.clock.pump()
    assert asking.result() == Sealed(3, 4, 5)


def test_a_process_that_stays_away_is_given_up() -> None:
    world = World()
    asking = start(world.holder.recover(SEGMENT))
    world.clock.advance(RESTART_SECONDS + 1)
    world.clock.pump()
    with pytest.raises(ProcessUnavailable, match="worker-1 has ended and is not back"):
        asking.result()


def test_a_clock_that_is_set_does_not_end_the_wait() -> None:
    world = World()
    asking = start(world.holder.recover(SEGMENT))
    world.clock.pump()
    world.clock.set_forward(int(RESTART_SECONDS * 1000) + 1)
    ended = Joined(world.clock)
    ended.connect()
    ended.cut()
    world.clock.pump()
    world.links.replace(ended.left)  # the wait goes on, for the time that is left
    world.clock.pump()
    assert not asking.done()
    world.process()
    world.clock.pump()
    assert asking.result() == Sealed(3, 4, 5)


def test_a_stop_ends_the_wait() -> None:
    world = World()
    asking = start(world.holder.recover(SEGMENT))
    world.clock.pump()
    world.links.close()
    world.clock.pump()
    with pytest.raises(ProcessUnavailable):
        asking.result()


def test_a_refusal_of_a_living_process_is_the_answer() -> None:
    world = World()
    world.process()
    asking = start(world.holder.delete(SEGMENT))
    world.clock.pump()
    with pytest.raises(NoSegment, match="there is no segment"):
        asking.result()
