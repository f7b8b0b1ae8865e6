"""Loaded topics of a broker of several processes: each is loaded by the worker that serves it."""

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from magnetar_broker.authorization.rules import Grants
from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.runtime import Runtime
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.bundle_owners import JOINED, PLACED
from magnetar_broker.placement.worker_links import WorkerLinks, unless_ended
from magnetar_broker.policies.policy import Subject
from magnetar_proto.names import TopicName


class DistributedTopicHost:
    """The `TopicHost` of the controller, over links to the workers.

    It knows the loaded topics from the workers' notices.  A worker sends a notice before it answers
    the request that caused the change, so the change is known when the answer comes.  Topics of a
    worker that ended are not loaded any more.
    """

    def __init__(self, placement: Placement, links: WorkerLinks, runtime: Runtime) -> None:
        self.links = links
        self._placement = placement
        self._runtime = runtime
        self._loaded: dict[TopicName, Link] = {}
        """The link to the worker of each loaded topic."""
        self._in_change: dict[TopicName, Link] = {}
        """The link to the worker that loads, closes or deletes a topic now."""
        self._of_namespace: dict[str, set[TopicName]] = {}
        self.changed_settings: dict[str, str] = {}
        """The settings that were changed while the broker ran, by key."""

    # The workers ----------------------------------------------------------------------------

    def hold(self, link: Link, names: list[TopicName]) -> None:
        """Let a worker that served a former controller write the metadata of its topics.

        It has them loaded, or loads, closes or deletes them for that controller, until it joins.
        """
        # promise: topics that a worker has loaded go on while the controller is replaced
        self._in_change.update(dict.fromkeys(names, link))

    def join(self, worker: int, link: Link, loaded: list[TopicName]) -> None:
        """Add a worker, which loads topics until its link ends or the worker leaves.

        It has loaded the topics `loaded`, for a former controller.
        """
        self.ended(link)  # what it held for the former controller has ended
        for name in loaded:
            self.changed(link, name, True)
        # promise: workers start with the changed settings
        link.notify("topic_host.settings", self.changed_settings)
        owners = self._placement.owners
        for joined in owners.joined():
            # promise: a worker that joins learns the addresses of others
            link.notify(JOINED, *joined)
        for namespace, placed in owners.all():
            # promise: a worker that joins learns the owners of bundles
            link.notify(PLACED, *owners.values_of(namespace, placed))
        self.links.join(worker, link, partial(self.ended, link))

    async def link_of(self, name: TopicName) -> Link:
        """Return the link to the worker that has loaded a topic, or should load it.

        `NotReady` while that worker starts or stops.
        """
        return self._loaded.get(name) or await self._owner_of(name)

    async def _owner_of(self, name: TopicName) -> Link:
        worker = await self._placement.worker_of(name)
        link = self.links.loading(worker)
        if link is None:
            raise NotReady(
                f"{name} is not served now, its process (worker {worker}) is starting or stopping: "
                "retry"
            )
        return link

    def may_write(self, link: Link, name: TopicName) -> bool:
        """Return whether the worker of this link may write the metadata of a topic."""
        # promise[always]: only the worker that has a topic writes its metadata
        return link in (self._loaded.get(name), self._in_change.get(name))

    def changed(self, link: Link, name: TopicName, is_loaded: bool) -> None:
        """Apply a worker's notice that it has loaded a topic or has unloaded it."""
        if is_loaded:
            self._loaded[name] = link
            self._of_namespace.setdefault(name.namespace_name, set()).add(name)
        elif self._loaded.get(name) is link:
            del self._loaded[name]
            others = self._of_namespace[name.namespace_name]
            others.discard(name)
            if not others:
                del self._of_namespace[name.namespace_name]

    def ended(self, link: Link) -> None:
        """Note that a worker's link has ended, and with it all its topics."""
        for name in [name for name, owner in self._loaded.items() if owner is link]:
            self.changed(link, name, False)
        for name in [name for name, worker in self._in_change.items() if worker is link]:
            del self._in_change[name]

    # Loading and unloading ------------------------------------------------------------------

    def is_loaded(self, name: TopicName) -> bool:
        return name in self._loaded

    def is_in_place(self, name: TopicName) -> bool:
        worker = self._placement.owners.worker_of(name)
        link = self._loaded.get(name)
        return link is not None and worker is not None and link is self.links.of(worker)

    def out_of_place(self) -> list[TopicName]:
        """Return the topics that are loaded elsewhere than at the owner of their bundle."""
        return [name for name in self._loaded if not self.is_in_place(name)]

    def loaded(self, namespace: str) -> list[TopicName]:
        return list(self._of_namespace.get(namespace, ()))

    async def load(self, name: TopicName, create: bool) -> bool:
        # promise[await self._owner_of(name) -> self.links.all()[0]]: topics are loaded by the
        #   worker that serves them
        link = await self._owner_of(name)
        if self._loaded.get(name) is link:
            return True
        # promise: a topic is loaded only after its former owner has closed it
        await self.unload(name)  # the former owner, if the bundle was given away
        found: bool = await self._change(link, name, "load", create)
        return found

    async def evict(self, names: list[TopicName], condition: Condition) -> bool:
        by_link: dict[Link, list[TopicName]] = {}
        for name in names:
            if name in self._loaded:
                by_link.setdefault(self._loaded[name], []).append(name)
        evicted: list[TopicName] = []
        for link, there in by_link.items():
            texts = [str(name) for name in there]
            asked: Awaitable[bool] = link.request("topic_host.evict", texts, condition.value)
            # promise[asked, True) -> asked, True) and not evicted]:
            #   partitions in use on another worker are not deleted
            if not await unless_ended(link, asked, True):
                # The other workers met the condition: clients do not notice that topics are closed.
                await for_each(self._runtime, evicted, self.unload)
                return False
            evicted += there
            # These stay in change until unloaded or erased: that worker has them, but not loaded.
            self._in_change.update(dict.fromkeys(there, link))
        return True

    async def unload(self, name: TopicName) -> None:
        link = self._loaded.get(name) or self._in_change.get(name)
        if link is not None:
            await unless_ended(link, self._change(link, name, "unload"), None)

    async def erase(self, name: TopicName) -> None:
        link = self._loaded.get(name) or self._in_change.get(name) or await self._owner_of(name)
        await self._change(link, name, "erase")

    async def _change(self, link: Link, name: TopicName, what: str, *args: object) -> Any:
        """Make a worker load, close or delete a topic, whose metadata it may write meanwhile."""
        self._in_change[name] = link
        try:
            return await link.request(f"topic_host.{what}", str(name), *args)
        finally:
            self._in_change.pop(name, None)

    # Policies -------------------------------------------------------------------------------

    async def apply(self, subject: Subject, partitions: int) -> None:
        # Ask every worker: a worker that has no such topic then knows the policies, too.
        await self._ask_all("apply", str(subject), partitions)

    async def reauthorize(self, namespace: str, grants: Grants) -> None:
        admins, permissions, prefix_mode = grants
        await self._ask_all("reauthorize", namespace, list(admins), permissions, prefix_mode)

    async def configure(self, changed: Mapping[str, str]) -> None:
        self.changed_settings = dict(changed)
        await self._ask_all("configure", self.changed_settings)

    async def _ask_all(self, what: str, *values: object) -> None:
        async def ask(link: Link) -> None:
            asked: Awaitable[None] = link.request(f"topic_host.{what}", *values)
            await unless_ended(link, asked, None)

        # promise[links.all() -> links.all()[:1]]: a change of policies or settings is answered when
        #   all workers have applied it
        await for_each(self._runtime, self.links.all(), ask)

    # Subscriptions --------------------------------------------------------------------------

    async def subscriptions_of(self, name: TopicName) -> list[str]:
        link = await self.link_of(name)
        found: list[str] = await link.request("topic_host.subscriptions_of", str(name))
        return found

    async def subscribe_unlisted(self, name: TopicName, subscriptions: list[str]) -> None:
        await self._change(await self.link_of(name), name, "subscribe_unlisted", subscriptions)
