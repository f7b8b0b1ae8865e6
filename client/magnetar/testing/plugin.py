"""Fixtures for pytest, which an entry point registers."""

from collections.abc import Iterator

import pytest

from magnetar.testing import Broker


@pytest.fixture(scope="session")
def pulsar_broker() -> Iterator[Broker]:
    """Start one broker for all tests of the run; tests must use different topics."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def pulsar_url(pulsar_broker: Broker) -> str:
    """Return the service URL of `pulsar_broker`."""
    return pulsar_broker.service_url
