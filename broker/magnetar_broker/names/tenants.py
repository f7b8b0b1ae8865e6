"""Tenants: the roles that administer them, and the clusters that they may use."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from magnetar_broker.base.errors import AlreadyExists, LimitReached, TenantNotFound
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import TENANTS, tenant_key
from magnetar_broker.base.records import (
    Fields,
    change_record,
    create_record,
    keys_under,
    read_record,
)


@dataclass(frozen=True)
class Tenant:
    """The stored fields of a tenant."""

    admin_roles: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()

    def fields(self) -> Fields:
        """Return the fields as JSON, in storage and over HTTP."""
        return {
            "adminRoles": list(self.admin_roles),
            "allowedClusters": list(self.allowed_clusters),
        }


async def nobody_asks(name: str) -> None:
    """Do nothing: the default where nothing follows from a change."""


class Tenants:
    """Reads and writes tenants."""

    def __init__(self, metadata: GuardedMetadata, cluster: str, limit: int) -> None:
        """`limit` is the largest number of tenants; 0 means no limit."""
        self._metadata = metadata
        self._cluster = cluster
        self.limit = limit
        self.changed: Callable[[str], Awaitable[None]] = nobody_asks
        """Called with a tenant whose admins may have changed, before the request is answered."""
        self._closed: set[str] = set()
        self._used: Counter[str] = Counter()

    async def names(self) -> list[str]:
        """Return the names of all tenants, in order."""
        return await keys_under(self._metadata, TENANTS)

    async def get(self, name: str) -> Tenant:
        """Return the fields of a tenant, or `TenantNotFound`."""
        fields = await read_record(self._metadata, tenant_key(name))
        if fields is None:
            raise TenantNotFound(
                f"tenant {name} does not exist: create it with PUT /admin/v2/tenants/{name} "
                f"(pulsar-admin tenants create {name})"
            )
        return Tenant(tuple(fields["adminRoles"]), tuple(fields["allowedClusters"]))

    async def create(self, name: str, tenant: Tenant) -> None:
        """Create a tenant; durable on return.  Raises `AlreadyExists` or `LimitReached`."""
        if name in self._closed:
            raise AlreadyExists(f"tenant {name} is being deleted; try again later")
        await self.check_room(name)
        if not await create_record(self._metadata, tenant_key(name), tenant.fields()):
            raise AlreadyExists(f"tenant {name} already exists")
        await self.changed(name)

    async def check_room(self, name: str) -> None:
        """Raise `LimitReached` if `name` is new and the number of tenants is at the limit."""
        if self.limit > 0:
            names = await self.names()
            if name not in names and len(names) >= self.limit:
                raise LimitReached(
                    f"the limit of {self.limit} tenants (maxTenants) is reached: use another, "
                    "delete one, or raise the limit"
                )

    async def ensure(self, name: str) -> None:
        """Create a tenant with the defaults, unless it exists."""
        tenant = Tenant(allowed_clusters=(self._cluster,))
        if await create_record(self._metadata, tenant_key(name), tenant.fields()):
            await self.changed(name)

    async def change(self, name: str, tenant: Tenant) -> None:
        """Replace roles and clusters; durable on return."""
        try:
            if not await change_record(
                self._metadata, tenant_key(name), lambda fields: fields | tenant.fields()
            ):
                raise TenantNotFound(f"tenant {name} does not exist; create it first")
        finally:  # also after an error: what was written may have reached the store
            await self.changed(name)  # promise: a change of a tenant's admins reaches what is open

    # Deletion -----------------------------------------------------------------------------

    @contextmanager
    def used(self, name: str) -> Iterator[None]:
        """Keep a tenant open while a namespace is created in it; `TenantNotFound` if closed."""
        if name in self._closed:
            raise TenantNotFound(f"tenant {name} is being deleted; try again later")
        self._used[name] += 1
        try:
            yield
        finally:
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]

    def is_used(self, name: str) -> bool:
        """Return whether a namespace is being created in a tenant."""
        return name in self._used

    def close(self, name: str) -> None:
        """Refuse new namespaces in a tenant until it is reopened."""
        self._closed.add(name)

    def reopen(self, name: str) -> None:
        """End `close`: the tenant was deleted, or is kept."""
        self._closed.discard(name)

    def is_closed(self, name: str) -> bool:
        """Return whether a tenant is being deleted."""
        return name in self._closed

    async def delete(self, name: str) -> None:
        """Delete a tenant without namespaces; durable on return."""
        try:
            await self._metadata.delete(tenant_key(name))
        finally:
            await self.changed(name)
