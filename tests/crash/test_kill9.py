"""Nothing that was promised is lost when the broker is killed."""

from collections.abc import Callable

import pytest

from crash.torture import SETTINGS, Torture
from effort import part_of
from running_broker import RunningBroker


@pytest.mark.timeout(0)
def test_kill_9_under_load(
    make_broker: Callable[..., RunningBroker], request: pytest.FixtureRequest
) -> None:
    cycles = request.config.getoption("--cycles") or part_of(25, least=3)
    summary = Torture(make_broker(**SETTINGS), seed=0, cycles=cycles).go()
    print(summary)
    report = summary.report
    assert not report.problems, str(summary)
    assert report.acks_tested > 0 and report.receipts > 0 and summary.kills.total() >= cycles
    assert report.counts_tested > 0 and report.subscriptions_deleted > 0


@pytest.mark.timeout(0)
def test_kill_9_of_processes_of_a_broker(make_broker: Callable[..., RunningBroker]) -> None:
    """One worker, the controller, the supervisor or all, and other numbers of workers."""
    cycles = part_of(25, least=3)
    broker = make_broker(**SETTINGS, magnetarWorkers="3")
    summary = Torture(broker, seed=1, cycles=cycles, workers=3).go()
    print(summary)
    report = summary.report
    assert not report.problems, str(summary)
    assert report.acks_tested > 0 and report.receipts > 0 and summary.kills.total() >= cycles
