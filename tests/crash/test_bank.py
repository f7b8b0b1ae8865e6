"""Transactions are atomic over topics, subscriptions, processes and kills."""

import asyncio
from collections.abc import Callable

import pytest

from crash.bank import Bank
from effort import part_of
from running_broker import RunningBroker


@pytest.mark.timeout(0)
@pytest.mark.parametrize("workers", ["1", "3"])
def test_no_money_appears_or_goes(make_broker: Callable[..., RunningBroker], workers: str) -> None:
    kills = part_of(15, least=1)
    broker = make_broker(magnetarWorkers=workers)
    report = asyncio.run(Bank(broker, 0, 200, kills).go())
    print(report)
    assert not report.problems, str(report)
    assert report.transfers == 200 and report.kills == kills and report.snapshots > 0
    assert report.outcomes["committed"] > 0 and report.outcomes["aborted"] > 0
