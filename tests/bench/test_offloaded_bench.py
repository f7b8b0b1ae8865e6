"""The row that reads offloaded ledgers runs."""

from pathlib import Path

import pytest
from bench.rows import ROWS
from bench.scenarios import Trial
from bench.servers import SERVERS

import object_servers

TOPIC = "persistent://public/default/t"
TINY = 0.02
SECONDS = 60.0

if WHY := object_servers.why_no_versitygw():
    pytest.skip(WHY, allow_module_level=True)


def test_the_row_of_offloaded_ledgers_measures(tmp_path: Path) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        measures = ROWS["offloaded"].measure(Trial(server, TOPIC, TINY, SECONDS))
    wanted = {"msg_per_s", "local_per_s", "cold_gb_per_s", "requests_per_gb"}
    assert measures.keys() >= wanted
    assert all(measures[key] > 0 for key in wanted)
