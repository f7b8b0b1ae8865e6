"""Metadata of which every written value is unique, so that a writer recognizes its own.

`RetryingMetadata` settles a write of unknown outcome by reading the key: if it has the value, the
write took place.  Two writers that store equal values would both conclude that.  With this around
it, each stored value begins with bytes that no other write has.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import (
    PAGE,
    RESYNC,
    Absent,
    Change,
    Changes,
    Guard,
    Lease,
    Listed,
    MetadataStore,
    Resync,
    Version,
    Versioned,
)

FORMAT: Final = b"\x01"
"""The first byte of every stored value."""
NONCE_BYTES: Final = 12
HEAD_BYTES: Final = len(FORMAT) + NONCE_BYTES


class NonceMetadata:
    """A `MetadataStore` over another one, whose values have a nonce before them.

    A value without one is reported as `Corrupt`: something else has written it.
    """

    def __init__(self, store: MetadataStore, new_nonce: Callable[[], bytes]) -> None:
        """`new_nonce` returns `NONCE_BYTES` bytes that it has not returned in any process."""
        self._store = store
        self._new_nonce = new_nonce

    async def get(self, key: str) -> Versioned | None:
        found = await self._store.get(key)
        if found is None:
            return None
        value = _without_nonce(key, found)
        if isinstance(value, Corrupt):
            raise value
        return value

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        # promise[self._new_nonce() -> bytes(12)]: two writes of the same value are told apart
        stored = FORMAT + self._new_nonce() + value
        return await self._store.put(key, stored, expect, lease, guard)

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._store.delete(key, expect, guard)

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        return await self._store.list(prefix, after, limit)

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return [
            (key, found if isinstance(found, Corrupt) else _without_nonce(key, found))
            for key, found in await self._store.read_under(prefix, after, limit)
        ]

    def watch(self, prefix: str) -> Changes:
        return _ChangesWithoutNonces(self._store.watch(prefix))

    async def lease(self, ttl_seconds: float) -> Lease:
        return await self._store.lease(ttl_seconds)

    async def revoke(self, lease: Lease) -> None:
        await self._store.revoke(lease)

    async def close(self) -> None:
        await self._store.close()


class _ChangesWithoutNonces(AsyncIterator[Change | Resync]):
    """The changes of another watch, without the nonces of their values."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def __anext__(self) -> Change | Resync:
        change = await anext(self._changes)
        if isinstance(change, Resync) or change.value is None:
            return change
        found = _without_nonce(change.key, Versioned(change.value, change.version))
        # The listing that follows tells the reader which value is damaged.
        return RESYNC if isinstance(found, Corrupt) else Change(change.key, *found)

    def end(self) -> None:
        self._changes.end()


def _without_nonce(key: str, found: Versioned) -> Versioned | Corrupt:
    value, version = found
    if len(value) < HEAD_BYTES or not value.startswith(FORMAT):
        return Corrupt(key, 0, "the value of this key was not written by a broker")
    return Versioned(value[HEAD_BYTES:], version)
