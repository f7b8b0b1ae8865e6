"""The directory of names in another process: `Names` over a link to the controller."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from magnetar_broker.authorization.rules import AccessRequest
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.names.interface import Listing
from magnetar_broker.names.lookup_limit import LookupLimit
from magnetar_broker.names.topic_lists import Change, Watcher
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.placement.bundle_owners import BundleOwners, following
from magnetar_broker.placement.ownership import Owner
from magnetar_broker.schemas.registry import Registered
from magnetar_broker.schemas.types import Schema
from magnetar_broker.schemas.values import registered_of, schema_values
from magnetar_proto.names import TopicName
from magnetar_storage.errors import ProcessUnavailable

logger = logging.getLogger(__name__)

Join = Callable[[], Awaitable[None]]


class RemoteDirectory:
    """The `Names` of one worker; its requests are answered by `names/workers/requests.py`."""

    def __init__(
        self, settings: Settings, owners: BundleOwners, joined: SuccessiveLinks, join: Join
    ) -> None:
        """`joined` are the links to controllers that this worker has joined; `join` joins the first
        one.
        """
        self._owners = owners
        self._joined = joined
        self._join = join
        self._lookups = LookupLimit(settings.max_concurrent_lookup_request)
        self._watched: dict[int, _RemoteTopics] = {}
        self._numbers = count()

    def follow(self, link: Link) -> None:
        """Prepare the use of a link to a controller, before it is connected."""
        link.serve({"names.changed": self._changed})
        link.serve(following(self._owners))

    async def start(self) -> None:
        """Announce to the controller that this worker loads topics; names can be used on return."""
        await self._join()

    async def stop(self) -> None:
        """Close all topics; topics that are being loaded are closed before this returns."""
        with suppress(ProcessUnavailable):  # the controller has ended, so it has nothing loaded
            await self._request("names.stop")

    async def watch_again(self, link: Link) -> None:
        """Continue the watched lists at another controller, and notify watchers of what they have
        missed.
        """
        for number, watched in list(self._watched.items()):
            if not watched.begin_again():
                continue  # it waits for a controller, and asks it then
            try:
                names, digest = await link.request(
                    "names.watch", number, watched.namespace, watched.pattern
                )
            except BrokerError as refusal:  # the namespace is being deleted
                logger.warning("a watched list of topics does not go on: %s", refusal)
            else:
                watched.replace(names, digest)

    async def _request(self, name: str, *args: Any) -> Any:
        """Ask the controller; waits for its next process if it is away.

        `ProcessUnavailable` if it ends before it answers, or stays away.
        """
        return await (await self._joined.present()).request(name, *args)

    def lookup(self) -> LookupLimit:
        """Return a context that counts a lookup; it raises `TooManyRequests` at the limit."""
        return self._lookups

    async def authorize(self, roles: Sequence[str], accesses: Sequence[AccessRequest]) -> None:
        """Check that each role has every permission asked for; raise `NotAuthorized` if not."""
        asked = [(access.permission.value, *access[1:]) for access in accesses]
        await self._request("names.authorize", list(roles), asked)

    # Topics -----------------------------------------------------------------------------

    async def open(self, name: TopicName, create: bool) -> None:
        """Load a topic here, and create it if `create` is set and policies allow it."""
        await self._request("names.open", str(name), create)

    async def locate(self, name: TopicName, authoritative: bool) -> Owner:
        """Return the owner of a topic, which need not exist; its namespace must, or is created."""
        worker: str = await self._request("names.locate", str(name))
        return self._owners.owner(self._owners.known(worker))

    async def partitions(self, name: TopicName, create: bool) -> int:
        """Return the number of partitions; 0 for a topic that is not partitioned."""
        found: int = await self._request("names.partitions", str(name), create)
        return found

    async def delete_inactive(self, name: TopicName) -> None:
        """Delete a loaded topic if it is inactive even after it was locked."""
        await self._request("names.delete_inactive", str(name))

    # Lists ------------------------------------------------------------------------------

    async def topics(
        self, namespace: str, pattern: TopicPattern | None, persistent: bool, non_persistent: bool
    ) -> Listing:
        """Return the stored topics of a namespace, the loaded non-persistent ones, or both."""
        text = None if pattern is None else pattern.text
        found = await self._request("names.topics", namespace, text, persistent, non_persistent)
        return Listing(*found)

    async def watch(self, namespace: str, pattern: TopicPattern) -> "_RemoteTopics":
        """Return a namespace's stored topics; the caller adds a watcher, or removes it, at once."""
        number = next(self._numbers)
        # Changes may be handled before this continues with the answer.
        watched = self._watched[number] = _RemoteTopics(self, number, namespace, pattern.text)
        try:
            names, digest = await self._request("names.watch", number, namespace, pattern.text)
        except BaseException:
            self.unwatch(number)
            raise
        watched.replace(names, digest)
        return watched

    def unwatch(self, number: int) -> None:
        """End a watched list."""
        if self._watched.pop(number, None) is not None and self._joined.latest is not None:
            self._joined.latest.notify("names.unwatch", number)

    def _changed(self, number: int, changes: list[Change], digest: str) -> None:
        """Apply a notice of changes in a watched list, with the new hash of the list."""
        if number in self._watched:  # else the list was unwatched meanwhile
            self._watched[number].changed(changes, digest)

    # Schemas ----------------------------------------------------------------------------

    async def schema(self, name: TopicName, number: int | None) -> Registered | None:
        """Return a version of a topic's schema, or the latest one; None if it does not exist."""
        return registered_of(await self._request("names.schema", str(name), number))

    async def producer_schema(self, name: TopicName, schema: Schema | None) -> bytes:
        """Return the version that a producer of a loaded topic publishes."""
        values = None if schema is None else schema_values(schema)
        version: bytes = await self._request("names.producer_schema", str(name), values)
        return version

    async def check_consumer_schema(self, name: TopicName, schema: Schema, idle: bool) -> None:
        """Make sure that a consumer can read a loaded topic."""
        await self._request("names.check_consumer_schema", str(name), schema_values(schema), idle)


