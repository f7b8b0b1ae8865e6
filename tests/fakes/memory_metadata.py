"""Metadata in memory; a change is durable on return."""

from collections.abc import Sequence

from magnetar_storage.errors import BadVersion, Fenced, Unavailable
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Change,
    Guard,
    Lease,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata.sorted_keys import SortedKeys
from magnetar_storage.metadata.watch import Watch, Watchers
from magnetar_storage.runtime.execution import Clock


class MemoryMetadata:
    """A `MetadataStore`; versions count the writes to the whole store."""

    def __init__(self, clock: Clock) -> None:
        self._values: dict[str, Versioned] = {}
        self._keys = SortedKeys()
        self._leases: dict[str, tuple[Lease, set[str]]] = {}
        """Each lease with its keys."""
        self._leases_made = 0
        self._writes = 0
        self._watchers = Watchers(clock)

    async def get(self, key: str) -> Versioned | None:
        return self._values.get(key)

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        if lease is not None and lease.id not in self._leases:
            raise Unavailable(f"lease {lease.id} has ended")
        self._check(key, expect, guard)
        self._keys.add(key)
        self._writes += 1
        self._values[key] = Versioned(value, self._writes)
        self._forget(key)
        if lease is not None:
            self._leases[lease.id][1].add(key)
        self._watchers.publish(Change(key, value, self._writes))
        return self._writes

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        self._check(key, expect, guard)
        self._remove(key)

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        return self._keys.page(prefix, after, limit)

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return [(key, self._values[key]) for key in self._keys.page(prefix, after, limit)]

    def watch(self, prefix: str) -> Watch:
        return self._watchers.watch(prefix)

    async def lease(self, ttl_seconds: float) -> Lease:
        self._leases_made += 1
        lease = Lease(f"memory-{self._leases_made}")
        self._leases[lease.id] = lease, set()
        return lease

    async def revoke(self, lease: Lease) -> None:
        if lease.id in self._leases:
            held, keys = self._leases.pop(lease.id)
            held.lose()
            for key in sorted(keys):
                self._remove(key)

    async def close(self) -> None:
        for lease, _ in list(self._leases.values()):
            await self.revoke(lease)
        self._watchers.close()

    def _check(self, key: str, expect: Version | Absent | None, guard: Guard | None) -> None:
        if guard is not None:
            guarding = self._values.get(guard.key)
            if guarding is None or guarding.version != guard.version:
                raise Fenced(f"{key}: not written, because {guard.key} has changed")
        if expect is None:
            return
        present = self._values.get(key)
        if isinstance(expect, Absent):
            if present is not None:
                raise BadVersion(
                    f"{key}: expected no such key, but it is at version {present.version}"
                )
        elif present is None:
            raise BadVersion(f"{key}: expected version {expect}, but the key does not exist")
        elif present.version != expect:
            raise BadVersion(
                f"{key}: expected version {expect}, but it is at version {present.version}"
            )

    def _remove(self, key: str) -> None:
        if self._values.pop(key, None) is None:
            return
        self._keys.discard(key)
        self._writes += 1
        self._forget(key)
        self._watchers.publish(Change(key, None, self._writes))

    def _forget(self, key: str) -> None:
        for _, keys in self._leases.values():
            keys.discard(key)
