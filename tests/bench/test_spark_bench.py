"""The Spark rows run their job, and a job that fails is told."""

import sys
from pathlib import Path

import pytest
from bench.rows import ROWS
from bench.scenarios import Trial
from bench.servers import SERVERS

TOPIC = "persistent://public/default/t"
TINY = 0.001
SECONDS = 60.0
"""A topic is filled in three times as long: even a machine that stalls stores all of it."""
MEASURES = {
    "spark-read": {"msg_per_s", "all_columns_per_s"},
    "spark-write": {"msg_per_s", "all_columns_per_s", "dedup_per_s", "transaction_per_s"},
}


@pytest.mark.parametrize("key", MEASURES)
def test_a_row_of_spark_measures(key: str, tmp_path: Path) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        measures = ROWS[key].measure(Trial(server, TOPIC, TINY, SECONDS))
    assert measures.keys() == MEASURES[key]
    assert all(rate > 0 for rate in measures.values())


def test_a_job_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        monkeypatch.setattr(sys, "executable", "false")
        trial = Trial(server, TOPIC, TINY, SECONDS)
        with pytest.raises(RuntimeError, match=r"the Spark job failed: .* status 1"):
            ROWS["spark-read"].measure(trial)
