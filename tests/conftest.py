"""Fixtures for all tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from running_broker import RunningBroker

# Nothing is said about durations: machines differ, and so do their hours.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# For who asks whether a test fails, and not by how little.
settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.reuse, Phase.generate])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cycles", type=int, default=25, help="how many times tests/crash kills the broker"
    )


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One real daemon for the whole run; tests use topics of their own and leave it running."""
    data = tmp_path_factory.mktemp("broker") / "data"
    running = RunningBroker(data, activeConsumerFailoverDelayTimeMillis="0").start()
    yield running
    running.close()


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Daemons of one test, each with settings of its own, to be stopped and killed at will."""
    made: list[RunningBroker] = []

    def make(**settings: str) -> RunningBroker:
        made.append(RunningBroker(tmp_path / f"data{len(made)}", **settings))
        return made[-1].start()

    yield make
    for running in made:
        running.close()
