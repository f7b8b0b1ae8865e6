"""The owners of bundles in a broker of several processes, as the controller decides them.

A worker owns a bundle as long as it is the owner in the controller's table.  It is the only one
that writes the bundle's topics, which does not depend on the tables of other processes:

- the controller lets only the owner load a topic, under the topic's lock, after the former owner
  has closed it (`DistributedTopicHost.load`);
- only the worker that loads, serves or closes a topic for the controller writes its metadata
  (`DistributedTopicHost.may_write`);
- the segments of a topic are sealed when it is opened elsewhere: the store then refuses what their
  former writer appends.

A worker's lease is its link: a worker that has ended owns its bundles again when its next process
has joined.  In a broker on one machine the table is in memory: at a start of the broker no worker
has a topic loaded, and a controller that replaces another one gets the table from the workers
(`take_over`).  In a cluster, workers may be there that the next leader does not reach, so the table
is stored, too: each change first, and then the memory of all processes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.bundle_owners import (
    CURRENT,
    JOINED,
    LEFT,
    PLACED,
    UNPLACED,
    BundleOwners,
    Placed,
)
from magnetar_broker.placement.bundles import Bundles, deal
from magnetar_broker.placement.ownership import Owner
from magnetar_broker.placement.stored_bundles import StoredBundles, missing
from magnetar_broker.placement.stored_owners import NamedOwners, StoredOwners
from magnetar_broker.placement.worker_links import WorkerLinks, unless_ended
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import KeyedMutex


class Placement:
    """The `Ownership` of a controller."""

    def __init__(
        self,
        owners: BundleOwners,
        stored: StoredBundles,
        links: WorkerLinks,
        clock: Clock,
        kept: StoredOwners | None = None,
    ) -> None:
        """`kept` stores the owners; None where they are in memory only."""
        self.owners = owners
        self.load_of: Callable[[int], float] = lambda worker: 0.0
        """Returns the load of a worker; the least busy ones get the bundles of new namespaces."""
        self.before_giving: Callable[[int], Awaitable[None]] | None = None
        """Called with the number of a worker before it takes over a bundle from another worker."""
        self.drained: set[int] = set()
        """The workers that are about to be restarted: they get no bundles of new namespaces."""
        self._stored = stored
        self._links = links
        self._kept = kept
        self._placing: KeyedMutex[str] = KeyedMutex(clock)
        """Locks by namespace, held while owners change."""

    # For opening and looking up topics ----------------------------------------------------

    @property
    def service_url(self) -> str:
        return self.owners.service_url

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        return self.owners.owner(await self.worker_of(topic))

    async def owns(self, topic: TopicName) -> bool:
        await self.placed(topic.namespace_name)
        return True

    async def worker_of(self, topic: TopicName) -> int:
        """Return the number of the worker that owns a topic's bundle; place it if it has none."""
        placed = await self.placed(topic.namespace_name)
        return placed.workers[placed.bundles.index_of(topic)]

    async def placed(self, namespace: str) -> Placed:
        """Return the owners of a namespace's bundles; the least busy workers if there were none.

        `NamespaceNotFound` if it has no owners and does not exist.
        """
        placed = self.owners.of(namespace)
        if placed is None:
            async with self._placing.held(namespace):
                placed = self.owners.of(namespace)
                if placed is None:
                    placed = self._first(await self._stored.of(namespace))
                    await self._place(namespace, placed)
        return placed

    def _first(self, bundles: Bundles) -> Placed:
        return Placed(bundles, tuple(deal(len(bundles), self.least_busy())))

    def least_busy(self) -> list[int]:
        """Return the workers that are not drained, least busy first."""
        owned = dict.fromkeys(self.owners.names, 0)
        for _, placed in self.owners.all():
            for worker in placed.workers:
                owned[worker] += 1

        def rank(worker: int) -> tuple[bool, float, int]:
            # A worker that does not load topics now would make clients wait for its start.
            # promise[self._links.loading(worker) is None -> False]: bundles go to workers that are
            #   there
            return self._links.loading(worker) is None, self.load_of(worker), owned[worker]

        return sorted(set(self.owners.names) - self.drained, key=rank)

    # The workers of other brokers ----------------------------------------------------------

    def admit(self, name: str, default: ListenerUrls, listeners: Mapping[str, ListenerUrls]) -> int:
        """Add a worker of another broker, or change its addresses; return its number."""
        number = self.owners.join(name, default, listeners)
        for link in self._links.all():
            # promise: all processes know where to send clients of a worker
            link.notify(JOINED, *self.owners.joined_as(number))
        return number

    def dismiss(self, name: str) -> None:
        """Remove a worker of another broker, which owns no bundles any more; else ValueError."""
        self.owners.leave(name)
        for link in self._links.all():
            # promise: all processes forget a worker that has left
            link.notify(LEFT, name)

    # For administration and balancing -----------------------------------------------------

    @property
    def processes(self) -> Sequence[str]:
        return list(self.owners.names.values())

    @property
    def namespaces(self) -> list[str]:
        return [namespace for namespace, _ in self.owners.all()]

    async def owners_of(self, namespace: str, bundles: Bundles) -> Sequence[str]:
        placed = await self.placed(namespace)
        return [self.owners.names[worker] for worker in placed.adapted(bundles).workers]

    async def give(self, namespace: str, bundle: str, process: str) -> None:
        worker = self.owners.number_of(process)
        placed = await self.placed(namespace)
        if placed.workers[placed.bundles.index(bundle)] == worker:
            await self._all_know()  # perhaps the one who asked before was not answered
            return
        if self.before_giving is not None:
            await self.before_giving(worker)
        async with self._placing.held(namespace):
            # promise[of(namespace) -> of(namespace) or placed]: a namespace that is deleted during
            #   a move gets no owners
            now = self.owners.of(namespace)
            if now is None:  # it was deleted meanwhile
                raise missing(namespace)
            workers = list(now.workers)
            workers[now.bundles.index(bundle)] = worker
            await self._place(namespace, Placed(now.bundles, tuple(workers)))
            await self._all_know()

    async def adopt(self, namespace: str, bundles: Bundles) -> None:
        async with self._placing.held(namespace):
            placed = self.owners.of(namespace)
            if placed is not None:  # else they are what will be placed
                # promise: a split changes the table of owners
                await self._place(namespace, placed.adapted(bundles))
                await self._all_know()

    async def forget(self, namespace: str) -> None:
        async with self._placing.held(namespace):
            if self._kept is not None:
                # promise: the stored owners of a deleted namespace's bundles go with it
                await self._kept.delete(namespace)
            # promise: the owners of a deleted namespace's bundles go with it
            self._unplace(namespace)

    async def reload(self) -> None:
        if self._kept is None:
            return
        found = await self._kept.load()
        for namespace in self.namespaces:
            # promise[never]: what another leader has deleted is not kept
            if namespace not in found:
                self._unplace(namespace)
        for namespace, stored in found.items():
            workers = tuple(map(self.owners.known, stored.workers))
            self._tell(namespace, Placed(stored.bundles, workers))

    def take_over(self, namespace: str, placed: Placed) -> None:
        """Keep the owners that a former controller has chosen, unless others are known already.

        Whichever line of the table is kept: topics that are loaded elsewhere are closed there
        before their owner loads them.
        """
        # promise[without self._kept is None and]: stored owners count, not those that workers know
        if self._kept is None and self.owners.of(namespace) is None:
            self._tell(namespace, placed)

    async def _place(self, namespace: str, placed: Placed) -> None:
        """Change the table, first where it is stored."""
        # promise[without and placed != self.owners.of(namespace)]: what has not changed is not
        #   stored again
        if self._kept is not None and placed != self.owners.of(namespace):
            names = tuple(self.owners.names[worker] for worker in placed.workers)
            # promise: the next leader knows the owners
            await self._kept.store(namespace, NamedOwners(placed.bundles, names))
        self._tell(namespace, placed)

    def _tell(self, namespace: str, placed: Placed) -> None:
        """Change the table of every process; the order of changes is the same in all."""
        self.owners.place(namespace, placed)
        for link in self._links.all():
            link.notify(PLACED, *self.owners.values_of(namespace, placed))

    def _unplace(self, namespace: str) -> None:
        self.owners.forget(namespace)
        for link in self._links.all():
            link.notify(UNPLACED, namespace)

    async def _all_know(self) -> None:
        """Wait until every worker has applied all changes made so far."""
        asked = [(link, link.request(CURRENT)) for link in self._links.all()]
        for link, answer in asked:
            # promise: a move is complete only when the workers know it
            await unless_ended(link, answer, None)
