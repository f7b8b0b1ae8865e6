"""Objects that are stored and shown by name, and have no effect: clusters and resource groups.

Nothing is sent to other clusters, and no limit of a group is enforced.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from magnetar_broker.base.errors import AlreadyExists, BrokerError, LimitReached
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.records import (
    Fields,
    change_record,
    create_record,
    keys_under,
    read_record,
)

DATA, MIGRATION = "data", "migration"
DOMAINS, ISOLATION = "failureDomains", "isolationPolicies"
"""The parts of the stored object of a cluster: its data, and what Pulsar also keeps for it."""
MOST = 1000
"""The most objects of a kind."""
LARGEST = 256 << 10
"""The most characters of one stored object."""


class StoredObjects:
    """Reads and changes the objects of one kind; each change is durable on return."""

    def __init__(self, metadata: GuardedMetadata, prefix: str, kind: str, own: str = "") -> None:
        self._metadata = metadata
        self._prefix = prefix
        self._kind = kind
        self.own = own
        """The name of an object that always exists, which is the broker's own; "" for none."""

    async def names(self) -> list[str]:
        """Return the names of all objects, in order."""
        stored = await keys_under(self._metadata, self._prefix)
        return sorted({self.own, *stored} if self.own else stored)

    async def get(self, name: str) -> Fields | None:
        """Return the stored fields of an object; None if it does not exist."""
        found = await read_record(self._metadata, self._prefix + name)
        return {} if found is None and name and name == self.own else found

    async def create(self, name: str, fields: Fields) -> None:
        """Create an object.  Raises `AlreadyExists` or `LimitReached`."""
        if len(await self.names()) >= MOST:
            raise LimitReached(f"there are {MOST} {self._kind}s, the limit: delete one first")
        key, fields = self._prefix + name, self._bounded(name, fields)
        if name == self.own or not await create_record(self._metadata, key, fields):
            raise AlreadyExists(f"{self._kind} {name} exists: change it, or delete it first")

    async def merge(self, name: str, fields: Fields) -> None:
        """Create an object, or replace these fields of it; `LimitReached` if there are `MOST`."""
        while not await self.change(name, lambda old: {**old, **fields}):
            with suppress(AlreadyExists):  # a concurrent request has created it
                return await self.create(name, fields)

    async def change(self, name: str, change: Callable[[Fields], Fields]) -> bool:
        """Store what `change` makes of the fields; False if the object does not exist."""
        key = self._prefix + name
        while not await change_record(
            self._metadata, key, lambda fields: self._bounded(name, change(fields))
        ):
            if name != self.own:
                return False
            await create_record(self._metadata, key, {})
        return True

    async def change_part(self, name: str, part: str, change: Callable[[Any], Any]) -> bool:
        """Change one field as `change` does, None if it is absent; False without the object."""

        def changed(fields: Fields) -> Fields:
            new = {**fields, part: change(fields.get(part))}
            return {key: one for key, one in new.items() if one is not None}

        return await self.change(name, changed)

    async def delete(self, name: str) -> None:
        """Delete an object if it exists; BrokerError if it is the broker's own."""
        if name == self.own:
            raise BrokerError(f"{self._kind} {name} is the broker's own: it cannot be deleted")
        await self._metadata.delete(self._prefix + name)

    def _bounded(self, name: str, fields: Fields) -> Fields:
        size = len(json.dumps(fields))
        if size > LARGEST:
            raise LimitReached(f"{self._kind} {name} has {size} characters of {LARGEST}")
        return fields
