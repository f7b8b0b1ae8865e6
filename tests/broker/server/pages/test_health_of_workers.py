"""The health check of a broker of several processes, and of one of its workers."""

from collections.abc import Coroutine
from typing import Any, cast

import pytest

from fakes.rest_world import BROKERS, World, handler_of, used
from fakes.world import start
from magnetar_broker.config import Settings
from magnetar_broker.placement.bundle_splits import POSITIONS
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.pages.linked_health import ANSWER_SECONDS
from magnetar_storage.errors import Unavailable

SYSTEM = "/admin/v2/namespaces/pulsar/system"


def test_one_worker_may_be_healthy_while_another_is_not_there() -> None:
    world = used(3)
    assert world.processes is not None
    world.processes.workers[1].joined.cut()
    healthy = [
        world.ask(f"GET {BROKERS}/health?brokerId=worker-{number}:8080").status
        for number in range(3)
    ]
    assert healthy == [200, 503, 200]
    assert world.ask(f"GET {BROKERS}/health").status == 503


def test_an_unhealthy_worker_is_named() -> None:
    world = World(3)
    assert world.processes is not None
    assert world.ask("GET /admin/v2/brokers/health").status == 200
    world.engine.store.trouble = Unavailable("the journal failed")  # type: ignore[misc]
    found = world.ask("GET /admin/v2/brokers/health")
    assert (found.status, b"the journal failed" in found.body) == (503, True)


def test_a_worker_that_does_not_answer_is_unhealthy() -> None:
    world = World(3)
    assert world.processes is not None
    world.processes.workers[1].joined.to_right.held = True
    route, _ = ROUTES.find("GET", "/admin/v2/brokers/health")
    answering = handler_of(route)(world.context, Request("GET", "", {}, {}, b"", 8080))
    asked = start(cast(Coroutine[Any, Any, Response], answering))
    world.clock.pump()
    assert not asked.done()
    world.clock.advance(ANSWER_SECONDS)
    answer = asked.result()
    assert answer.status == 503
    assert b"worker-1 has not answered" in answer.body


@pytest.mark.parametrize("workers", [2, 3])
def test_every_worker_checks_a_topic_that_it_serves(workers: int) -> None:
    world = World(workers)
    assert world.processes is not None
    assert world.ask("GET /admin/v2/brokers/health").status == 200
    for number, worker in enumerate(world.processes.workers):
        (topic,) = worker.broker.topics
        assert topic.name.is_system
        assert world.processes.number_of(topic.name) == number


def silent_checks(caplog: pytest.LogCaptureFixture) -> int:
    """Return how often a worker has logged that its health checks send no message."""
    return sum("send no message" in record.message for record in caplog.records)


def workers_with_topics(world: World) -> list[int]:
    """Return the workers that have a topic after a successful check."""
    assert world.processes is not None
    assert world.ask(f"GET {BROKERS}/health").body == b"ok"
    return [one.number for one in world.processes.workers if len(one.broker.topics)]


def test_a_worker_that_serves_no_topic_for_the_check_logs_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3, Settings(default_number_of_namespace_bundles=1))
    [owner] = workers_with_topics(world)
    assert silent_checks(caplog) == 2
    assert workers_with_topics(world) == [owner]
    assert silent_checks(caplog) == 2, "each has logged it once"
    other = (owner + 1) % 3
    move = f"PUT {SYSTEM}/0x00000000_0xffffffff/unload?destinationBroker"
    assert world.ask(f"{move}=worker-{other}").status == 204
    assert workers_with_topics(world) == [other]
    assert silent_checks(caplog) == 3
    assert world.ask(f"{move}=worker-{owner}").status == 204
    assert workers_with_topics(world) == [owner]
    assert silent_checks(caplog) == 4, "it had a topic meanwhile"


def test_a_worker_with_a_small_part_may_serve_no_topic_for_the_check(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(2, Settings(default_number_of_namespace_bundles=1))
    split = f"PUT {SYSTEM}/0x00000000_0xffffffff/split?splitAlgorithmName={POSITIONS}"
    assert world.ask(split, [5]).status == 204
    for bundle, worker in (("0x00000000_0x00000005", 0), ("0x00000005_0xffffffff", 1)):
        move = f"PUT {SYSTEM}/{bundle}/unload?destinationBroker=worker-{worker}"
        assert world.ask(move).status == 204
    assert workers_with_topics(world) == [1]
    assert silent_checks(caplog) == 1
