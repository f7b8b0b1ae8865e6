"""Changes of bundles: moves, splits, and unloading their topics."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from magnetar_broker.base.errors import NamespaceNotFound
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.periodic_jobs import PAUSE_EVERY
from magnetar_broker.base.runtime import Runtime
from magnetar_broker.names.opening import Opening
from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_broker.placement.bundles import Bundles, ranges_within
from magnetar_broker.placement.ownership import Ownership
from magnetar_broker.placement.stored_bundles import StoredBundles
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import yield_turn
from magnetar_storage.runtime.mutex import KeyedMutex


class BundleChanges:
    """Splits and moves bundles; one per broker.  Within a namespace, one change is made at a time.

    Namespaces must exist.  A bundle must be of its namespace, otherwise `BundleRefused` is raised;
    a process must be one of `Ownership.processes`, otherwise ValueError.
    """

    def __init__(
        self,
        stored: StoredBundles,
        ownership: Ownership,
        topic_host: TopicHost,
        locks: TopicLocks,
        opening: Opening,
        runtime: Runtime,
    ) -> None:
        self.stored = stored
        self._ownership = ownership
        self._topic_host = topic_host
        self._locks = locks
        self._opening = opening
        self._runtime = runtime
        self._changing: KeyedMutex[str] = KeyedMutex(runtime.clock)

    @property
    def processes(self) -> Sequence[str]:
        """The names of the processes that own bundles."""
        return self._ownership.processes

    async def owners_of(self, namespace: str) -> dict[str, str]:
        """Return the process of each bundle of a namespace."""
        bundles = await self.stored.of(namespace)
        owners = await self._ownership.owners_of(namespace, bundles)
        return dict(zip(bundles.ranges, owners, strict=True))

    async def reload(self) -> None:
        """Adapt the owners of bundles to the stored bundles; owners stay as far as they can."""
        for namespace in self._ownership.namespaces:
            try:
                await self._ownership.adopt(namespace, await self.stored.of(namespace))
            except NamespaceNotFound:
                await self._ownership.forget(namespace)

    async def owned_by(self, process: str) -> list[str]:
        """Return the bundles of a process as `tenant/namespace/range`, sorted.

        Only namespaces that were used since the start are included: others have no owners yet.
        """
        found = []
        for namespace in sorted(self._ownership.namespaces):
            with suppress(NamespaceNotFound):  # it was deleted meanwhile
                owners = await self.owners_of(namespace)
                found += [f"{namespace}/{bundle}" for bundle in owners if owners[bundle] == process]
        return found

    async def unload(self, namespace: str, bundle: str) -> None:
        """Close the topics of a bundle, which keeps its owner; their clients reconnect."""
        names = await self._loaded(namespace, await self.stored.of(namespace), bundle)
        await for_each(self._runtime, names, self._opening.unload)

    async def move(self, namespace: str, bundle: str, process: str) -> None:
        """Make a process the owner of a bundle: on return no other one has loaded a topic of it.

        Clients of loaded topics are disconnected with the new owner's address.
        """
        async with self._changing.held(namespace):
            bundles = await self.stored.of(namespace)
            index = bundles.index(bundle)
            await self._ownership.give(namespace, bundle, process)

            def in_bundle(name: TopicName) -> bool:
                return name.namespace_name == namespace and bundles.index_of(name) == index

            # Wait for topics that the former owner was loading when the bundle was given away.
            # promise: a topic that its former owner is loading moves too
            await self._locks.settled(in_bundle)
            names = await self._loaded(namespace, bundles, bundle)
            # promise: the topics of a moved bundle are unloaded
            await for_each(self._runtime, names, self._opening.move)

    async def split(
        self,
        namespace: str,
        bundle: str,
        hashes: Callable[[Bundles], Sequence[int]],
        unload: bool = False,
    ) -> list[str]:
        """Divide a bundle at `hashes`, durably; returns the parts, all of one owner.

        Its topics stay loaded, unless `unload` asks to close them: their clients reconnect.
        `NamespaceNotFound`; `BundleRefused` also if a hash is not inside of the bundle.
        """
        async with self._changing.held(namespace):
            before = await self.stored.of(namespace)
            changed = await self.stored.change(
                namespace, lambda now: now.split(bundle, hashes(now))
            )
            await self._ownership.adopt(namespace, changed)
            # promise: a split with unload closes the topics
            # promise[always]: a split without unload leaves topics open
            if unload:
                names = await self._loaded(namespace, before, bundle)
                await for_each(self._runtime, names, self._opening.unload)
            return ranges_within(bundle, changed)

    async def _loaded(self, namespace: str, bundles: Bundles, bundle: str) -> list[TopicName]:
        """Return the loaded topics of a bundle; `BundleRefused` if there is no such bundle."""
        index, found = bundles.index(bundle), list[TopicName]()
        for count, name in enumerate(self._topic_host.loaded(namespace), 1):
            if count % PAUSE_EVERY == 0:
                await yield_turn(self._runtime.clock)
            if bundles.index_of(name) == index:
                found.append(name)
        return found
