"""Serves the metadata store of this process to the `RemoteMetadata` at the other end of a link."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from magnetar_broker.ipc.leases import Leases
from magnetar_broker.ipc.link import Link
from magnetar_storage.errors import Fenced, StorageError
from magnetar_storage.interfaces import (
    RESYNC,
    Absent,
    Changes,
    Guard,
    MetadataStore,
    Version,
    Versioned,
)
from magnetar_storage.runtime.execution import Clock, Tasks

NO_KEY = "/none"
"""A key that never exists."""


async def settled(link: Link, store: MetadataStore) -> None:
    """Wait until the link has ended and none of its peer's writes is under way."""
    await link.ended()  # promise: a process goes on only when the one before it cannot write
    with suppress(StorageError):  # the writes before this one have an outcome all the same
        await store.delete(NO_KEY)  # promise: a process sees all that the one before it wrote


class MetadataServer:
    """Serves the metadata store on one link; leases and watches of the peer end with the link."""

    def __init__(
        self,
        link: Link,
        store: MetadataStore,
        may_write: Callable[[str], bool],
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        """Prepare to serve a link that is not connected yet.

        `may_write(key)` is asked whenever the peer writes or deletes a key; if not, the peer's
        request fails with `Fenced`.
        """
        self._link = link
        self._store = store
        self._may_write = may_write
        self._leases = Leases(link, store, clock, tasks)
        self._watches: dict[int, Changes] = {}
        link.serve(
            {
                "metadata.get": self._get,
                "metadata.put": self._put,
                "metadata.delete": self._delete,
                "metadata.list": store.list,
                "metadata.read_under": self._read_under,
                "metadata.watch": self._watch,
                "metadata.unwatch": self._unwatch,
                "metadata.lease": self._leases.grant,
                "metadata.renew": self._leases.renew,
                "metadata.revoke": self._leases.revoke,
            }
        )
        link.when_ended(self._end_watches)  # promise: watches end with their process

    async def _get(self, key: str) -> tuple[bytes, Version] | None:
        found: Versioned | None = await self._store.get(key)
        return None if found is None else (found.value, found.version)

    async def _read_under(
        self, prefix: str, after: str, limit: int
    ) -> Sequence[tuple[str, tuple[object, ...] | dict[str, object]]]:
        """Return each key with its value and version, or with the fields of a `Corrupt`."""
        return [
            (key, tuple(found) if isinstance(found, Versioned) else vars(found))
            for key, found in await self._store.read_under(prefix, after, limit)
        ]

    async def _put(
        self,
        key: str,
        value: bytes,
        expect: Version | str | None,
        lease: str | None,
        guard: tuple[str, Version] | None,
    ) -> Version:
        self._check(key)
        return await self._store.put(
            key,
            value,
            Absent(expect) if isinstance(expect, str) else expect,
            None if lease is None else self._leases.held(lease),
            None if guard is None else Guard(*guard),
        )

    async def _delete(
        self, key: str, expect: Version | None, guard: tuple[str, Version] | None
    ) -> None:
        self._check(key)
        await self._store.delete(key, expect, None if guard is None else Guard(*guard))

    async def _watch(self, number: int, prefix: str) -> None:
        """Send changes until the watch ends; while the peer does not read, they wait in the watch,
        which has a limit."""
        changes = self._watches[number] = self._store.watch(prefix)
        async for change in changes:
            await self._link.room()  # promise: what a process watches is limited by its link
            fields = None if change is RESYNC else tuple(change)
            self._link.notify("metadata.changed", number, fields)
        self._watches.pop(number, None)
        self._link.notify("metadata.unwatched", number)

    def _unwatch(self, number: int) -> None:
        changes = self._watches.pop(number, None)
        if changes is not None:
            changes.end()

    def _end_watches(self) -> None:
        for number in list(self._watches):
            self._unwatch(number)

    def _check(self, key: str) -> None:
        # promise[self._may_write(key) -> key]: a process writes only the metadata of topics that it
        #   owns
        if not self._may_write(key):
            raise Fenced(f"{key}: {self._link.peer} may not write it, because it is not its owner")
