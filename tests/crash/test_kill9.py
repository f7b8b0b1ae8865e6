"""Nothing that was promised is lost when the broker is killed."""

from collections.abc import Callable

import pytest

from crash.torture import Torture
from running_broker import RunningBroker


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_kill_9_under_load(
    make_broker: Callable[..., RunningBroker], request: pytest.FixtureRequest
) -> None:
    report = Torture(make_broker(), seed=0).go(request.config.getoption("--cycles"))
    print(report)
    assert not report.problems, str(report)
    assert report.acks_tested > 0 and report.receipts == report.sent
