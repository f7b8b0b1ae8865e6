"""Fixtures of the tests that drive other official clients."""

import re
from collections.abc import Callable, Iterator

import pulsar
import pytest

import official
from clients.secured import Secured
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


@pytest.fixture(scope="module", params=["1", "3"])
def secured_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningBroker, Secured]]:
    """One with TLS and credentials, for all scenarios of a language that need it."""
    folder = tmp_path_factory.mktemp("secured")
    secured = Secured(folder)
    broker = RunningBroker(folder / "data", **secured.settings | {"magnetarWorkers": request.param})
    try:
        secured.prepare(broker.start())
        yield broker, secured
    finally:
        broker.close()
        secured.close()
    assert "Traceback" not in broker.log, broker.log
