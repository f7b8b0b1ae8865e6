"""The row of brokers on shared stores runs on a small load."""

from pathlib import Path

import pytest
from bench.rows import ROWS
from bench.scenarios import Trial
from bench.servers import Magnetar

from remote_data import why_not

if WHY := why_not("etcd"):
    pytest.skip(WHY, allow_module_level=True)


def test_publishing_to_shared_stores_is_measured(tmp_path: Path) -> None:
    with Magnetar(tmp_path / "data") as server:
        trial = Trial(server, "persistent://public/default/remote", 0.01, 5)
        measures = ROWS["remote"].measure(trial)
    wanted = {"msg_per_s", "local_per_s", "p50_ms", "p99_ms", "p999_ms"}
    assert wanted <= measures.keys() and all(measures[name] > 0 for name in wanted)
