"""The fixture of supervisors."""

from collections.abc import Iterator

import pytest

from broker.server.supervision.supervising import Supervise, Supervised


@pytest.fixture
def supervise() -> Iterator[Supervise]:
    started: list[Supervised] = []

    def start(
        *behaviours: str, workers: int = 2, stop_seconds: float = 60, silence_seconds: float = 3600
    ) -> Supervised:
        started.append(Supervised(workers, stop_seconds, silence_seconds, list(behaviours)))
        return started[-1]

    yield start
    for supervised in started:
        supervised.close()