class _RemoteTopics:
    """The `WatchedTopics` of one watcher."""

    def __init__(
        self, directory: RemoteDirectory, number: int, namespace: str, pattern: str
    ) -> None:
        self.namespace = namespace
        self.pattern = pattern
        self.hash = ""
        self._directory = directory
        self._number = number
        self._present: set[str] | None = None
        """The names of the list; None while it is read."""
        self._former: set[str] | None = None
        """The names that the watcher knows while the list is read again."""
        self._watcher: Watcher | None = None
        self._early: list[tuple[list[Change], str]] = []
        """Changes that came before the list: they are part of it."""

    @property
    def names(self) -> list[str]:
        """The names of the list, in order."""
        return sorted(self._present or ())

    def begin_again(self) -> bool:
        """Prepare for `replace`; return False if the list was never read."""
        if self._present is not None:
            self._former, self._present = self._present, None
        self._early.clear()
        return self._former is not None

    def replace(self, names: list[str], digest: str) -> None:
        """Set the list as it was read, and notify the watcher of differences."""
        former, present = self._former, set(names)
        early, self._early = self._early, []
        self._present, self._former, self.hash = present, None, digest
        for changes, self.hash in early:
            _apply(changes, present)
        if former is not None and self._watcher is not None and former != present:
            gone = [(name, False) for name in sorted(former - present)]
            self._watcher.changed(gone + [(name, True) for name in sorted(present - former)])

    def changed(self, changes: list[Change], new_hash: str) -> None:
        """Apply changes to the list, and update its hash."""
        if self._present is None:
            # promise: changes between the answer of a list and its watcher are kept
            self._early.append((changes, new_hash))
            return
        self.hash = new_hash
        _apply(changes, self._present)
        if self._watcher is not None:
            self._watcher.changed(changes)

    def add(self, watcher: Watcher) -> None:
        """Notify the watcher of every change from now on; a list has only one watcher."""
        self._watcher = watcher

    def remove(self, watcher: Watcher) -> None:
        """End the list."""
        self._directory.unwatch(self._number)


def _apply(changes: list[Change], names: set[str]) -> None:
    for name, exists in changes:
        (names.add if exists else names.discard)(name)
