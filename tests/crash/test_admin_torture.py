"""What was answered holds when the broker is killed; what was not is done or not, but wholly."""

from collections.abc import Callable

import pytest

from crash.admin_torture import SETTINGS, AdminTorture
from effort import part_of
from running_broker import RunningBroker

CYCLES = part_of(30)


@pytest.mark.timeout(3600)
def test_kill_9_while_everything_changes(make_broker: Callable[..., RunningBroker]) -> None:
    summary = AdminTorture(make_broker(**SETTINGS), seed=6, cycles=CYCLES).go()
    print(summary)
    assert not summary.problems, str(summary)
    assert summary.kills.total() >= CYCLES and summary.torn > 0
    assert {"delete", "compact", "register", "truncate", "ack", "grow"} <= summary.done.keys()


@pytest.mark.timeout(3600)
def test_kill_9_of_processes_while_everything_changes(
    make_broker: Callable[..., RunningBroker],
) -> None:
    """One worker, the controller, the supervisor or all, and other numbers of workers."""
    broker = make_broker(**SETTINGS, magnetarWorkers="3")
    summary = AdminTorture(broker, seed=7, cycles=CYCLES, workers=3).go()
    print(summary)
    assert not summary.problems, str(summary)
    assert summary.kills.total() >= CYCLES and summary.torn > 0
