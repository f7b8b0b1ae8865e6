"""Without the packages of the extra there is one sentence with the remedy."""

import subprocess
import sys

import pytest

USES = {
    "reader": "schema()",
    "streamReader": "schema()",
    "writer": "schema(), False",
    "streamWriter": "schema(), False",
}


def last_line(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def sentence(package: str) -> str:
    return (
        f"ImportError: the Spark source and sink of Magnetar need {package}, which is not "
        "installed: run pip install 'magnetar[spark]'"
    )


def test_without_pyspark() -> None:
    script = "import sys; sys.modules['pyspark'] = None; import pyspark_magnetar"
    assert last_line(script) == sentence("pyspark")


@pytest.mark.parametrize("method", USES)
def test_without_pyarrow(method: str) -> None:
    script = (
        "import sys; import pyspark_magnetar; sys.modules['pyarrow'] = None\n"
        "place = {'service.url': 'pulsar://localhost', 'topic': 't'}\n"
        "source = pyspark_magnetar.DefaultSource(place)\n"
        f"source.{method}({USES[method].replace('schema()', 'source.schema()')})"
    )
    assert last_line(script) == sentence("pyarrow")
