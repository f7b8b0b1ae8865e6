"""The Spark rows run their jobs, with the connector that speaks to the server."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.lineup import SERVERS
from bench.outcome import Results
from bench.rows import ROWS
from bench.scenarios import Trial
from bench.spark import connector_of, fill
from bench.spark_connectors import CONNECTORS, KAFKA, MAGNETAR
from bench.table import table
from bench.usage import PerProcess, is_python

TOPIC = "persistent://public/default/t"
TINY = 0.001
SECONDS = 1.0
MEASURES = {
    "spark-read": {
        "msg_per_s",
        "all_columns_per_s",
        "one_batch_per_s",
        "one_batch_all_per_s",
    },
    "spark-write": {"msg_per_s", "all_columns_per_s", "dedup_per_s", "transaction_per_s"},
    "spark-idle": {"batch_ms", "planned_ms", "read_ms", "source_ms"},
}


@pytest.mark.parametrize("key", MEASURES)
def test_a_row_of_spark_measures(key: str, tmp_path: Path) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        measures = ROWS[key].measure(Trial(server, TOPIC, TINY, SECONDS))
    assert all(measures[name] > 0 for name in MEASURES[key])
    if key == "spark-idle":
        assert measures["source_ms"] == measures["planned_ms"] + measures["read_ms"]
        assert measures["query_percent"] >= measures["query_python_percent"] >= 0
        assert measures["idle_percent"] >= 0


def test_a_job_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SERVERS["magnetar"](tmp_path / "data") as server:
        monkeypatch.setattr(sys, "executable", "false")
        trial = Trial(server, TOPIC, TINY, SECONDS)
        with pytest.raises(RuntimeError, match=r"spark_read_job failed: .* status 1"):
            ROWS["spark-read"].measure(trial)
        with pytest.raises(RuntimeError, match="spark_idle_job ended before"):
            ROWS["spark-idle"].measure(trial)


def test_a_topic_is_filled_with_what_is_asked_for(tmp_path: Path) -> None:
    with SERVERS["floor"](tmp_path / "data") as server:
        trial = Trial(server, TOPIC, TINY, 60.0)
        shape: Any = ROWS["spark-read"].measure.keywords["shape"]  # type: ignore[attr-defined]
        assert fill(trial, TOPIC, shape, 0) == 0
        assert fill(trial, TOPIC, shape, 7) == 7


@pytest.mark.parametrize(
    ("name", "connector"),
    [("magnetar", MAGNETAR), ("compiled", MAGNETAR), ("kafka-flush", KAFKA), ("kafka", KAFKA)],
)
def test_a_server_has_the_connector_of_its_protocol(
    name: str, connector: object, tmp_path: Path
) -> None:
    trial = Trial(SERVERS[name](tmp_path / "data"), TOPIC, TINY, SECONDS)
    assert connector_of(trial) is connector


def test_both_connectors_have_the_kinds_that_are_compared() -> None:
    for connector in CONNECTORS.values():
        assert connector.reads.keys() >= {"value", "all"}
        assert connector.writes.keys() >= {"value", "all"}
        assert connector.writes["value"] == MAGNETAR.writes["value"]
    assert KAFKA.source(9, "t") == {
        "kafka.bootstrap.servers": "127.0.0.1:9",
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    assert MAGNETAR.sink(9, "t") == {"service.url": "pulsar://127.0.0.1:9", "topic": "t"}


def test_all_kinds_of_both_sides_are_compared_in_the_table() -> None:
    made = Results({}, 1, 1.0)
    made.add("spark-read", "magnetar", {"msg_per_s": 30.0, "all_columns_per_s": 20.0})
    made.add("spark-read", "kafka", {"msg_per_s": 20.0, "all_columns_per_s": 40.0})
    made.add("spark-idle", "magnetar", {"query_percent": 1.0, "read_ms": 5.0})
    made.add("spark-idle", "kafka", {"query_percent": 4.0})
    read, idle = (line for line in table(made).splitlines() if "/ Kafka" in line)
    assert re.split(r"  +", read.strip()) == ["/ Kafka", "1.50x", "with all columns rows/s 0.50x"]
    assert re.split(r"  +", idle.strip()) == ["/ Kafka", "CPU % of the idle query 0.25x"]


SPINNING = "while True: pass"


def test_the_cpu_of_processes_is_counted_by_kind() -> None:
    with subprocess.Popen([sys.executable, "-c", SPINNING]) as process:
        try:
            used = PerProcess(process.pid)
            while used.percent() == 0:
                pass
            assert used.percent(is_python) > 0
            assert used.percent(lambda one: not is_python(one)) == 0
        finally:
            process.kill()
