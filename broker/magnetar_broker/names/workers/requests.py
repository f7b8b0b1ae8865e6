"""Requests of workers to the directory of names, answered in the controller."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from magnetar_broker.authorization.rules import AccessRequest, RequiredPermission
from magnetar_broker.base.errors import BrokerError, NotReady
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.ipc.link import Handler, Link
from magnetar_broker.names.directory import Directory
from magnetar_broker.names.topic_lists import Change, TopicList
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.names.workers.distributed_topic_host import DistributedTopicHost
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.policies.shared import SharedPolicies
from magnetar_broker.schemas.values import registered_values, schema_of_values
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError

logger = logging.getLogger(__name__)


class NameRequests:
    """The requests of all workers; `serve` each link before it is connected, then `start` once."""

    def __init__(
        self,
        directory: Directory,
        placement: Placement,
        topic_host: DistributedTopicHost,
        policies: SharedPolicies,
        become_directory: Callable[[], Awaitable[None]],
    ) -> None:
        """`become_directory` ends the writes of any former directory, and permits those of this."""
        self.directory = directory
        self.placement = placement
        self.topic_host = topic_host
        self.policies = policies
        self._become_directory = become_directory
        self._here: set[int] = set()
        """The workers that have asked to join."""
        self._replaces_another = False
        """Whether a worker has served a former controller."""
        self._is_loaded = False
        self._all_here = Waiters(directory.runtime.clock)
        self._loaded = Waiters(directory.runtime.clock)
        self._started = Waiters(directory.runtime.clock)

    async def start(self) -> None:
        """Load the directory when all workers are here, start it, and then let them continue.

        Not before: only all of them together know which topics are loaded, and where.
        """
        while len(self._here) < self.placement.owners.workers:
            await self._all_here.wait()
        await self._become_directory()
        # promise: what the directory has in memory was read after the former one's last write
        await self.directory.load()
        self._is_loaded = True
        self._loaded.release()
        await self.topic_host.links.complete()
        await self.directory.serve()
        self._started.release()
        if self._replaces_another:
            self.directory.runtime.tasks.spawn(self._complete())

    async def _complete(self) -> None:
        """Complete the moves and changes of permissions that a former controller has begun."""
        opening, authorizer = self.directory.opening, self.directory.authorizer
        try:
            # promise: a move that a former controller has begun is completed
            await for_each(self.directory.runtime, self.topic_host.out_of_place(), opening.move)
            # promise: a change of permissions that a former controller has stored is enforced
            await authorizer.check_all()
        except (BrokerError, StorageError) as error:
            logger.error("what a former controller has begun is not all completed: %s", error)

    async def here(self, worker: int, table: list[tuple[Any, ...]], has_loaded: bool) -> None:
        """Note that a worker is there, with its table of owners; return when it may join."""
        for values in table:
            # promise: a bundle keeps its owner when the controller is replaced
            self.placement.take_over(*self.placement.owners.placed_of(*values))
        self._replaces_another |= has_loaded
        self._here.add(worker)
        self._all_here.release()
        if not self._is_loaded:
            await self._loaded.wait()

    async def started(self) -> None:
        """Wait until the directory can be used."""
        if not self.directory.ready:
            await self._started.wait()

    def serve(self, worker: int, link: Link) -> None:
        """Answer the requests of one worker."""
        requests = _OfWorker(self, worker, link)
        link.serve(requests.handlers)
        link.when_ended(requests.end)  # promise: the lists that a worker watches end with it


class _OfWorker:
    """The requests of one worker."""

    def __init__(self, all_requests: NameRequests, worker: int, link: Link) -> None:
        self._requests = all_requests
        self._directory = all_requests.directory
        self._worker = worker
        self._link = link
        self._watchers: dict[int, _LinkedWatcher] = {}
        self.handlers: dict[str, Handler] = {
            "topic_host.changed": self._changed,
            "names.hold": self._hold,
            "names.join": self._join,
            "names.stop": self._stop,
            "names.authorize": self._authorize,
            "names.open": self._open,
            "names.locate": self._locate,
            "names.partitions": self._partitions,
            "names.delete_inactive": self._delete_inactive,
            "names.topics": self._topics,
            "names.watch": self._watch,
            "names.unwatch": self._unwatch,
            "names.schema": self._schema,
            "names.producer_schema": self._producer_schema,
            "names.check_consumer_schema": self._check_consumer_schema,
        }

    def end(self) -> None:
        """Note that the link has ended."""
        self._requests.topic_host.ended(self._link)
        for number in list(self._watchers):
            self._unwatch(number)

    # The worker -------------------------------------------------------------------------

    def _changed(self, name: str, is_loaded: bool) -> None:
        self._requests.topic_host.changed(self._link, TopicName.parse(name), is_loaded)

    def _hold(self, names: list[str]) -> None:
        self._requests.topic_host.hold(self._link, list(map(TopicName.parse, names)))

    async def _join(self, loaded: list[str], table: list[tuple[Any, ...]]) -> None:
        requests, names = self._requests, list(map(TopicName.parse, loaded))
        await requests.here(self._worker, table, bool(table))
        for name in dict.fromkeys(name.base for name in names):
            # promise: the policies of topics that are loaded are in memory
            await requests.policies.load(name)
        if self._link.has_ended:
            return
        # Share the policies before topics are loaded: topics need them.
        requests.policies.share(self._link)
        requests.topic_host.join(self._worker, self._link, names)
        await requests.started()
        # Resume the deletions that the end of the worker's former process interrupted.
        self._directory.runtime.tasks.spawn(self._directory.deletion.resume())

    async def _stop(self) -> None:
        self._requests.topic_host.links.leave(self._worker)
        # Include topics that the worker loads or closes though their bundles were given away.
        # promise: a worker that stops settles the topics that it was given
        await self._directory.locks.settled(self._is_concerned)

    def _is_concerned(self, name: TopicName) -> bool:
        topic_host, owners = self._requests.topic_host, self._requests.placement.owners
        return owners.worker_of(name) == self._worker or topic_host.may_write(self._link, name)

    async def _authorize(self, roles: list[str], asked: list[tuple[str, str, str]]) -> None:
        accesses = [AccessRequest(RequiredPermission(need), *of) for need, *of in asked]
        await self._directory.authorize(roles, accesses)

    # Topics -----------------------------------------------------------------------------

    async def _open(self, text: str, create: bool) -> None:
        name = TopicName.parse(text)
        await self._directory.namespaces.require(name.namespace_name)
        # promise: a topic is loaded by one worker only
        if await self._requests.placement.worker_of(name) != self._worker:
            raise NotReady(f"{name} is served by another process of this broker: look it up again")
        await self._directory.open(name, create)

    async def _locate(self, text: str) -> str:
        name, placement = TopicName.parse(text), self._requests.placement
        await self._directory.namespaces.require(name.namespace_name)
        return placement.owners.names[await placement.worker_of(name)]

    async def _partitions(self, name: str, create: bool) -> int:
        return await self._directory.partitions(TopicName.parse(name), create)

    async def _delete_inactive(self, name: str) -> None:
        await self._directory.delete_inactive(TopicName.parse(name))

    # Lists ------------------------------------------------------------------------------

    async def _topics(
        self, namespace: str, text: str | None, persistent: bool, non_persistent: bool
    ) -> tuple[list[str], str]:
        pattern = None if text is None else TopicPattern(text)
        listed = await self._directory.topics(namespace, pattern, persistent, non_persistent)
        return listed.names, listed.hash

    async def _watch(self, number: int, namespace: str, text: str) -> tuple[list[str], str]:
        watcher = self._watchers[number] = _LinkedWatcher(self._link, number)
        try:
            watched = await self._directory.watch(namespace, TopicPattern(text))
        except BaseException:
            self._unwatch(number)
            raise
        if number in self._watchers:  # else the list was unwatched meanwhile
            watcher.begin(watched)
        return watched.names, watched.hash

    def _unwatch(self, number: int) -> None:
        if number in self._watchers:
            self._watchers.pop(number).end()

    # Schemas ----------------------------------------------------------------------------

    async def _schema(self, name: str, number: int | None) -> object:
        return registered_values(await self._directory.schema(TopicName.parse(name), number))

    async def _producer_schema(self, name: str, values: tuple[object, ...] | None) -> bytes:
        schema = None if values is None else schema_of_values(values)
        return await self._directory.producer_schema(TopicName.parse(name), schema)

    async def _check_consumer_schema(
        self, name: str, values: tuple[object, ...], idle: bool
    ) -> None:
        schema = schema_of_values(values)
        await self._directory.check_consumer_schema(TopicName.parse(name), schema, idle)


class _LinkedWatcher:
    """Sends the changes of a list over a link."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self._number = number
        self._watched: TopicList | None = None

    def begin(self, watched: TopicList) -> None:
        """Send every change of a list from now on."""
        self._watched = watched
        watched.add(self)

    def changed(self, changes: list[Change]) -> None:
        """Send the names that were created and deleted, in this order."""
        assert self._watched is not None
        self._link.notify("names.changed", self._number, changes, self._watched.hash)

    def end(self) -> None:
        """Stop sending notices."""
        if self._watched is not None:
            self._watched.remove(self)
