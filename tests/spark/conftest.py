"""What tests of the connector leave in their process ends with their file."""

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from pyspark_magnetar.bridge import close_bridges


@pytest.fixture(scope="module", autouse=True)
def bridges_are_closed() -> Iterator[None]:
    """Else their threads would look for brokers that are gone while other tests run."""
    yield
    close_bridges()


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """The installed Spark under another path: executors keep logs and unpack archives in it."""
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home
