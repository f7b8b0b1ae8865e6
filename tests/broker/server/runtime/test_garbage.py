"""The garbage collector with very many topics."""

import gc
from collections.abc import Iterator
from typing import Any, cast
from weakref import WeakSet

import pytest

from fakes.named_worlds import NamedWorld, named
from magnetar_broker.server.runtime.garbage import CLOSED, OPENED, Garbage
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_proto.names import TopicName


class Ring:
    """An object that refers to itself, as topics do."""

    def __init__(self, name: TopicName) -> None:
        self.name = name
        self.itself = self

    def totals(self) -> tuple[int, int, int, int]:
        """Return zeros: there was no traffic."""
        return 0, 0, 0, 0


class Scene:
    """Topics in memory, and those of all topics ever created that are not freed."""

    def __init__(self) -> None:
        self.world = NamedWorld()
        self.topics = Topics(self.world.engine)
        self.garbage = Garbage(self.topics)
        self.left: WeakSet[Any] = WeakSet()

    def open(self, count: int) -> list[TopicName]:
        names = [named(f"{len(self.left)}-{number}") for number in range(count)]
        for name in names:
            ring = Ring(name)
            self.left.add(ring)
            self.topics.add(cast(AnyTopic, ring))
        return names

    def end(self, names: list[TopicName]) -> None:
        for name in names:
            topic = self.topics.get(name)
            assert topic is not None
            self.topics.drop(topic)

    def look(self) -> None:
        self.world.do(self.garbage.collect_closed())


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Return a scene in which the collector has its default settings."""
    before = gc.get_threshold()
    gc.collect()
    scene = Scene()
    scene.garbage.start()
    gc.disable()  # nothing is freed by chance
    yield scene
    gc.freeze()  # as conftest.py has it
    gc.set_threshold(*before)
    gc.enable()


def test_a_start_switches_the_collector_on(scene: Scene) -> None:
    scene.garbage.start()
    assert gc.isenabled()


def test_opened_topics_are_here_to_stay(scene: Scene) -> None:
    before = gc.get_freeze_count()
    scene.open(OPENED - 1)
    assert gc.get_freeze_count() <= before
    scene.open(1)
    assert gc.get_freeze_count() >= before + OPENED


def test_what_ended_is_freed_at_last(scene: Scene) -> None:
    names = scene.open(CLOSED + 10)
    scene.end(names)
    assert len(scene.left) == CLOSED + 10
    scene.look()
    assert not scene.left
    assert gc.get_freeze_count() > 0  # the rest is here to stay again


def test_a_few_are_not_worth_a_look(scene: Scene) -> None:
    names = scene.open(CLOSED + 400)
    scene.end(names[: CLOSED + 50])  # a quarter of the others are 87
    scene.look()
    assert len(scene.left) == CLOSED + 400
    scene.end(names[CLOSED + 50 : CLOSED + 100])
    scene.look()
    assert len(scene.left) == 300
    scene.end(names[CLOSED + 100 : CLOSED + 150])
    scene.look()
    assert len(scene.left) == 300  # those of the last look do not count again
