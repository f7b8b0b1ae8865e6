"""Fixtures of the tests of the asyncio client."""

from collections.abc import Iterator

import pulsar
import pytest

from official import connect
from running_broker import RunningBroker


@pytest.fixture
def official(broker: RunningBroker) -> Iterator[pulsar.Client]:
    """An official client of the broker that all tests share."""
    client = connect(broker.service_url)
    yield client
    client.close()
