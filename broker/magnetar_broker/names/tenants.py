"""Tenants: who administers them, and in which clusters they may have namespaces."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from magnetar_broker.errors import AlreadyExists, LimitReached, TenantMissing
from magnetar_broker.metadata_keys import TENANTS, tenant_key
from magnetar_broker.records import (
    Fields,
    change_record,
    create_record,
    keys_under,
    read_record,
)
from magnetar_storage.interfaces import MetadataStore


@dataclass(frozen=True)
class Tenant:
    """What is stored of one."""

    admin_roles: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()

    def fields(self) -> Fields:
        """As JSON, in storage and over HTTP."""
        return {
            "adminRoles": list(self.admin_roles),
            "allowedClusters": list(self.allowed_clusters),
        }


class Tenants:
    """Reads and writes them."""

    def __init__(self, metadata: MetadataStore, cluster: str, limit: int) -> None:
        """`limit` is how many there may be, 0 for any number."""
        self._metadata = metadata
        self._cluster = cluster
        self._limit = limit
        self._closed: set[str] = set()
        self._used: Counter[str] = Counter()

    async def names(self) -> list[str]:
        """All of them, in order."""
        return await keys_under(self._metadata, TENANTS)

    async def get(self, name: str) -> Tenant:
        """One, or `TenantMissing`."""
        fields = await read_record(self._metadata, tenant_key(name))
        if fields is None:
            raise TenantMissing(f"tenant {name} does not exist; create it first")
        return Tenant(tuple(fields["adminRoles"]), tuple(fields["allowedClusters"]))

    async def create(self, name: str, tenant: Tenant) -> None:
        """Make one; durable on return."""
        if name in self._closed:
            raise AlreadyExists(f"tenant {name} is being deleted; try again later")
        await self.check_room(name)
        if not await create_record(self._metadata, tenant_key(name), tenant.fields()):
            raise AlreadyExists(f"tenant {name} exists already")

    async def check_room(self, name: str) -> None:
        """`LimitReached` if there may be no tenant more and this is none yet."""
        if self._limit > 0:
            names = await self.names()
            if name not in names and len(names) >= self._limit:
                raise LimitReached(
                    f"there are {self._limit} tenants already (maxTenants): use one of them"
                )

    async def ensure(self, name: str) -> None:
        """Make one with what holds for a new one, unless there is one."""
        tenant = Tenant(allowed_clusters=(self._cluster,))
        await create_record(self._metadata, tenant_key(name), tenant.fields())

    async def change(self, name: str, tenant: Tenant) -> None:
        """Store other roles and clusters; durable on return."""
        if not await change_record(
            self._metadata, tenant_key(name), lambda fields: fields | tenant.fields()
        ):
            raise TenantMissing(f"tenant {name} does not exist; create it first")

    # Ending -----------------------------------------------------------------------------

    @contextmanager
    def used(self, name: str) -> Iterator[None]:
        """Meanwhile a namespace is made in it; `TenantMissing` if it is closed."""
        if name in self._closed:
            raise TenantMissing(f"tenant {name} is being deleted; try again later")
        self._used[name] += 1
        try:
            yield
        finally:
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]

    def is_used(self, name: str) -> bool:
        """Whether a namespace is being made in it at this moment."""
        return name in self._used

    def close(self, name: str) -> None:
        """Let no namespace be made in it until it is reopened."""
        self._closed.add(name)

    def reopen(self, name: str) -> None:
        """It was deleted, or will not be."""
        self._closed.discard(name)

    def is_closed(self, name: str) -> bool:
        """Whether it is being deleted."""
        return name in self._closed

    async def delete(self, name: str) -> None:
        """Remove one that has no namespaces; durable on return."""
        await self._metadata.delete(tenant_key(name))
