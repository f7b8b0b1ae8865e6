"""Deleting topics, namespaces and tenants: each wholly or, whatever happens, later.

That something is to be deleted is stored first (`DELETIONS`); whatever belongs to it goes then, and
the mark last.  What a crash or a failing disk has interrupted goes on after the next start, at the
next use, or in the next round of upkeep; until it has ended nobody opens or makes what is being
deleted.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import unquote_plus

from magnetar_broker.errors import (
    AlreadyExists,
    BrokerError,
    InUse,
    NamespaceMissing,
    NotEmpty,
    NotReady,
    TopicMissing,
)
from magnetar_broker.metadata_keys import (
    DELETIONS,
    deletion_key,
    policies_of_topics,
    topic_key,
    topic_of_names,
)
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.tenants import Tenants
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.parallel import for_each
from magnetar_broker.records import keys_under
from magnetar_broker.topics import AnyTopic, Topics
from magnetar_proto.names import DOMAINS, TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Engine, Log
from magnetar_storage.mutex import Mutex

logger = logging.getLogger(__name__)

DELETING = "deleting"
"""The job of upkeep that goes on with what was interrupted."""
RETRY_SECONDS = 60.0


class Deletion:
    """One per broker.  What clients are connected to goes only where `force` says so."""

    def __init__(
        self,
        engine: Engine,
        tenants: Tenants,
        namespaces: Namespaces,
        catalogue: Catalogue,
        topics: Topics,
        events: TopicEvents,
        forget: Callable[[str | TopicName], Awaitable[None]],
    ) -> None:
        """`forget` deletes what a topic, or a namespace by its name, has besides; also twice."""
        self._engine = engine
        self._tenants = tenants
        self._namespaces = namespaces
        self._catalogue = catalogue
        self._topics = topics
        self._events = events
        self._forget = forget
        self._one_namespace = Mutex(engine.clock)
        self._one_tenant = Mutex(engine.clock)
        self._begun: set[str] = set()
        """Full names whose mark is stored, or may be."""
        self._gone: dict[str, list[TopicName]] = {}
        """By those names: what listings show until they are told, however often it is tried."""

    # What was begun -------------------------------------------------------------------------

    async def start(self) -> None:
        """End what was interrupted; where that fails, nobody can use it until `resume` does it."""
        for key in await keys_under(self._engine.metadata, DELETIONS):
            name = unquote_plus(key)
            self._begun.add(name)
            if _is_namespace(name):
                self._namespaces.close(name)
            elif "://" not in name:
                self._tenants.close(name)
        await self.resume()

    async def resume(self) -> None:
        """Go on with all that was interrupted; what fails, or is refused, is for the next time."""
        for name in sorted(self._begun):
            try:
                await self._settle(name)
            except (BrokerError, StorageError) as error:
                logger.warning("the deletion of %s goes on later: %s", name, error)

    async def settle(self, topic: TopicName) -> None:
        """If the deletion of a topic, or of what it is a partition of, was interrupted: end it."""
        for name in (str(topic), str(topic.base)) if self._begun else ():
            if name in self._begun:
                await self._settle(name)

    def check(self, topic: TopicName) -> None:
        """`NotReady` while a topic, or what it is a partition of, is being deleted."""
        if self._begun and not self._begun.isdisjoint((str(topic), str(topic.base))):
            raise NotReady(f"{topic} is being deleted; try again")

    async def _settle(self, name: str) -> None:
        if _is_namespace(name):
            async with self._one_namespace.held():
                await self._finish_namespace(name)
        elif "://" in name:
            topic = TopicName.parse(name)
            async with self._topics.alone_with(topic):
                await self._finish_topic(topic, [])
        else:
            async with self._one_tenant.held():
                await self._finish_tenant(name)

    async def _begin(self, name: str) -> None:
        self._begun.add(name)
        await self._engine.metadata.put(deletion_key(name), b"{}")

    async def _is_begun(self, name: str) -> bool:
        """Whether it is to be deleted indeed: the mark may not be stored, or be gone already."""
        if name in self._begun and await self._engine.metadata.get(deletion_key(name)) is None:
            self._ended(name)
        return name in self._begun

    async def _end(self, name: str) -> None:
        await self._engine.metadata.delete(deletion_key(name))
        self._ended(name)

    def _ended(self, name: str) -> None:
        self._begun.discard(name)
        self._gone.pop(name, None)

    # Topics ---------------------------------------------------------------------------------

    async def topic(self, name: TopicName, force: bool) -> None:
        """Delete a topic that is not partitioned, or what one partition holds; durable on return.

        `TopicMissing`, `AlreadyExists` if it is partitioned, `InUse` if clients are connected.
        """
        await self.settle(name)
        async with self._topics.alone_with(name):
            if name.partition < 0 and await self._catalogue.partitions(name):
                raise AlreadyExists(f"{name} is a partitioned topic: delete that")
            if not await self._exists(name):
                raise TopicMissing(f"Topic {name} not found")
            await self._delete(name, _anyway if force else _unused)

    async def partitioned(self, name: TopicName, force: bool) -> None:
        """Delete a partitioned topic with all its partitions; durable on return."""
        await self.settle(name)
        async with self._topics.alone_with(name):
            if not await self._catalogue.partitions(name):
                if await self._exists(name):
                    raise AlreadyExists(f"{name} is not partitioned: delete it as a topic")
                raise TopicMissing(f"Topic {name} not found.")
            await self._delete(name, _anyway if force else _unused)

    async def inactive(self, name: TopicName, only_if: Callable[[AnyTopic], bool]) -> None:
        """Delete a loaded topic or partition if it is as it must be when nobody gets in between."""
        await self.settle(name)
        async with self._topics.alone_with(name):
            if name in self._topics:
                await self._delete(name, only_if)

    async def _exists(self, name: TopicName) -> bool:
        if 0 <= name.partition < await self._catalogue.partitions(name):
            return True
        return name in self._topics or await self._catalogue.exists(name)

    async def _delete(self, name: TopicName, only_if: Callable[[AnyTopic], bool]) -> None:
        """The caller is alone with it.  Clients are sent away first: what is confirmed stays."""
        evicted = self._topics.evict(await self._members(name), only_if)
        if evicted is None:
            raise InUse(
                f"Topic {name} has active producers/subscriptions: close them, or use force"
            )
        try:
            await self._begin(str(name))
        except StorageError:
            await for_each(self._engine, evicted, _closing)
            raise
        await self._finish_topic(name, evicted)

    async def _members(self, name: TopicName) -> list[TopicName]:
        """Its partitions, or what is none alone."""
        partitions = 0 if name.partition >= 0 else await self._catalogue.partitions(name)
        return [name.with_partition(index) for index in range(partitions)] or [name]

    async def _finish_topic(self, name: TopicName, evicted: list[AnyTopic]) -> None:
        """The caller is alone with the topic, and with its partitions."""
        if not await self._is_begun(str(name)):
            return
        await for_each(self._engine, evicted, _deleting)
        if name.partition >= 0:
            await Log.remove(topic_key(name), self._engine)
            await self._end(str(name))
            return  # it is listed for as long as its topic has it
        gone = self._gone.setdefault(str(name), await self._members(name))
        if name.is_persistent:
            await for_each(self._engine, await self._catalogue.family(name), self._remove)
        await self._forget(name)
        await self._catalogue.delete_partitioned(name)
        self._tell(gone)
        await self._end(str(name))

    async def _remove(self, name: TopicName) -> None:
        await Log.remove(topic_key(name), self._engine)

    async def _erase(self, name: TopicName) -> None:
        """One topic of a namespace that nobody may use any more."""
        async with self._topics.alone(name):
            for topic in self._topics.evict([name], _anyway) or ():
                await topic.delete()
            if name.is_persistent:
                await self._remove(name)

    def _tell(self, gone: list[TopicName]) -> None:
        for name in gone:
            if name.is_persistent:
                self._events.tell(name, False)

    # Namespaces and tenants -------------------------------------------------------------------

    async def namespace(self, name: str, force: bool) -> None:
        """Delete a namespace, with its topics if `force`, else `NotEmpty`; durable on return."""
        async with self._one_namespace.held():
            if await self._finish_namespace(name):
                return
            if not await self._namespaces.has(name):
                raise NamespaceMissing(f"Namespace {name} does not exist.")
            self._namespaces.close(name)
            try:
                if not force and await self._contents(name):
                    raise NotEmpty(
                        "Cannot delete non empty namespace: delete its topics, or use force"
                    )
                await self._begin(name)
            finally:
                if name not in self._begun:
                    self._namespaces.reopen(name)
            await self._finish_namespace(name)

    async def _contents(self, namespace: str) -> list[TopicName]:
        await self._topics.settled(lambda topic: topic.namespace_name == namespace)
        there = [topic.name for topic in self._topics.of_namespace(namespace)]
        there += await self._catalogue.logs(namespace)
        for domain in DOMAINS:
            there += await self._catalogue.partitioned_topics(namespace, domain)
        return [topic for topic in there if not topic.is_system]

    async def _finish_namespace(self, name: str) -> bool:
        """End what was begun, if it was: whether the namespace is deleted now."""
        if name not in self._begun:
            return False
        is_begun = await self._is_begun(name)
        if is_begun:
            await self._topics.settled(lambda topic: topic.namespace_name == name)
            gone = self._gone.setdefault(name, await self._catalogue.topics(name))
            loaded = {topic.name for topic in self._topics.of_namespace(name)}
            await for_each(
                self._engine,
                sorted(loaded.union(await self._catalogue.logs(name))),
                self._erase,
            )
            keys = await keys_under(self._engine.metadata, policies_of_topics(name))
            say = [topic_of_names(f"{name}/{key}") for key in keys]
            await for_each(self._engine, say, self._forget)
            for domain in DOMAINS:
                for topic in await self._catalogue.partitioned_topics(name, domain):
                    await self._catalogue.delete_partitioned(topic)
            await self._forget(name)
            await self._namespaces.delete(name)
            self._tell(gone)
            await self._end(name)
        self._namespaces.reopen(name)
        return is_begun

    async def tenant(self, name: str, force: bool) -> None:
        """Delete a tenant, with its namespaces if `force`, else `NotEmpty`; durable on return."""
        async with self._one_tenant.held():
            await self._tenants.get(name)
            self._tenants.close(name)
            try:
                if self._tenants.is_used(name):
                    raise NotEmpty("A namespace is being made in the tenant: try again")
                if await self._namespaces.of_tenant(name):
                    if not force:
                        raise NotEmpty(
                            "The tenant still has active namespaces: delete them, or use force"
                        )
                    await self._begin(name)
                    await self._finish_tenant(name)
                else:
                    await self._tenants.delete(name)
            finally:
                if name not in self._begun:
                    self._tenants.reopen(name)

    async def _finish_tenant(self, name: str) -> None:
        if await self._is_begun(name):
            for namespace in await self._namespaces.of_tenant(name):
                with suppress(NamespaceMissing):  # somebody else was faster
                    await self.namespace(namespace, force=True)
            await self._tenants.delete(name)
            await self._end(name)
        self._tenants.reopen(name)


def _anyway(topic: AnyTopic) -> bool:
    return True


def _unused(topic: AnyTopic) -> bool:
    return not topic.in_use


async def _closing(topic: AnyTopic) -> None:
    await topic.close()


async def _deleting(topic: AnyTopic) -> None:
    await topic.delete()


def _is_namespace(name: str) -> bool:
    return "/" in name and "://" not in name
