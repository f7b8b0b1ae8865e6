"""Fixtures of pytest; an entry point has pytest load them."""

from collections.abc import Iterator

import pytest

from magnetar.testing import Broker


@pytest.fixture(scope="session")
def pulsar_broker() -> Iterator[Broker]:
    """One broker for all tests of the run; tests use topics of their own."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def pulsar_url(pulsar_broker: Broker) -> str:
    """The service URL of `pulsar_broker`."""
    return pulsar_broker.service_url
