"""Deletes namespaces and tenants, and continues deletions that were interrupted.

A deletion that a crash or a failing disk interrupts is continued at the next start, at the next
use, or by the next round of maintenance.  Until it has ended, the name cannot be used.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from magnetar_broker.base.errors import (
    AlreadyExists,
    BrokerError,
    NamespaceNotFound,
    NotAllowed,
    NotEmpty,
)
from magnetar_broker.base.metadata_keys import policies_of_topics, topic_of_names
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.records import keys_under
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.names.catalogue import Catalogue
from magnetar_broker.names.deletion.pending_deletions import PendingDeletions
from magnetar_broker.names.deletion.topic_deletion import (
    DeleteAttached,
    TopicDeletion,
)
from magnetar_broker.names.namespaces import Namespaces
from magnetar_broker.names.tenants import Tenants
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_proto.names import DOMAINS, SYSTEM_NAMESPACE, TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import settling
from magnetar_storage.runtime.mutex import KeyedMutex, Mutex

logger = logging.getLogger(__name__)

DELETING = "deleting"
"""The job of maintenance that retries interrupted deletions."""
RETRY_SECONDS = 60.0
START_SECONDS = 5.0
"""The longest time for which the start waits for interrupted deletions."""


class Deletion:
    """Deletes namespaces and tenants; one per broker."""

    def __init__(
        self,
        runtime: NamesRuntime,
        tenants: Tenants,
        namespaces: Namespaces,
        catalogue: Catalogue,
        topic_host: TopicHost,
        locks: TopicLocks,
        events: TopicEvents,
        delete_attached: DeleteAttached,
    ) -> None:
        self.pending = PendingDeletions(runtime.metadata, events)
        self.topics = TopicDeletion(
            runtime, catalogue, topic_host, locks, self.pending, delete_attached
        )
        self._runtime = runtime
        self._tenants = tenants
        self._namespaces = namespaces
        self._catalogue = catalogue
        self._topic_host = topic_host
        self._locks = locks
        self._delete_attached = delete_attached
        self._one_namespace: KeyedMutex[str] = KeyedMutex(runtime.clock)
        self._one_tenant = Mutex(runtime.clock)

    # Interrupted deletions --------------------------------------------------------------------

    async def reload(self) -> None:
        """Close the names whose deletion has begun, by whichever process, and reopen all others.

        Nothing is being deleted or created meanwhile.
        """
        before = self.pending.names()
        await self.pending.reload()
        for name in before:
            if _is_namespace(name):
                self._namespaces.reopen(name)
            elif "://" not in name:
                self._tenants.reopen(name)
        for name in self.pending.names():
            if _is_namespace(name):
                self._namespaces.close(name)
            elif "://" not in name:
                self._tenants.close(name)

    async def resume_at_start(self) -> None:
        """Continue all interrupted deletions; they go on after `START_SECONDS`, without a waiter.

        A store of objects that is away may hold them up for minutes.
        """
        clock = self._runtime.clock
        ended = clock.promise()
        settle = settling(ended)

        async def work() -> None:
            await self.resume()
            settle(None)

        self._runtime.tasks.spawn(work())
        # promise: the start does not wait for a store of objects
        timer = clock.later(START_SECONDS, lambda: settle(None))
        await ended
        timer.cancel()

    async def resume(self) -> None:
        """Continue all interrupted deletions; those that fail are retried by the next call, and
        their names stay closed."""
        for name in self.pending.names():
            try:
                await self._settle(name)
            except (BrokerError, StorageError) as error:
                logger.warning("the deletion of %s failed and will be retried: %s", name, error)
            except Exception:  # a defect with one name must not keep the others, or the start
                logger.exception("the deletion of %s failed unexpectedly; to be retried", name)

    async def _settle(self, name: str) -> None:
        if _is_namespace(name):
            async with self._one_namespace.held(name):
                await self._finish_namespace(name)
        elif "://" in name:
            await self.topics.resume(TopicName.parse(name))
        else:
            async with self._one_tenant.held():
                await self._finish_tenant(name)

    # Namespaces and tenants -------------------------------------------------------------------

    async def namespace(self, name: str, force: bool) -> None:
        """Delete a namespace; durable on return.  `NotEmpty` if it has topics, unless `force`."""
        if name == SYSTEM_NAMESPACE:
            raise NotAllowed(f"{name} has the state of transactions: it cannot be deleted")
        async with self._one_namespace.held(name):
            # An earlier attempt was interrupted: what it began is what this request asks for.
            if await self._finish_namespace(name):
                return
            if not await self._namespaces.has(name):
                raise NamespaceNotFound(f"namespace {name} does not exist")
            self._namespaces.close(name)
            try:
                if not force and await self._contents(name):
                    raise NotEmpty(
                        f"namespace {name} has topics: delete them, or delete it by force"
                    )
                await self.pending.begin(name)
            finally:
                if name not in self.pending:
                    self._namespaces.reopen(name)
            await self._finish_namespace(name)

    async def create_namespace(self, name: str, create: Callable[[], Awaitable[None]]) -> None:
        """Run `create`, which stores a namespace in several writes; durable on return.

        Until all of them are durable the namespace is marked as being deleted, and cannot be used:
        what a crash or a failed write leaves is deleted like any interrupted deletion.
        """
        async with self._one_namespace.held(name):
            await self._finish_namespace(name)
            # A use may have created it, and topics in it, while the store was looked up.
            if await self._namespaces.has(name) or self._namespaces.is_known(name):
                raise AlreadyExists(f"namespace {name} already exists")
            self._namespaces.close(name)
            try:
                # promise: a creation that a crash interrupts leaves nothing
                await self.pending.begin(name)
                await create()
                await self.pending.end(name)
            except (BrokerError, StorageError):
                await self._finish_namespace(name)
                raise
            self._namespaces.reopen(name)

    async def _contents(self, namespace: str) -> list[TopicName]:
        await self._locks.settled(lambda topic: topic.namespace_name == namespace)
        there = self._topic_host.loaded(namespace)
        there += await self._catalogue.logs(namespace)
        for domain in DOMAINS:
            there += await self._catalogue.partitioned_topics(namespace, domain)
        # The broker's own topics are not contents: their namespace is empty for its users.
        return [topic for topic in there if not topic.is_system]

    async def _finish_namespace(self, name: str) -> bool:
        """Continue a deletion that has begun; return whether that deleted the namespace."""
        if name not in self.pending:
            return False
        is_begun = await self.pending.is_begun(name)
        if is_begun:
            await self._locks.settled(lambda topic: topic.namespace_name == name)
            if self.pending.listed(name) is None:
                self.pending.remember(name, await self._catalogue.topics(name))
            there = {*self._topic_host.loaded(name), *await self._catalogue.logs(name)}
            await for_each(self._runtime, sorted(there), self.topics.erase)
            keys = await keys_under(self._runtime.metadata, policies_of_topics(name))
            topics = [topic_of_names(f"{name}/{key}") for key in keys]
            await for_each(self._runtime, topics, self._delete_attached)
            for domain in DOMAINS:
                for topic in await self._catalogue.partitioned_topics(name, domain):
                    await self._catalogue.delete_partitioned(topic)
            await self._delete_attached(name)
            await self._namespaces.delete(name)
            self.pending.announce(name)
            await self.pending.end(name)
        self._namespaces.reopen(name)
        return is_begun

    async def tenant(self, name: str, force: bool) -> None:
        """Delete a tenant; durable on return.  `NotEmpty` if it has namespaces, unless `force`."""
        async with self._one_tenant.held():
            await self._tenants.get(name)
            self._tenants.close(name)
            try:
                # Check after `close`, so that no other creation begins: a creation that has begun
                # would store its namespace after the tenant is gone.
                if self._tenants.is_used(name):
                    raise NotEmpty(f"a namespace of tenant {name} is being created: try again")
                if await self._namespaces.of_tenant(name):
                    if not force:
                        raise NotEmpty(
                            f"tenant {name} has namespaces: delete them, or delete it by force"
                        )
                    await self.pending.begin(name)
                    await self._finish_tenant(name)
                else:
                    await self._tenants.delete(name)
            finally:
                if name not in self.pending:
                    self._tenants.reopen(name)

    async def _finish_tenant(self, name: str) -> None:
        if await self.pending.is_begun(name):
            for namespace in await self._namespaces.of_tenant(name):
                with suppress(NamespaceNotFound):  # deleted concurrently
                    await self.namespace(namespace, force=True)
            await self._tenants.delete(name)
            await self.pending.end(name)
        self._tenants.reopen(name)


def _is_namespace(name: str) -> bool:
    return "/" in name and "://" not in name
