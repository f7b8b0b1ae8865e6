"""Official clients that publish and receive while their topic moves between workers.

The scenarios for the other languages are `Moves.java` and `moves_test.go`.
"""

from collections.abc import Callable, Iterator

import pulsar
import pytest

from admin_http import Admin
from clients.traffic import undisturbed
from moving import move, owner_of
from running_broker import RunningBroker
from tap import Tap

MOVES = 10
WORKERS = 3


@pytest.fixture(params=["false", "true"], ids=["as sent", "deduplicated"])
def broker(
    make_broker: Callable[..., RunningBroker], request: pytest.FixtureRequest
) -> RunningBroker:
    return make_broker(magnetarWorkers=str(WORKERS), brokerDeduplicationEnabled=request.param)


@pytest.fixture
def tap(broker: RunningBroker) -> Iterator[Tap]:
    made = Tap(broker.port)
    yield made
    made.close()


@pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared], ids=lambda kind: kind.name
)
def test_nothing_is_lost_doubled_or_reordered_and_nothing_looked_up(
    broker: RunningBroker, tap: Tap, topic: str, kind: pulsar.ConsumerType
) -> None:
    with undisturbed(tap.service_url, topic, kind) as traffic:
        lookups = tap.lookups
        home = owner_of(broker.port, topic)
        for number in range(1, MOVES + 1):
            away = (home + number % 2) % WORKERS
            move(broker, topic, away)
            assert owner_of(broker.port, topic) == away
            traffic.await_more()  # of the new owner
        assert tap.lookups == lookups


def test_connections_outlive_moves_and_unloads(broker: RunningBroker, tap: Tap, topic: str) -> None:
    path = topic.replace("://", "/")
    with undisturbed(tap.service_url, topic) as traffic:
        for worker in range(WORKERS):  # to each of which the clients connect
            move(broker, topic, worker)
            traffic.await_more()
        connections = tap.connections
        for number in range(MOVES):
            move(broker, topic, number % WORKERS)
            assert Admin(broker).put(f"{path}/unload").status == 204
            traffic.await_more()
        assert tap.connections == connections
