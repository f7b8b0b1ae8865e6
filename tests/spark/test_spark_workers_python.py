"""Workers that would run another Python are detected in the driver."""

import os
import sys
from pathlib import Path

import pytest

from pyspark_magnetar import use_this_python


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
