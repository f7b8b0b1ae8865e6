"""Workers that would run another Python are detected in the driver."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_magnetar import use_this_python
from pyspark_magnetar.workers_python import check_workers_python
from running_broker import RunningBroker
from spark.source_driver import new_topic

JOB = Path(__file__).with_name("unset_python_job.py")
VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")


@pytest.fixture
def bare_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A `python3` that has no packages comes first in PATH, and nothing names another one."""
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PATH", str(bare.parent), prepend=os.pathsep)
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what a test sets ends with it
        monkeypatch.delenv(name)
    return bare


def run_job(*arguments: str) -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, str(JOB), *arguments],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_the_environment_is_set_where_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    use_this_python()


def test_another_python_is_refused_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    with pytest.raises(RuntimeError, match=f"set PYSPARK_PYTHON={sys.executable} before"):
        use_this_python()


def test_one_that_is_not_on_this_machine_is_of_the_executors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


def test_the_check_sets_what_has_the_connector(bare_python: Path) -> None:
    check_workers_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_the_check_leaves_another_python_that_has_the_connector(bare_python: Path) -> None:
    bare_python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    check_workers_python()
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_the_check_leaves_what_the_environment_names(
    bare_python: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(bare_python))
    before = dict(os.environ)
    check_workers_python()
    assert dict(os.environ) == before


def test_under_spark_submit_it_is_too_late_to_set_it(
    bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(RuntimeError, match=f"{bare_python}, which has no pyspark_magnetar: set"):
        check_workers_python()
    assert "PYSPARK_PYTHON" not in os.environ


def test_imported_before_the_session_the_connector_works(
    bare_python: Path, broker: RunningBroker
) -> None:
    found = run_job("import-first", broker.service_url, new_topic())
    assert found == {"rows": 10}


def test_imported_later_it_names_what_to_set(bare_python: Path) -> None:
    found = run_job("import-later", "pulsar://127.0.0.1:1", "any")
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: pulsar." in str(found["query"])
    assert found["import"] == (
        f"Spark's workers run {bare_python}, which has no pyspark_magnetar: "
        f"set PYSPARK_PYTHON={sys.executable} before the session starts"
    )
