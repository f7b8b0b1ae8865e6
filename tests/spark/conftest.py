"""What tests of the connector leave in their process ends with their file."""

from collections.abc import Iterator

import pytest

from pyspark_magnetar.bridge import close_bridges


@pytest.fixture(scope="module", autouse=True)
def bridges_are_closed() -> Iterator[None]:
    """Else their threads would look for brokers that are gone while other tests run."""
    yield
    close_bridges()
