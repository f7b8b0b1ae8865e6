"""Clusters: this broker's own, and others that are known by name and address.

Nothing is sent to other clusters.  The stored record of a cluster is a JSON object, by part: its
data, and what the original also keeps for a cluster.
"""

import json
from collections.abc import Callable
from typing import Any

from magnetar_broker.base.errors import AlreadyExists, BrokerError, LimitReached
from magnetar_broker.base.metadata_keys import CLUSTERS
from magnetar_broker.base.records import (
    Fields,
    change_record,
    create_record,
    has_record,
    keys_under,
    read_record,
)
from magnetar_storage.interfaces import MetadataStore

DATA, PEERS, MIGRATION = "data", "peers", "migration"
DOMAINS, ISOLATION = "failureDomains", "isolationPolicies"
MOST = 1000
"""The most clusters."""
LARGEST = 256 << 10
"""The most characters of the stored record of one."""


class Clusters:
    """Reads and changes clusters; each change is durable on return."""

    def __init__(self, metadata: MetadataStore, own: str) -> None:
        self._metadata = metadata
        self.own = own
        """The name of the broker's own cluster, which always exists."""

    async def names(self) -> list[str]:
        """Return the names of all clusters, in order."""
        return sorted({self.own, *await keys_under(self._metadata, CLUSTERS)})

    async def has(self, name: str) -> bool:
        """Return whether there is a cluster of this name."""
        return name == self.own or await has_record(self._metadata, f"{CLUSTERS}{name}")

    async def get(self, name: str) -> Fields | None:
        """Return the stored fields of a cluster; None if it does not exist."""
        found = await read_record(self._metadata, f"{CLUSTERS}{name}")
        return {} if found is None and name == self.own else found

    async def create(self, name: str, data: dict[str, Any]) -> None:
        """Create a cluster.  Raises `AlreadyExists` or `LimitReached`."""
        names = await self.names()
        if len(names) >= MOST:
            raise LimitReached(f"there are {MOST} clusters, the limit: delete one first")
        fields = _bounded(name, {DATA: data})
        if name == self.own or not await create_record(self._metadata, f"{CLUSTERS}{name}", fields):
            raise AlreadyExists(f"cluster {name} exists: change it, or delete it first")

    async def change(self, name: str, part: str, change: Callable[[Any], Any]) -> bool:
        """Store what `change` makes of a part, None if it is absent; False without the cluster."""

        def changing(fields: Fields) -> Fields:
            changed = {**fields, part: change(fields.get(part))}
            return _bounded(name, {key: one for key, one in changed.items() if one is not None})

        key = f"{CLUSTERS}{name}"
        while not await change_record(self._metadata, key, changing):
            if name != self.own:
                return False
            await create_record(self._metadata, key, {})
        return True

    async def delete(self, name: str) -> None:
        """Delete a cluster, but not the broker's own; no effect if it does not exist."""
        if name == self.own:
            raise BrokerError(f"cluster {name} is the broker's own")
        await self._metadata.delete(f"{CLUSTERS}{name}")


def _bounded(name: str, fields: Fields) -> Fields:
    size = len(json.dumps(fields))
    if size > LARGEST:
        raise LimitReached(f"what is stored of cluster {name} has {size} characters of {LARGEST}")
    return fields
