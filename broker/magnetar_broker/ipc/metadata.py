"""The metadata store of another process, over a link."""

from collections.abc import Sequence
from itertools import count
from weakref import WeakValueDictionary

from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.renewals import Renewals
from magnetar_storage.errors import Corrupt
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Change,
    Changes,
    Guard,
    Lease,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata.watch import QUEUE_LIMIT, Watch
from magnetar_storage.runtime.execution import Clock

ChangeFields = tuple[str, bytes | None, Version]
"""The fields of a `Change` in order."""


class RemoteMetadata:
    """A `MetadataStore`; a `MetadataServer` is at the other end of the link.

    When the link ends, every call fails with `ProcessUnavailable`, watches end, and so do leases,
    which are renewed while this process's event loop runs.
    """

    def __init__(self, link: Link, clock: Clock) -> None:
        """Prepare the use of a link that is not connected yet."""
        self.identity = UNKNOWN
        """The data directory, and the latest write of this process; the owner sets it."""
        self._link = link
        self._clock = clock
        self._numbers = count()
        self._watches: WeakValueDictionary[int, Watch] = WeakValueDictionary()
        """The watches, held weakly so that an abandoned watch is freed."""
        self._renewals = Renewals(link, clock)
        link.serve({"metadata.changed": self._changed, "metadata.unwatched": self._unwatched})
        link.when_ended(self._end_watches)

    async def get(self, key: str) -> Versioned | None:
        found = await self._link.request("metadata.get", key)
        return None if found is None else Versioned(*found)

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        version: Version = await self._link.request(
            "metadata.put",
            key,
            value,
            expect.value if isinstance(expect, Absent) else expect,
            None if lease is None else lease.id,
            guard and tuple(guard),
        )
        self.identity = self.identity._replace(revision=max(self.identity.revision, version))
        return version

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._link.request("metadata.delete", key, expect, guard and tuple(guard))

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        keys: list[str] = await self._link.request("metadata.list", prefix, after, limit)
        return keys

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        found = await self._link.request("metadata.read_under", prefix, after, limit)
        return [
            (key, Versioned(*value) if isinstance(value, tuple) else Corrupt(**value))
            for key, value in found
        ]

    def watch(self, prefix: str) -> Changes:
        watch = Watch(prefix, self._clock, QUEUE_LIMIT)
        if self._link.has_ended:
            watch.end()
        else:
            number = next(self._numbers)
            self._watches[number] = watch
            self._link.notify("metadata.watch", number, prefix)
        return watch

    async def lease(self, ttl_seconds: float) -> Lease:
        asked = self._clock.uptime()
        lease: str = await self._link.request("metadata.lease", ttl_seconds)
        return self._renewals.add(lease, ttl_seconds, asked)

    async def revoke(self, lease: Lease) -> None:
        self._renewals.end(lease.id)
        await self._link.request("metadata.revoke", lease.id)

    async def close(self) -> None:
        """End the leases and watches; the link stays."""
        self._end_watches()
        for lease in self._renewals.end_all():
            await self.revoke(lease)

    def _changed(self, number: int, fields: ChangeFields | None) -> None:
        """Pass on a change; None stands for `RESYNC`."""
        watch = self._watches.get(number)
        if watch is None:
            self._link.notify("metadata.unwatch", number)
        elif fields is None:
            watch.resync()
        else:
            watch.offer(Change(*fields))

    def _unwatched(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            watch.end()

    def _end_watches(self) -> None:
        for number, watch in list(self._watches.items()):
            watch.end()
            self._link.notify("metadata.unwatch", number)
        self._watches.clear()
