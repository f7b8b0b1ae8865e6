"""Fixtures of the tests that talk to a running broker."""

import itertools
from collections.abc import Iterator

import pulsar
import pytest

import official
from raw_client import RawClient
from running_broker import RunningBroker

_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"persistent://public/default/topic-{next(_numbers)}"


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[pulsar.Client]:
    """An official client of the broker that all tests share."""
    connected = official.connect(broker.service_url)
    yield connected
    connected.close()


@pytest.fixture
def raw(broker: RunningBroker) -> Iterator[RawClient]:
    """A raw connection to the broker that all tests share."""
    with RawClient(broker.port) as connection:
        yield connection
