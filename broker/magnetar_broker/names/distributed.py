"""Loaded topics of a broker of several processes: each is loaded by the worker that serves it."""

from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.runtime import Runtime
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.links.link import Link
from magnetar_broker.names.ownership import Divided
from magnetar_broker.names.residence import Condition
from magnetar_broker.policies.policy import Subject
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable

T = TypeVar("T")


class DistributedResidence:
    """The `Residence` of the controller, over links to the workers.

    Which topics are loaded is known from the workers' notices.  A worker sends one before the
    answer to whatever changed it, so it is known when that is answered.  Topics of a worker that
    ended are not loaded any more.
    """

    def __init__(self, owners: Divided, runtime: Runtime) -> None:
        self._owners = owners
        self._runtime = runtime
        self._links: dict[int, Link] = {}
        self._leaving: set[Link] = set()
        self._loaded: dict[TopicName, Link] = {}
        """The link to the worker of each loaded topic."""
        self._of_namespace: dict[str, set[TopicName]] = {}
        self._joined = Waiters(runtime.clock)

    # The workers ----------------------------------------------------------------------------

    def join(self, worker: int, link: Link) -> None:
        """A worker loads topics from now on, until its link ends or it leaves."""
        if worker in self._links:
            self._links[worker].close()  # of the process before it, whose end was not noticed yet
        self._links[worker] = link
        self._joined.release()
        link.when_ended(partial(self._ended, worker, link))

    def leave(self, worker: int) -> None:
        """A worker stops: it loads no more topics, and closes those that it has."""
        if worker in self._links:
            self._leaving.add(self._links[worker])

    def missing(self) -> list[int]:
        """The numbers of the workers that have not joined, or have ended."""
        return [number for number in range(self._owners.workers) if number not in self._links]

    async def complete(self) -> None:
        """Return when all workers have joined."""
        while self.missing():
            await self._joined.wait()

    def links(self) -> list[Link]:
        """The links to all workers that have joined."""
        return list(self._links.values())

    def link_of(self, name: TopicName) -> Link:
        """The link to the worker that serves a topic; `NotReady` while it starts or stops."""
        worker = self._owners.worker_of(name)
        link = self._links.get(worker)
        if link is None or link in self._leaving:
            raise NotReady(
                f"{name} is not served now, its process (worker {worker}) is starting or stopping: "
                "retry"
            )
        return link

    def changed(self, link: Link, name: TopicName, is_loaded: bool) -> None:
        """The notice of a worker that it has loaded a topic, or has it no more."""
        if is_loaded:
            self._loaded[name] = link
            self._of_namespace.setdefault(name.namespace_name, set()).add(name)
        elif self._loaded.get(name) is link:
            del self._loaded[name]
            others = self._of_namespace[name.namespace_name]
            others.discard(name)
            if not others:
                del self._of_namespace[name.namespace_name]

    def _ended(self, worker: int, link: Link) -> None:
        self._leaving.discard(link)
        if self._links.get(worker) is link:
            del self._links[worker]
        for name in [name for name, owner in self._loaded.items() if owner is link]:
            self.changed(link, name, False)

    # Loading and unloading ------------------------------------------------------------------

    def is_loaded(self, name: TopicName) -> bool:
        return name in self._loaded

    def loaded(self, namespace: str) -> list[TopicName]:
        return list(self._of_namespace.get(namespace, ()))

    async def load(self, name: TopicName, create: bool) -> bool:
        found: bool = await self.link_of(name).request("residence.load", str(name), create)
        return found

    async def evict(self, names: list[TopicName], condition: Condition) -> bool:
        by_link: dict[Link, list[TopicName]] = {}
        for name in names:
            if name in self._loaded:
                by_link.setdefault(self._loaded[name], []).append(name)
        evicted: list[TopicName] = []
        for link, there in by_link.items():
            texts = [str(name) for name in there]
            asked: Awaitable[bool] = link.request("residence.evict", texts, condition.value)
            if not await _answer(link, asked, True):
                # The others met the condition: nobody notices that they are closed.
                await for_each(self._runtime, evicted, self.unload)
                return False
            evicted += there
        return True

    async def unload(self, name: TopicName) -> None:
        link = self._links.get(self._owners.worker_of(name))
        if link is not None:
            asked: Awaitable[None] = link.request("residence.unload", str(name))
            await _answer(link, asked, None)

    async def erase(self, name: TopicName) -> None:
        await self.link_of(name).request("residence.erase", str(name))

    # Policies -------------------------------------------------------------------------------

    async def apply(self, subject: Subject, partitions: int) -> None:
        # To every worker: one that has no such topic knows the policies then, too.
        async def apply(link: Link) -> None:
            asked: Awaitable[None] = link.request("residence.apply", str(subject), partitions)
            await _answer(link, asked, None)

        await for_each(self._runtime, self.links(), apply)

    # Subscriptions --------------------------------------------------------------------------

    async def subscriptions_of(self, name: TopicName) -> list[str]:
        link = self.link_of(name)
        found: list[str] = await link.request("residence.subscriptions_of", str(name))
        return found

    async def subscribe_unlisted(self, name: TopicName, subscriptions: list[str]) -> None:
        link = self.link_of(name)
        await link.request("residence.subscribe_unlisted", str(name), subscriptions)


async def _answer(link: Link, asked: Awaitable[T], of_ended: T) -> T:
    """The answer of a worker; `of_ended` if it has ended, and with it all its topics."""
    try:
        return await asked
    except Unavailable:
        if link.has_ended:
            return of_ended
        raise
