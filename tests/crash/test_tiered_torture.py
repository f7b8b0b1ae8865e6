"""Nothing is lost when the broker and its store of objects are killed."""

from pathlib import Path

import pytest

import object_servers
from crash.tiered_torture import PREFIX, Torture
from effort import part_of
from object_servers import Versitygw
from running_broker import RunningBroker
from tiered_broker import at_once

if WHY := object_servers.why_no_versitygw():
    pytest.skip(WHY, allow_module_level=True)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("workers", ["1", "3"])
def test_kills_of_the_broker_and_its_store(tmp_path: Path, workers: str) -> None:
    store = Versitygw(tmp_path / "objects")
    store.start()
    broker = RunningBroker(
        tmp_path / "data", **at_once(store.endpoint, PREFIX), magnetarWorkers=workers
    )
    try:
        cycles = part_of(15)
        summary = Torture(broker.start(), store, seed=int(workers), cycles=cycles).go()
        print(summary)
        assert not summary.problems, str(summary)
        assert summary.cycles == cycles and summary.confirmed > 0 and summary.moved > 0
    finally:
        broker.close()
        store.kill()
