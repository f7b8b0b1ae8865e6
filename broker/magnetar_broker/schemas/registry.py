"""Stores schemas: versions by number, durable when a call returns (docs/formats.md).

A version is a record of its own, written first; it counts from the one write on that lists it in
the topic's history.  So a crash leaves either a whole version or none.
"""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.records import keys_under
from magnetar_broker.schemas.types import Schema, type_named
from magnetar_proto.names import TopicName
from magnetar_storage.errors import BadVersion, Corrupt, StorageError
from magnetar_storage.interfaces import ABSENT, Version
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import KeyedMutex

HISTORIES, RECORDS = "/schemas/", "/schema-versions/"
ANYTHING = "/schema"
"""The prefix of all keys of schemas in the metadata."""
MAX_KNOWN: Final = 1024
"""The most histories in memory."""


def schema_name(topic: TopicName) -> str:
    """Return the name of a topic's schema, shared by its partitions and both domains."""
    return f"{topic.namespace_name}/{topic.base.encoded_local}"


class Registered(NamedTuple):
    """A version of a topic's schema."""

    number: int
    schema: Schema
    timestamp_ms: int


class History(NamedTuple):
    """The versions of a schema, and the number of the next version."""

    next: int = 0
    digests: tuple[tuple[int, str], ...] = ()
    """The number and the digest of each version, the oldest first."""
    stored: Version = 0
    """The stored version of the history; 0 if nothing is stored."""

    @property
    def latest(self) -> int | None:
        """The number of the newest version."""
        return self.digests[-1][0] if self.digests else None

    def number_of(self, digest: str) -> int | None:
        """Return the number of the version with this digest."""
        return next((number for number, known in self.digests if known == digest), None)


class Registry:
    """The registered schemas of all topics; one per broker."""

    def __init__(self, metadata: GuardedMetadata, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._known: OrderedDict[str, History] = OrderedDict()
        self._is_empty: bool | None = None
        self._writing: KeyedMutex[str] = KeyedMutex(clock)

    async def history(self, name: str) -> History:
        """Return the history of a schema; empty if nothing is registered."""
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        if await self._has_nothing():
            return History()
        return self._learn(name, await self._read(name))

    async def version(self, name: str, number: int) -> Registered | None:
        """Return a version; None if no version has this number."""
        digests = dict((await self.history(name)).digests)
        if number not in digests:
            return None
        key = _record_key(name, number, digests[number])
        found = await self._metadata.get(key)
        if found is None:
            if number not in dict((await self._read(name)).digests):
                return None  # removed meanwhile
            raise Corrupt(key, 0, "a listed version is missing; restore the metadata from a copy")
        head, _, data = found.value.partition(b"\n")
        fields = json.loads(head)
        schema = Schema(type_named(fields["type"]), data, tuple(fields["properties"].items()))
        return Registered(number, schema, fields["timestamp_ms"])

    async def add(
        self,
        name: str,
        schema: Schema,
        digest: str,
        agree: Callable[[History], Awaitable[None]],
    ) -> int:
        """Return the number of an equal version, or of the new version that is added, durably.

        `agree` is called before a version is added, and raises the refusal.
        """
        async with self._writing.held(name):
            while True:
                history = await self.history(name)
                number = history.number_of(digest)
                if number is not None:
                    return number
                await agree(history)
                number = history.next
                record = _record(schema, self._clock.now_ms())
                await self._metadata.put(_record_key(name, number, digest), record)
                grown = (*history.digests, (number, digest))
                # promise[await self._store -> self._learn]: a schema's version is given out only
                #   when it is stored
                if await self._store(name, History(number + 1, grown, history.stored)):
                    return number

    async def remove(self, name: str) -> int:
        """Delete all versions of a schema, and return the version number that the deletion takes.

        Numbers are not used again: later versions continue from it.
        """
        async with self._writing.held(name):
            while True:
                history = await self.history(name)
                if await self._store(name, History(history.next + 1, (), history.stored)):
                    break
            await self._delete_all(f"{RECORDS}{name}/")
            return history.next

    async def purge(self, name: str) -> None:
        """Delete a schema with its version numbers; repeat the call after a failure."""
        async with self._writing.held(name):
            if await self._has_nothing():
                return  # and nothing is written, for most topics have no schema
            if (await self._read(name)).stored:
                try:
                    await self._metadata.delete(HISTORIES + name)
                finally:  # also where only the store knows whether it was deleted
                    self._known.pop(name, None)
            await self._delete_all(f"{RECORDS}{name}/")

    async def names(self, namespace: str) -> list[str]:
        """Return the names of schemas in a namespace, also if a crash left only version records."""
        of_namespace = f"{namespace}/"
        names = set(await keys_under(self._metadata, HISTORIES + of_namespace))
        records = await keys_under(self._metadata, RECORDS + of_namespace)
        # promise: versions without a history go with their namespace
        names.update(key.rpartition("/")[0] for key in records)
        return sorted(of_namespace + name for name in names)

    def forget(self) -> None:
        """Read histories again, before their next use: the store has others by now."""
        self._known.clear()
        self._is_empty = None

    # The store ----------------------------------------------------------------------------

    async def _has_nothing(self) -> bool:
        """Return whether the store holds no schema at all, which saves a lookup per topic."""
        if self._is_empty is None:
            empty = not await self._metadata.list(ANYTHING, limit=1)
            self._is_empty = empty if self._is_empty is None else self._is_empty
        return self._is_empty

    async def _store(self, name: str, history: History) -> bool:
        """Replace the stored history from which `history` was derived; False if it has changed."""
        value = json.dumps({"next": history.next, "versions": history.digests}).encode()
        try:
            stored = await self._metadata.put(HISTORIES + name, value, history.stored or ABSENT)
        except BadVersion:
            self._known.pop(name, None)
            self._is_empty = False
            return False
        except StorageError:  # whether it was written is known only to the store
            self._known.pop(name, None)
            self._is_empty = None
            raise
        self._is_empty = False
        self._learn(name, history._replace(stored=stored))
        return True

    async def _read(self, name: str) -> History:
        found = await self._metadata.get(HISTORIES + name)
        if found is None:
            return History()
        fields = json.loads(found.value)
        digests = tuple((number, digest) for number, digest in fields["versions"])
        return History(fields["next"], digests, found.version)

    def _learn(self, name: str, history: History) -> History:
        """Keep the newest history, because answers of the store can arrive out of order."""
        known = self._known.get(name)
        if known is None or known.stored <= history.stored:
            self._known[name] = known = history
        self._known.move_to_end(name)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return known

    async def _delete_all(self, prefix: str) -> None:
        for key in await keys_under(self._metadata, prefix):
            await self._metadata.delete(prefix + key)


def _record_key(name: str, number: int, digest: str) -> str:
    """Return the key, with the digest: concurrent registrations never write to the same key."""
    return f"{RECORDS}{name}/{number}-{digest}"


def _record(schema: Schema, timestamp_ms: int) -> bytes:
    head = {
        "type": schema.type.name,
        "properties": dict(schema.properties),
        "timestamp_ms": timestamp_ms,
    }
    return json.dumps(head).encode() + b"\n" + schema.data
