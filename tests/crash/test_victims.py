"""How a broker comes back whose supervisor was killed: its other processes are still ending."""

import random
from typing import cast

import pytest

from crash.lives import WorkersLives
from crash.victims import Processes, Supervisor, Trouble
from running_broker import RunningBroker

REFUSAL = "Error: /data is in use by process 7: stop it first\n"
FORMER = "ERROR worker-0 topics: 2 topics could not be sealed: the link to the controller has ended"


class Starts:
    """A broker: what the log has of each attempt to start it that fails, before it starts."""

    def __init__(self, *logs: str) -> None:
        self.log_of_start = ""
        self._logs = list(logs)

    def try_start(self) -> bool:
        if not self._logs:
            return True
        self.log_of_start = self._logs.pop(0)
        return False


def supervisor(*logs: str) -> Supervisor:
    """One that was killed; of the others no process is left."""
    broker = cast(RunningBroker, Starts(*logs))
    victim = Supervisor(broker, WorkersLives(2), random.Random(1))
    victim._others = Processes([])
    return victim


@pytest.mark.parametrize("log", [REFUSAL, FORMER + "\n" + REFUSAL, REFUSAL + FORMER])
def test_a_start_is_tried_again_until_the_former_broker_has_ended(log: str) -> None:
    victim = supervisor(log, log)
    victim.recover()
    assert all(lives.life is not None for lives in victim.lives.all())


def test_any_other_reason_not_to_start_is_trouble() -> None:
    with pytest.raises(Trouble, match="no room"):
        supervisor(REFUSAL, f"{FORMER}\nError: no room\n").recover()
