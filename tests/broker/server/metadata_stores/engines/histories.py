"""A stream of writes with `expect` by several stores, and the checks of what is left.

Each key has the list of the operations that have changed it.  A writer reads the list and puts it
back with one operation more, if it is still at the version that was read.  Some keys belong to one
writer alone, which then knows the outcome of each operation that is answered.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from broker.server.metadata_stores.engines.more import opened
from magnetar_storage.errors import BadVersion, Unavailable
from magnetar_storage.interfaces import ABSENT, Change, MetadataStore, Resync, Versioned

WRITERS = 3
SHARED = tuple(f"/history/{number}" for number in range(2))


@dataclass
class History:
    """The operations by outcome."""

    accepted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    progress: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after every accepted operation."""
    is_over: bool = False

    async def write(self, store: MetadataStore, name: str) -> None:
        """Make operations until the history is over."""
        keys = itertools.cycle((f"/history/own/{name}", *SHARED))
        for number in itertools.count():
            if self.is_over:
                return
            await self._operate(store, next(keys), name, number)

    async def _operate(self, store: MetadataStore, key: str, name: str, number: int) -> None:
        operation = f"{name}-{number}"
        try:
            found = await store.get(key)
        except Unavailable:
            return  # nothing was written
        done = [] if found is None else json.loads(found.value)
        value = json.dumps([*done, operation]).encode()
        try:
            await store.put(key, value, ABSENT if found is None else found.version)
        except BadVersion:
            assert key in SHARED, "a writer was refused, though no other one uses the key"
            self.refused.add(operation)
        except Unavailable:
            self.unknown.add(operation)
        else:
            self.accepted.add(operation)
            self.progress.set()

    async def accept(self, more: int) -> None:
        """Wait until so many operations more were accepted."""
        goal = len(self.accepted) + more
        while len(self.accepted) < goal:
            self.progress.clear()
            await self.progress.wait()

    async def check(self, store: MetadataStore) -> dict[str, Versioned]:
        """Compare what is stored with the outcomes; return it."""
        stored: dict[str, Versioned] = {}
        present: list[str] = []
        for key, found in await store.read_under("/history/"):
            assert isinstance(found, Versioned)
            stored[key] = found
            operations = json.loads(found.value)
            present += operations
            # The answer to an operation was lost, and another writer has written after it before
            # it was looked at: then nobody can tell that it took place.
            for operation, later in itertools.pairwise(operations):
                if operation in self.refused and _writer_of(operation) != _writer_of(later):
                    self.refused.discard(operation)
                    self.unknown.add(operation)
        assert len(present) == len(set(present)), "an operation took place twice"
        assert self.accepted <= set(present), "an accepted operation was lost"
        assert self.refused.isdisjoint(present), "a refused operation took place"
        assert set(present) <= self.accepted | self.unknown, "an operation was invented"
        return stored


def _writer_of(operation: str) -> str:
    return operation.rpartition("-")[0]


class Follower:
    """A reader of changes, which knows the present value of every key."""

    def __init__(self) -> None:
        self.known: dict[str, Versioned] = {}
        self.resyncs = 0
        self._at = asyncio.Event()

    async def follow(self, store: MetadataStore) -> None:
        """Follow the changes until the store is closed; each one must be the next of its key."""
        async for change in store.watch("/history/"):
            if isinstance(change, Resync):
                self.resyncs += 1
                await self._list(store)
            else:
                self._apply(change)
            self._at.set()

    async def reach(self, stored: dict[str, Versioned]) -> None:
        """Wait until the reader knows what is stored."""
        while self.known != stored:
            self._at.clear()
            await self._at.wait()

    async def _list(self, store: MetadataStore) -> None:
        while True:
            try:
                found = await store.read_under("/history/")
            except Unavailable:
                continue
            break
        for key, value in found:
            assert isinstance(value, Versioned)
            self.known[key] = value

    def _apply(self, change: Change) -> None:
        assert change.value is not None
        known = self.known.get(change.key)
        if known is not None and change.version <= known.version:
            return  # of before the listing
        before = [] if known is None else json.loads(known.value)
        assert json.loads(change.value)[:-1] == before, "a change was missed"
        self.known[change.key] = Versioned(change.value, change.version)


@asynccontextmanager
async def a_history(url: str) -> AsyncIterator[tuple[History, MetadataStore]]:
    """Let stores write and one follow; in the end, check all of it."""
    history, follower = History(), Follower()
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(url)) for _ in range(WRITERS + 1)]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follower.follow(stores[0]))
            writers = [
                tasks.create_task(history.write(store, f"writer-{number}"))
                for number, store in enumerate(stores[1:])
            ]
            await history.accept(20)
            yield history, stores[0]
            await history.accept(20)
            history.is_over = True
            await asyncio.wait(writers)
            await follower.reach(await history.check(stores[0]))
            await stores[0].close()
