"""Nothing is lost when brokers on shared stores, and the stores, are killed."""

from pathlib import Path

import pytest

from crash.takeover_torture import Torture
from effort import part_of
from remote_data import ENGINES, running_stores


@pytest.mark.timeout(0)
@pytest.mark.parametrize("engine", ENGINES)
def test_kills_of_brokers_and_stores(tmp_path: Path, engine: str) -> None:
    with running_stores(tmp_path, engine) as stores:
        cycles = part_of(8)
        summary = Torture(tmp_path, stores, seed=1, cycles=cycles).go()
        print(summary)
        assert not summary.problems, str(summary)
        assert summary.cycles == cycles and summary.confirmed > 0
