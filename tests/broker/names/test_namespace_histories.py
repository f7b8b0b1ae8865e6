"""Random histories of one namespace that is deleted and created again while its bundles change.

Each seed is one history; the seed is part of the test's name.
"""

from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from effort import seeds
from fakes.logs import LogWorld
from fakes.named_worlds import NAMESPACE, named
from fakes.processes import Processes
from fakes.world import ManualPromise, start
from magnetar_broker.base.errors import BrokerError, NamespaceNotFound
from magnetar_broker.config import Settings
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.placement.bundles import BundleRefused, Bundles
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import StorageError

WORKERS = 3
TOPICS = 4
ACTIONS = 60
MOST_TURNS = 30
"""Calls of the loop between two actions."""
SETTLED_SECONDS = 120.0


class History(LogWorld):
    """One history: `live`, then `check`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = Random(seed)
        self.processes = Processes(Settings(), self.engine, self.clock, WORKERS)
        self.processes.placement.before_giving = self._wait
        self.processes.start()
        self.directory = self.processes.directory
        self.asked: list[ManualPromise] = []

    async def _wait(self, worker: int) -> None:
        """Ask the other workers for something, as a move does."""
        done = self.clock.promise()
        self.clock.later(self.dice.random(), lambda: done.set_result(None))
        await done

    def live(self) -> None:
        actions = (self.use, self.use, self.delete, self.create, self.move, self.split, self.list)
        for _ in range(ACTIONS):
            self.asked.append(start(_outcome(self.dice.choice(actions)())))
            for _ in range(self.dice.randrange(MOST_TURNS)):
                self.clock.step()
            if self.dice.random() < 0.2:
                self.clock.advance(self.dice.random())

    # What is done -------------------------------------------------------------------------

    async def use(self) -> None:
        name = named(f"topic-{self.dice.randrange(TOPICS)}")
        number = await self.processes.placement.worker_of(name)
        await self.processes.workers[number].broker.topic(name, True)

    async def delete(self) -> None:
        await self.directory.deletion.namespace(NAMESPACE, force=True)

    async def create(self) -> None:
        bundles = Bundles.even(self.dice.randrange(1, 20))
        name = NamespaceName.parse(NAMESPACE)
        await self.directory.creation.namespace(name, Namespace(bundles), {})

    async def move(self) -> None:
        bundles = await self.directory.bundles.stored.of(NAMESPACE)
        process = f"worker-{self.dice.randrange(WORKERS)}"
        await self.directory.bundles.move(NAMESPACE, self.dice.choice(bundles.ranges), process)

    async def split(self) -> None:
        bundles = await self.directory.bundles.stored.of(NAMESPACE)
        bundle = self.dice.choice(bundles.ranges)
        middle = sum(bundles.ends(bundle)) // 2
        await self.directory.bundles.split(NAMESPACE, bundle, lambda _: [middle])

    async def list(self) -> None:
        await self.directory.bundles.owned_by(f"worker-{self.dice.randrange(WORKERS)}")

    # What must be true --------------------------------------------------------------------

    def check(self) -> None:
        """When all is quiet, everything is answered, and every table is of the stored bundles."""
        self.clock.pump()
        self.clock.advance(SETTLED_SECONDS)
        for one in self.asked:
            one.result()
        tables = [self.processes.owners, *(one.owners for one in self.processes.workers)]
        placed = tables[0].of(NAMESPACE)
        assert [table.of(NAMESPACE) for table in tables] == [placed] * len(tables)
        try:
            stored = self.do(self.directory.bundles.stored.of(NAMESPACE))
        except NamespaceNotFound:
            assert placed is None
            assert self.directory.topic_host.loaded(NAMESPACE) == []
        else:
            assert placed is None or placed.bundles == stored
            self.processes.placement.before_giving = None
            for bundle in stored.ranges:
                self.do(self.directory.bundles.move(NAMESPACE, bundle, "worker-0"))


async def _outcome(work: Awaitable[None]) -> None:
    """What it does, or its refusal."""
    with suppress(BrokerError, StorageError, BundleRefused):
        await work


@pytest.mark.parametrize("seed", seeds(300))
def test_the_tables_of_owners_follow_the_namespace(seed: int) -> None:
    history = History(seed)
    history.live()
    history.check()


def test_histories_delete_create_and_move() -> None:
    """The actions are not refused all the time."""
    done: dict[str, int] = {}

    def counted(history: History, name: str) -> Any:
        work = getattr(history, name)

        async def count() -> None:
            await work()
            done[name] = done.get(name, 0) + 1

        return count

    for seed in range(5):
        history = History(seed)
        for name in ("use", "delete", "create", "move", "split", "list"):
            setattr(history, name, counted(history, name))
        history.live()
        history.check()
    assert min(done.values()) > 5 and len(done) == 6, done
