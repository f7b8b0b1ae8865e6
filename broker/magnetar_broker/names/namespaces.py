"""Namespaces: their existence, bundles, properties and permissions."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from magnetar_broker.base.errors import (
    AlreadyExists,
    LimitReached,
    NamespaceClosed,
    NamespaceNotFound,
)
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import NAMESPACES, namespace_key
from magnetar_broker.base.records import (
    Fields,
    change_record,
    create_record,
    has_record,
    keys_under,
    read_record,
)
from magnetar_broker.names.tenants import Tenants, nobody_asks
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.stored_bundles import BOUNDARIES, StoredBundles
from magnetar_proto.errors import InvalidTopicName
from magnetar_proto.names import NamespaceName
from magnetar_storage.errors import StorageError


@dataclass(frozen=True)
class Namespace:
    """The stored fields of a namespace; `bundles` None is the default number of bundles."""

    bundles: Bundles | None = None
    properties: dict[str, str] = field(default_factory=dict)
    permissions: dict[str, Any] = field(default_factory=dict)
    """The permissions, as Pulsar's `auth_policies`."""

    def fields(self) -> Fields:
        """Return the stored fields: values that differ from the defaults."""
        fields: Fields = {}
        if self.bundles is not None:
            fields[BOUNDARIES] = self.bundles.texts
        if self.properties:
            fields["properties"] = self.properties
        if self.permissions:
            fields["permissions"] = self.permissions
        return fields


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a tenant."""
    try:
        NamespaceName.parse(f"{text}/any")
    except InvalidTopicName:
        return False
    return True


class Namespaces:
    """Reads and writes namespaces; with `auto_create`, `require` creates one and its tenant."""

    def __init__(
        self,
        metadata: GuardedMetadata,
        tenants: Tenants,
        auto_create: bool,
        bundles: StoredBundles,
        forget_owners: Callable[[str], Awaitable[None]],
        limit: int,
    ) -> None:
        """`limit` is the largest number of namespaces of a tenant; 0 means no limit.

        `forget_owners` is called with a namespace whose bundles lose their owners: it was deleted,
        or created with other bundles.
        """
        self._metadata = metadata
        self._tenants = tenants
        self._auto_create = auto_create
        self._bundles = bundles
        self._forget_owners = forget_owners
        self.limit = limit
        self.changed: Callable[[str], Awaitable[None]] = nobody_asks
        """Called with a namespace whose permissions may have changed, before the answer."""
        self._known: set[str] = set()
        self._closed: Counter[str] = Counter()
        self._deleted = 0

    async def start(self) -> None:
        """Create the tenants of namespaces that were stored by releases without tenants."""
        present = set(await self._tenants.names())
        for tenant in sorted({name.partition("/")[0] for name in await self.names()} - present):
            await self._tenants.ensure(tenant)

    # Existence --------------------------------------------------------------------------

    async def require(self, name: str) -> None:
        """Refuse a namespace that does not exist or is closed; a missing one is created if allowed.

        Raises `NamespaceNotFound`, `TenantNotFound` or `LimitReached`.
        """
        while name not in self._known:
            self._check_open(name)
            deleted = self._deleted
            if not await self.has(name):
                await self._create_by_use(name)
            self._check_open(name)
            if self._deleted == deleted:  # else the namespace may be deleted by now: ask again
                self._known.add(name)

    def _check_open(self, name: str) -> None:
        if name in self._closed:
            raise NamespaceClosed(f"namespace {name} is being created or deleted; try again later")

    async def _create_by_use(self, name: str) -> None:
        parsed = NamespaceName.parse(name)
        if not self._auto_create:
            await self._tenants.get(parsed.tenant)  # a missing tenant is to be created first
            raise NamespaceNotFound(
                f"namespace {name} does not exist: create it with PUT "
                f"/admin/v2/namespaces/{name} (pulsar-admin namespaces create {name}), or list it "
                "in bootstrapNamespaces"
            )
        await self._tenants.check_room(parsed.tenant)
        await self._check_room(parsed.tenant)
        await self.ensure(parsed)
        if self._tenants.is_closed(parsed.tenant):
            raise NamespaceClosed(f"tenant {parsed.tenant} is being deleted; try again later")

    async def has(self, name: str) -> bool:
        """Return whether a namespace is stored; always asks the store."""
        return await has_record(self._metadata, namespace_key(name))

    def is_known(self, name: str) -> bool:
        """Return whether `require` has found or created a namespace; others may exist as well."""
        return name in self._known

    async def ensure(self, name: NamespaceName) -> None:
        """Create a namespace and its tenant, unless they exist or are being deleted."""
        if str(name) in self._closed or self._tenants.is_closed(name.tenant):
            return
        with self._tenants.used(name.tenant):
            await self._tenants.ensure(name.tenant)
            if await create_record(self._metadata, namespace_key(str(name)), {}):
                await self.changed(str(name))

    # Reading and writing --------------------------------------------------------------------

    async def get(self, name: str) -> Namespace:
        """Return the fields of a namespace, or `NamespaceNotFound`."""
        fields = await read_record(self._metadata, namespace_key(name))
        if fields is None:
            raise NamespaceNotFound(f"namespace {name} does not exist: create it first")
        return self._of(fields)

    def _of(self, fields: Fields) -> Namespace:
        bundles = self._bundles.within(fields)
        return Namespace(bundles, fields.get("properties", {}), fields.get("permissions", {}))

    async def of_tenant(self, tenant: str) -> list[str]:
        """Return the namespaces of a tenant, in order."""
        names = await keys_under(self._metadata, f"{NAMESPACES}{tenant}/")
        return [f"{tenant}/{name}" for name in names]

    async def names(self) -> list[str]:
        """Return the names of all namespaces, in order."""
        return await keys_under(self._metadata, NAMESPACES)

    async def create(self, name: NamespaceName, namespace: Namespace) -> None:
        """Create a namespace of an existing tenant; durable on return.

        A closed one is being created by the caller, and whatever is stored of it is replaced.
        `TenantNotFound`, `AlreadyExists`, `LimitReached`.
        """
        with self._tenants.used(name.tenant):
            await self._tenants.get(name.tenant)
            if not await self.has(str(name)):
                await self._check_room(name.tenant)
            key, fields = namespace_key(str(name)), namespace.fields()
            if await create_record(self._metadata, key, fields):
                await self.changed(str(name))
                return
            if not self.is_closed(str(name)):
                raise AlreadyExists(f"namespace {name} already exists")
            # A use that had begun before it was closed has stored it since.  That use is refused
            # (`require` checks again), so nothing is in it yet.
            await change_record(self._metadata, key, lambda _: fields)
            await self._forget_owners(str(name))
            await self.changed(str(name))

    async def _check_room(self, tenant: str) -> None:
        if 0 < self.limit <= len(await self.of_tenant(tenant)):
            raise LimitReached(
                f"tenant {tenant} has reached its limit of {self.limit} namespaces "
                "(maxNamespacesPerTenant): delete one, or raise the limit"
            )

    async def change_properties(
        self, name: str, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        """Replace the properties by what `change` returns for them; durable on return."""

        def changing(fields: Fields) -> Fields:
            properties = change(fields.get("properties", {}))
            return {**fields, "properties": properties}

        if not await change_record(self._metadata, namespace_key(name), changing):
            raise NamespaceNotFound(f"namespace {name} does not exist: create it first")

    async def change_permissions(
        self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """Replace the permissions, by kind, with what `change` returns; durable on return."""

        def changing(fields: Fields) -> Fields:
            return {**fields, "permissions": change(fields.get("permissions", {}))}

        try:
            if not await change_record(self._metadata, namespace_key(name), changing):
                raise NamespaceNotFound(f"namespace {name} does not exist: create it first")
        finally:  # also after an error: what was written may have reached the store
            await self.changed(name)

    def forget(self) -> None:
        """Ask the store again which namespaces exist."""
        self._known.clear()
        self._deleted += 1

    # Deletion -----------------------------------------------------------------------------------

    def close(self, name: str) -> None:
        """Make `require` refuse the namespace, until `reopen` is called as often as this."""
        self._closed[name] += 1
        self._known.discard(name)

    def reopen(self, name: str) -> None:
        """Allow use of the name again after `close`: the namespace was deleted, or is kept."""
        self._closed[name] -= 1
        if not self._closed[name]:
            del self._closed[name]

    def is_closed(self, name: str) -> bool:
        """Return whether the namespace is being created or deleted."""
        return name in self._closed

    async def delete(self, name: str) -> None:
        """Delete an empty namespace; durable on return."""
        try:
            await self._metadata.delete(namespace_key(name))
        except StorageError:
            await self.changed(name)  # it may have been deleted
            raise
        self._known.discard(name)
        self._deleted += 1
        await self.changed(name)
        await self._forget_owners(name)
