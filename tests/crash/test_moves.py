"""Moves that hang or are refused are reported, whatever is killed meanwhile."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin_http import Answer
from crash import moves
from crash.lives import BUNDLES, WorkersLives
from crash.moves import Mover, MoveReport
from crash.victims import Trouble, Worker
from running_broker import RunningBroker

SECONDS = 60.0


class Controller:
    """What the mover asks, with answers that the test gives."""

    def __init__(self) -> None:
        self._given = threading.Event()
        self._answer: Answer | None = None

    def answer(self, answer: Answer | None) -> None:
        """To all moves from now on, also to one under way; None: their clients give up."""
        self._answer = answer
        self._given.set()

    def put(self, path: str) -> Answer:
        assert self._given.wait(SECONDS)
        if self._answer is None:
            raise TimeoutError("timed out")
        return self._answer


class World:
    """A mover with a move under way, and one of the owners killed."""

    def __init__(self, directory: Path, controller: Controller) -> None:
        self.controller = controller
        self.lives = WorkersLives(2)
        self.alarms: list[str] = []
        broker = RunningBroker(directory)
        self.mover = Mover(broker, self.lives, 0, self.alarms.append)
        self.mover.go_on()
        assert self.mover.await_move(SECONDS) is not None
        self.mover.strikes(Worker(broker, self.lives, random.Random(0)))

    @property
    def moving(self) -> bool:
        return any(one.moving for one in self.lives.all())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    controller = Controller()
    monkeypatch.setattr(moves, "Admin", lambda broker: controller)
    monkeypatch.setattr(moves, "owners_of_probes", lambda broker: [0] * BUNDLES)
    made = World(tmp_path, controller)
    yield made
    controller.answer(Answer(503, b""))
    made.mover.end()


def test_a_move_that_hangs_is_reported_though_a_process_was_killed(world: World) -> None:
    assert world.moving
    world.controller.answer(None)
    world.mover.rest()
    assert world.alarms and "it is not answered" in world.alarms[0]
    assert not world.moving


@pytest.mark.parametrize(
    ("status", "alarms"), [(412, True), (409, True), (500, True), (503, False)]
)
def test_only_a_process_that_is_not_ready_explains_a_refusal(
    world: World, status: int, alarms: bool
) -> None:
    world.controller.answer(Answer(status, b"why"))
    world.mover.rest()
    assert any(f"answered with {status}" in alarm for alarm in world.alarms) is alarms
    assert bool(world.alarms) is alarms
    assert world.mover.report.failed > 0 and not world.moving


def test_a_move_that_is_not_over_is_no_rest_and_no_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patience:
        patience.setattr(moves, "END_SECONDS", 0.01)
        with pytest.raises(Trouble, match="is not over"):
            world.mover.rest()
        with pytest.raises(Trouble, match="is not over"):
            world.mover.end()
    world.controller.answer(None)
    world.mover.rest()
    assert not world.moving


def test_a_run_without_a_successful_move_failed() -> None:
    report = MoveReport(failed=3, hit=Counter({"the new owner": 2}))
    assert report.problems() == ["no bundle was moved"]
    report.answered, report.seconds = 1, [0.25]
    assert not report.problems()
    assert str(report) == (
        "1 moves of bundles were answered after 250 ms (median), 3 failed because a process "
        "ended; 2 were hit by a kill, 2 of the new owner"
    )
