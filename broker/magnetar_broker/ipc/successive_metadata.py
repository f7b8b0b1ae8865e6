"""The metadata store of a process that may end and be started again, over its links."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.metadata import RemoteMetadata
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Changes,
    Guard,
    Lease,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata.watch import QUEUE_LIMIT, Watch
from magnetar_storage.runtime.execution import Clock

T = TypeVar("T")


class SuccessiveMetadata:
    """A `MetadataStore` whose requests wait while the other process is away, for its successor.

    Raises `ProcessUnavailable` if no successor comes.  A write that was under way when the process
    ended is made again unless the value of the key shows that it took place: no other writer may
    store the same value.  Leases and watches end with the process.
    """

    def __init__(self, links: SuccessiveLinks, clock: Clock) -> None:
        """Use the links that `links` is given, each of which `follow` has prepared before."""
        self._links = links
        self._clock = clock
        self._remotes: dict[Link, RemoteMetadata] = {}
        self._identity = UNKNOWN

    def follow(self, link: Link) -> None:
        """Prepare the use of a link that is not connected yet."""
        self._remotes[link] = remote = RemoteMetadata(link, self._clock)
        remote.identity = self._identity
        link.when_ended(lambda: self._forget(link))

    @property
    def identity(self) -> Identity:
        """The data directory, and the latest write of this process; the owner sets it."""
        latest = max((remote.identity.revision for remote in self._remotes.values()), default=0)
        return self._identity._replace(revision=max(self._identity.revision, latest))

    @identity.setter
    def identity(self, identity: Identity) -> None:
        self._identity = identity
        for remote in self._remotes.values():
            remote.identity = identity

    def _forget(self, link: Link) -> None:
        self._identity = self.identity  # promise: the latest write of an ended process is noted
        del self._remotes[link]

    # The store --------------------------------------------------------------------------------

    async def get(self, key: str) -> Versioned | None:
        return await self._read(lambda remote: remote.get(key))

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        while True:
            link, remote = await self._present()
            try:
                return await remote.put(key, value, expect, lease, guard)
            except ProcessUnavailable:
                if not link.has_ended or lease is not None:
                    raise  # leases end with their link
            found = await self.get(key)
            # promise[found is not None -> False]: a write whose answer was lost is not refused
            if found is not None and found.value == value and found.version != expect:
                return found.version

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        while True:
            link, remote = await self._present()
            try:
                return await remote.delete(key, expect, guard)
            except ProcessUnavailable:
                if not link.has_ended:
                    raise
            # promise: a deletion whose answer was lost is not refused
            if await self.get(key) is None:
                return None

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        return await self._read(lambda remote: remote.list(prefix, after, limit))

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return await self._read(lambda remote: remote.read_under(prefix, after, limit))

    def watch(self, prefix: str) -> Changes:
        link = self._links.latest
        if link is not None and link in self._remotes:
            return self._remotes[link].watch(prefix)
        ended = Watch(prefix, self._clock, QUEUE_LIMIT)
        ended.end()
        return ended

    async def lease(self, ttl_seconds: float) -> Lease:
        _, remote = await self._present()
        return await remote.lease(ttl_seconds)

    async def revoke(self, lease: Lease) -> None:
        if not lease.is_lost:  # else it has ended with its link
            _, remote = await self._present()
            await remote.revoke(lease)

    async def close(self) -> None:
        """End the leases and watches; the links stay."""
        for remote in list(self._remotes.values()):
            await remote.close()

    async def _present(self) -> tuple[Link, RemoteMetadata]:
        link = await self._links.present()
        return link, self._remotes[link]

    async def _read(self, ask: Callable[[RemoteMetadata], Awaitable[T]]) -> T:
        while True:
            link, remote = await self._present()
            try:
                return await ask(remote)
            except ProcessUnavailable:
                if not link.has_ended:
                    raise  # it has too many requests under way
