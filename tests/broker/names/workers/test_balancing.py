"""Bundles that move from busy workers to idle ones."""

import logging
from typing import Any

import pytest

from fakes.logs import LogWorld
from fakes.named_worlds import NAMESPACE, named
from fakes.processes import Processes
from magnetar_broker.config import Settings
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.placement.bundles import Bundles
from magnetar_proto.names import NamespaceName, TopicName

MINUTE = 60


class World(LogWorld):
    """Two workers, whose loads the test sets, with topics of some bundles."""

    def __init__(self, workers: int = 2, **settings: Any) -> None:
        super().__init__()
        # Rates are as the test sets them.
        settings["stats_update_frequency_in_secs"] = 1_000_000
        settings["broker_delete_inactive_topics_enabled"] = False
        self.processes = Processes(Settings(**settings), self.engine, self.clock, workers)
        self.processes.start()
        self.directory = self.processes.directory

    def pass_minute(self, *loads: float) -> None:
        """A round comes, before which the workers have taken so many cores."""
        for worker, load in zip(self.processes.workers, loads, strict=True):
            worker.processor_seconds += load * MINUTE
        self.clock.advance(MINUTE)

    def load(self, *names: TopicName, messages: float = 100.0) -> None:
        """Have topics loaded that measure so much traffic, each."""
        for name in names:
            topic = self.do(self.processes.of(name).broker.topic(name, True))
            topic.meter.rates = (messages, messages * 100, 0.0, 0.0)

    def owned_by(self, worker: int) -> list[TopicName]:
        """Topics of different bundles, all that a worker owns."""
        found: dict[int, TopicName] = {}
        placed = self.do(self.processes.placement.placed(NAMESPACE))
        for number in range(100):
            index = placed.bundles.index_of(named(f"topic-{number}"))
            if placed.workers[index] == worker:
                found[index] = named(f"topic-{number}")
        return list(found.values())

    def moved(self, names: list[TopicName]) -> list[TopicName]:
        """Those that the second worker owns."""
        return [name for name in names if self.processes.number_of(name) == 1]


def test_a_lasting_imbalance_moves_one_bundle_a_minute() -> None:
    world = World()
    names = world.owned_by(0)
    world.load(*names)
    world.pass_minute(0.8, 0.0)  # since the first round: what came before it is not known
    world.pass_minute(0.8, 0.0)
    assert world.moved(names) == [], "an imbalance of one minute"
    world.pass_minute(0.8, 0.0)
    (first,) = world.moved(names)
    world.pass_minute(0.6, 0.2)
    assert len(world.moved(names)) == 2
    world.pass_minute(0.4, 0.4)
    world.pass_minute(0.4, 0.4)
    assert len(world.moved(names)) == 2
    tables = [one.owners for one in world.processes.workers]
    assert {table.worker_of(first) for table in tables} == {1}


def test_the_clients_of_a_bundle_that_moves_are_told() -> None:
    world = World()
    names = world.owned_by(0)
    world.load(*names)
    former = world.processes.workers[0].broker.topics
    for _ in range(3):
        world.pass_minute(0.8, 0.0)
    (moved,) = world.moved(names)
    assert [name for name in names if name not in former] == [moved]


def test_an_imbalance_that_changes_sides_moves_nothing() -> None:
    world = World()
    names = world.owned_by(0) + world.owned_by(1)
    before = world.moved(names)
    world.load(*names)
    for _ in range(4):
        world.pass_minute(0.8, 0.1)
        world.pass_minute(0.1, 0.8)
    assert world.moved(names) == before


def test_a_bundle_that_moved_stays_for_the_grace_period() -> None:
    world = World(load_balancer_shedding_grace_period_minutes=3)
    names, others = world.owned_by(0), world.owned_by(1)
    world.load(names[0], names[1])
    for _ in range(3):
        world.pass_minute(0.8, 0.0)
    (moved,) = world.moved(names)
    world.load(*others)
    world.load(moved, messages=300.0)  # at its new owner, where it would be the best to move
    world.pass_minute(0.0, 0.8)
    world.pass_minute(0.0, 0.8)
    assert world.moved([moved]) == [moved] and len(world.moved(others)) == len(others) - 1
    world.pass_minute(0.0, 0.8)
    assert world.moved([moved]) == []


@pytest.mark.parametrize("what", ["deleted", "split"])
def test_what_changes_while_traffic_is_asked_for_is_left_alone(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    names = world.owned_by(0)
    world.load(*names)
    bundles, move = world.directory.bundles, world.directory.bundles.move

    async def late(namespace: str, bundle: str, process: str) -> None:
        if what == "deleted":
            await world.directory.deletion.namespace(namespace, force=True)
        else:
            low, high = (int(text, 16) for text in bundle.split("_"))
            await bundles.split(namespace, bundle, lambda _: [(low + high) // 2])
        await move(namespace, bundle, process)

    bundles.move = late  # type: ignore[method-assign]
    for _ in range(3):
        world.pass_minute(0.8, 0.0)
    assert "has not moved" in caplog.text


def test_a_worker_that_has_just_started_is_not_compared() -> None:
    world = World(workers=3)
    names = world.owned_by(0)
    world.load(*names)
    world.pass_minute(0.8, 0.0, 0.0)
    world.pass_minute(0.8, 0.0, 0.0)
    world.processes.replace(2)
    for _ in range(2):
        world.pass_minute(0.8, 0.0, 0.0)
        assert world.moved(names) == []
    world.pass_minute(0.8, 0.0, 0.0)
    assert len(world.moved(names)) == 1


def test_nothing_moves_to_a_worker_that_is_about_to_be_restarted() -> None:
    world = World()
    names = world.owned_by(0)
    world.load(*names)
    draining = world.processes.draining
    world.do(draining.drain(1))
    for _ in range(4):
        world.pass_minute(0.8, 0.0)
    assert world.moved(names) == []
    world.do(draining.undrain(1))
    for _ in range(2):
        world.pass_minute(0.8, 0.0)
    assert len(world.moved(names)) == 1


def test_one_hot_topic_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    name = world.owned_by(0)[0]
    world.load(name)
    for _ in range(6):
        world.pass_minute(0.9, 0.0)
    assert world.moved([name]) == []
    assert [record.args for record in caplog.records if "no move" in record.message] == [
        ("worker-0", pytest.approx(0.9), "worker-1", 0.0)
    ]


def test_without_balancing_nothing_moves() -> None:
    for setting in ("load_balancer_enabled", "load_balancer_shedding_enabled"):
        world = World(**{setting: False})
        names = world.owned_by(0)
        world.load(*names)
        for _ in range(4):
            world.pass_minute(0.8, 0.0)
        assert world.moved(names) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_new_bundles_go_to_who_has_least_to_do(enabled: bool) -> None:
    world = World(load_balancer_enabled=enabled)
    world.pass_minute(0.8, 0.0)
    world.pass_minute(0.8, 0.0)
    space = NamespaceName.parse("public/other")
    new = Namespace(Bundles.even(1))
    world.do(world.directory.creation.namespace(space, new, {}))
    owners = world.do(world.directory.bundles.owners_of(str(space)))
    assert list(owners.values()) == ["worker-1" if enabled else "worker-0"]
