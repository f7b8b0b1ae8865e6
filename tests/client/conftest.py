"""Fixtures of the tests of the asyncio client."""

from collections.abc import AsyncIterator, Iterator

import pulsar
import pytest

import magnetar
from fakes.client_clock import ManualClock
from frame_proxy import FrameProxy
from official import connect
from running_broker import RunningBroker


@pytest.fixture
def official(broker: RunningBroker) -> Iterator[pulsar.Client]:
    """An official client of the broker that all tests share."""
    client = connect(broker.service_url)
    yield client
    client.close()


@pytest.fixture
def clock() -> ManualClock:
    """A clock for a client; it stands still until the test moves it."""
    return ManualClock()


@pytest.fixture
async def client(broker: RunningBroker) -> AsyncIterator[magnetar.Client]:
    """An asyncio client of the broker that all tests share."""
    async with magnetar.connect(broker.service_url) as made:
        yield made


@pytest.fixture
async def proxy(broker: RunningBroker) -> AsyncIterator[FrameProxy]:
    """A proxy in front of the broker that all tests share."""
    async with FrameProxy(broker.port) as made:
        yield made
