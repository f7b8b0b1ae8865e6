"""Fixtures of the tests that drive other official clients."""

import re
from collections.abc import Callable, Iterator

import pulsar
import pytest

import official
from clients.stage import Stage
from running_broker import RunningBroker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    return f"persistent://public/default/{name}"


@pytest.fixture
def stage(broker: RunningBroker, make_broker: Callable[..., RunningBroker], topic: str) -> Stage:
    """What a scenario of another client plays on."""
    return Stage(broker, make_broker, topic)


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[pulsar.Client]:
    """An official client of the broker that all tests share."""
    connected = official.connect(broker.service_url)
    yield connected
    connected.close()
