"""Resource groups: limits that namespaces share.  They are stored; this broker enforces none."""

from magnetar_broker.base.errors import LimitReached
from magnetar_broker.base.metadata_keys import RESOURCE_GROUPS
from magnetar_broker.base.records import (
    Fields,
    change_record,
    create_record,
    has_record,
    keys_under,
    read_record,
)
from magnetar_storage.interfaces import MetadataStore

MOST = 1000
"""The most groups."""


class ResourceGroups:
    """Reads and changes resource groups; each change is durable on return."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    async def names(self) -> list[str]:
        """Return the names of all groups, in order."""
        return sorted(await keys_under(self._metadata, RESOURCE_GROUPS))

    async def has(self, name: str) -> bool:
        """Return whether there is a group of this name."""
        return await has_record(self._metadata, f"{RESOURCE_GROUPS}{name}")

    async def get(self, name: str) -> Fields | None:
        """Return the limits of one; None if it does not exist."""
        return await read_record(self._metadata, f"{RESOURCE_GROUPS}{name}")

    async def set(self, name: str, limits: Fields) -> None:
        """Create a group, or change these limits of it; `LimitReached` if there are `MOST`."""
        key = f"{RESOURCE_GROUPS}{name}"
        while not await change_record(self._metadata, key, lambda fields: {**fields, **limits}):
            if len(await self.names()) >= MOST:
                raise LimitReached(f"there are {MOST} resource groups, the limit: delete one first")
            if await create_record(self._metadata, key, limits):
                return

    async def delete(self, name: str) -> None:
        """Delete a group; no effect if it does not exist."""
        await self._metadata.delete(f"{RESOURCE_GROUPS}{name}")
