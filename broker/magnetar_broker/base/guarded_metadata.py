"""The metadata store of the directory of names: every write depends on being the directory."""

from collections.abc import Callable, Sequence

from magnetar_broker.base.metadata_keys import DIRECTORY
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Changes,
    Guard,
    Lease,
    Listed,
    MetadataStore,
    Version,
    Versioned,
)

NOT_YET = Guard(DIRECTORY, 0)
"""The guard of a process before it is the directory: it never holds."""


class GuardedMetadata:
    """A `MetadataStore` whose writes all carry one guard.

    A write fails with `Fenced` once the guard no longer holds.

    The code of the directory asks for this type, so that it cannot write without the guard.
    """

    __slots__ = ("_guard", "_store")

    def __init__(self, store: MetadataStore, guard: Guard | None) -> None:
        """`guard` is None where no other process can become the directory, otherwise `NOT_YET`."""
        self._store = store
        self._guard = guard

    async def lead(self, ttl_seconds: float, at_loss: Callable[[], None]) -> None:
        """Take over from any former directory, whose writes are refused from now on.

        The guard holds until another process does this, or until this one has not renewed its lease
        for `ttl_seconds`.  `at_loss` is called when the lease has ended.
        """
        lease = await self._store.lease(ttl_seconds)
        version = await self._store.put(DIRECTORY, b"{}", lease=lease)
        lease.when_lost(at_loss)
        self._guard = Guard(DIRECTORY, version)

    async def get(self, key: str) -> Versioned | None:
        return await self._store.get(key)

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        # promise[self._only(guard) -> guard]: a former directory writes nothing
        return await self._store.put(key, value, expect, lease, self._only(guard))

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        # promise[self._only(guard) -> guard]: a former directory deletes nothing
        await self._store.delete(key, expect, self._only(guard))

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        return await self._store.list(prefix, after, limit)

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return await self._store.read_under(prefix, after, limit)

    def watch(self, prefix: str) -> Changes:
        return self._store.watch(prefix)

    async def lease(self, ttl_seconds: float) -> Lease:
        return await self._store.lease(ttl_seconds)

    async def revoke(self, lease: Lease) -> None:
        await self._store.revoke(lease)

    async def close(self) -> None:
        """Leave the store open: its owner closes it."""

    def _only(self, guard: Guard | None) -> Guard | None:
        if guard is not None:
            raise ValueError(f"a write of the directory has one guard, and got {guard} as well")
        return self._guard
