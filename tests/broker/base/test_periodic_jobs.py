"""Maintenance: jobs come again and again, whatever happens to a round of theirs."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from fakes.logs import LogWorld
from magnetar_broker.base.periodic_jobs import PAUSE_EVERY, PeriodicJobs, each
from magnetar_proto.names import TopicName
from magnetar_storage.errors import DiskFull


class Rounds(LogWorld):
    """An maintenance with one job, every ten seconds, whose rounds the test ends."""

    def __init__(self, seconds: float = 10) -> None:
        super().__init__()
        self.begun = self.ended = 0
        self.waits: Any = None
        self.error: Exception | None = None
        self.jobs = PeriodicJobs(self.engine)
        self.jobs.every(seconds, "counting", self.round)

    async def round(self) -> None:
        self.begun += 1
        if self.waits is not None:
            await self.waits
        if self.error is not None:
            raise self.error
        self.ended += 1


def test_a_job_is_done_every_interval_from_the_start_until_the_stop() -> None:
    world = Rounds()
    world.clock.advance(30)
    assert world.begun == 0
    world.jobs.start()
    world.clock.advance(9.9)
    assert world.begun == 0
    world.clock.advance(25)
    assert world.begun == 3
    world.jobs.stop()
    world.clock.advance(100)
    assert world.begun == 3


def test_a_job_may_come_later() -> None:
    world = Rounds()
    world.jobs.start()
    done = []

    async def work() -> None:
        done.append(world.clock.now_ms())

    world.jobs.every(1, "late", work)
    world.clock.advance(3)
    assert len(done) == 3


def test_no_interval_means_only_when_asked() -> None:
    world = Rounds(seconds=0)
    world.jobs.start()
    world.clock.advance(1000)
    assert world.begun == 0
    world.do(world.jobs.run("counting"))
    assert world.ended == 1


def test_rounds_do_not_overlap() -> None:
    world = Rounds()
    world.jobs.start()
    world.waits = world.clock.promise()
    world.clock.advance(50)
    assert world.begun == 1
    asked = world.begin(world.jobs.run("counting"))
    world.clock.pump()
    assert world.begun == 1
    assert not asked.done()
    world.waits.set_result(None)
    world.clock.pump()
    asked.result()
    assert (world.begun, world.ended) == (2, 2)
    world.clock.advance(10)
    assert world.ended == 3


def test_what_storage_refuses_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    world = Rounds()
    world.jobs.start()
    world.error = DiskFull("no room")
    world.clock.advance(10)
    assert "counting failed and will be retried" in caplog.text
    world.error = None
    world.clock.advance(10)
    assert world.ended == 1


def test_a_defect_is_reported_and_the_next_round_comes() -> None:
    world = Rounds()
    world.jobs.start()
    world.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        world.clock.advance(10)
    world.error = None
    world.clock.advance(10)
    assert world.ended == 1


def test_a_requested_round_that_fails_is_reported_to_the_caller() -> None:
    world = Rounds()
    world.error = DiskFull("no room")
    with pytest.raises(DiskFull):
        world.do(world.jobs.run("counting"))


def test_a_round_that_ends_after_the_stop_is_the_last() -> None:
    world = Rounds()
    world.jobs.start()
    world.waits = world.clock.promise()
    world.clock.advance(10)
    world.jobs.stop()
    world.waits.set_result(None)
    world.clock.advance(100)
    assert (world.begun, world.ended) == (1, 1)


@dataclass
class Named:
    name: TopicName


def test_each_topic_has_its_turn_and_others_have_theirs(caplog: pytest.LogCaptureFixture) -> None:
    world = LogWorld()
    names = [TopicName.parse(f"persistent://public/default/t{n}") for n in range(600)]
    done: list[TopicName] = []
    between: list[int] = []

    def work(topic: Named) -> Awaitable[None]:
        async def fail_or_not() -> None:
            if topic.name is names[7]:
                raise DiskFull("no room")
            if len(done) % PAUSE_EVERY == 0:
                world.clock.soon(lambda: between.append(len(done)))
            done.append(topic.name)

        return fail_or_not()

    world.do(each(world.clock, map(Named, names), work, "%s is stuck: %s"))
    assert done == [name for name in names if name is not names[7]]
    assert f"{names[7]} is stuck: no room" in caplog.text
    assert between
    assert between[0] < len(names)
