"""The directory of names in another process: `Names` over a link to the controller."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from magnetar_broker.authorization.rules import AccessRequest
from magnetar_broker.config import Settings
from magnetar_broker.ipc.link import Link
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


class RemoteDirectory:
    """The `Names` of one worker; its requests are answered by `names/workers/requests.py`."""

    def __init__(self, settings: Settings, owners: BundleOwners, link: Link) -> None:
        """Call this before the link is connected."""
        self._owners = owners
        self._link = link
        self._lookups = LookupLimit(settings.max_concurrent_lookup_request)
        self._watched: dict[int, _RemoteTopics] = {}
        self._numbers = count()
        link.serve({"names.changed": self._changed})
        link.serve(following(owners))

    async def start(self) -> None:
        """Announce to the controller that this worker loads topics; names can be used on return."""
        await self._link.request("names.start")

    async def stop(self) -> None:
        """Close all topics; topics that are being loaded are closed before this returns."""
        with suppress(ProcessUnavailable):  # the controller has ended, so it has nothing loaded
            await self._link.request("names.stop")

    def lookup(self) -> LookupLimit:
        """Return a context that counts a lookup; it raises `TooManyRequests` at the limit."""
        return self._lookups

    async def authorize(self, roles: Sequence[str], accesses: Sequence[AccessRequest]) -> None:
        """Check that each role has every permission asked for; raise `NotAuthorized` if not."""
        asked = [(access.permission.value, *access[1:]) for access in accesses]
        await self._link.request("names.authorize", list(roles), asked)

    # Topics -----------------------------------------------------------------------------

    async def open(self, name: TopicName, create: bool) -> None:
        """Load a topic here, and create it if `create` is set and policies allow it."""
        await self._link.request("names.open", str(name), create)

    async def locate(self, name: TopicName, authoritative: bool) -> Owner:
        """Return the owner of a topic, which need not exist; its namespace must, or is created."""
        return self._owners.owner(await self._link.request("names.locate", str(name)))

    async def partitions(self, name: TopicName, create: bool) -> int:
        """Return the number of partitions; 0 for a topic that is not partitioned."""
        found: int = await self._link.request("names.partitions", str(name), create)
        return found

    async def delete_inactive(self, name: TopicName) -> None:
        """Delete a loaded topic if it is inactive even after it was locked."""
        await self._link.request("names.delete_inactive", str(name))

    # Lists ------------------------------------------------------------------------------

    async def topics(
        self, namespace: str, pattern: TopicPattern | None, persistent: bool, non_persistent: bool
    ) -> Listing:
        """Return the stored topics of a namespace, the loaded non-persistent ones, or both."""
        text = None if pattern is None else pattern.text
        found = await self._link.request(
            "names.topics", namespace, text, persistent, non_persistent
        )
        return Listing(*found)

    async def watch(self, namespace: str, pattern: TopicPattern) -> "_RemoteTopics":
        """Return a namespace's stored topics; the caller adds a watcher, or removes it, at once."""
        number = next(self._numbers)
        # Changes may be handled before this continues with the answer.
        watched = self._watched[number] = _RemoteTopics(self, number)
        try:
            watched.names, watched.hash = await self._link.request(
                "names.watch", number, namespace, pattern.text
            )
        except BaseException:
            self.unwatch(number)
            raise
        return watched

    def unwatch(self, number: int) -> None:
        """End a watched list."""
        if self._watched.pop(number, None) is not None:
            self._link.notify("names.unwatch", number)

    def _changed(self, number: int, changes: list[Change], digest: str) -> None:
        """Apply a notice of changes in a watched list, with the new hash of the list."""
        if number in self._watched:  # else the list was unwatched meanwhile
            self._watched[number].changed(changes, digest)

    # Schemas ----------------------------------------------------------------------------

    async def schema(self, name: TopicName, number: int | None) -> Registered | None:
        """Return a version of a topic's schema, or the latest one; None if it does not exist."""
        return registered_of(await self._link.request("names.schema", str(name), number))

    async def producer_schema(self, name: TopicName, schema: Schema | None) -> bytes:
        """Return the version that a producer of a loaded topic publishes."""
        values = None if schema is None else schema_values(schema)
        version: bytes = await self._link.request("names.producer_schema", str(name), values)
        return version

    async def check_consumer_schema(self, name: TopicName, schema: Schema, idle: bool) -> None:
        """Make sure that a consumer can read a loaded topic."""
        await self._link.request(
            "names.check_consumer_schema", str(name), schema_values(schema), idle
        )


class _RemoteTopics:
    """The `WatchedTopics` of one watcher."""

    def __init__(self, directory: RemoteDirectory, number: int) -> None:
        self.names: list[str] = []
        self.hash = ""
        self._directory = directory
        self._number = number
        self._watcher: Watcher | None = None
        self._early: list[tuple[list[Change], str]] = []
        """Changes that came before a watcher was added: they become part of the list."""

    def changed(self, changes: list[Change], new_hash: str) -> None:
        """Apply changes to the list, and update its hash."""
        if self._watcher is None:
            # promise: changes between the answer of a list and its watcher are kept
            self._early.append((changes, new_hash))
        else:
            self.hash = new_hash
            self._watcher.changed(changes)

    def add(self, watcher: Watcher) -> None:
        """Notify the watcher of every change from now on; a list has only one watcher."""
        self._watcher = watcher
        present = set(self.names)
        for changes, new_hash in self._early:
            self.hash = new_hash
            for name, exists in changes:
                (present.add if exists else present.discard)(name)
        if self._early:
            self.names, self._early = sorted(present), []

    def remove(self, watcher: Watcher) -> None:
        """End the list."""
        self._directory.unwatch(self._number)
