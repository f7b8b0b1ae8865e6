"""The calls that a server of metadata must answer; all of them run in the thread of the engine."""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple, Protocol

from magnetar_broker.server.metadata_stores.groups import GroupLimits
from magnetar_storage.errors import BadVersion, Fenced, LeaseEnded, StorageError
from magnetar_storage.interfaces import Absent, Change, Guard, Listed, Version, Versioned
from magnetar_storage.metadata.writes import Put, Write

Position = int
"""A point in the history of all changes of a server; later ones are larger."""
Outcome = Version | StorageError
"""The version of the key that was written, or the error with which the write was refused."""


class Batch(NamedTuple):
    """Changes up to a position, in order."""

    position: Position
    changes: list[Change] | None
    """None if changes may have been missed: list the keys (again)."""


class MetadataEngine(Protocol):
    """A server of metadata.  Every call may raise `Unavailable`: its outcome is unknown then."""

    @property
    def limits(self) -> GroupLimits:
        """The limits of the groups for `write`."""

    async def open(self) -> None:
        """Connect to the server and prepare it; raises an error of one clear sentence."""

    async def get(self, key: str) -> Versioned | None:
        """Run `MetadataStore.get`."""

    async def write(self, group: Sequence[Write]) -> Sequence[Outcome]:
        """Make all writes of a group, in order and at once; a refused one does not fail others."""

    async def keys(self, prefix: str, after: str, limit: int) -> list[str]:
        """Run `MetadataStore.list`."""

    async def read_under(self, prefix: str, after: str, limit: int) -> list[Listed]:
        """Run `MetadataStore.read_under`."""

    def changes(self, prefix: str, after: Position | None) -> AsyncGenerator[Batch]:
        """Iterate over all changes under `prefix` after a position, without an end.

        With None, or if those changes are no longer known, the first batch has None for changes,
        and the present position.
        """

    async def grant(self, ttl_seconds: float) -> str:
        """Create a lease that ends if it is not renewed for `ttl_seconds`; returns its id."""

    async def renew(self, lease: str) -> bool:
        """Renew a lease; return whether it still exists."""

    async def close(self) -> None:
        """Close all connections."""


def fenced(write: Write, guard: Guard) -> Fenced:
    """Return the error of a write whose guard does not hold."""
    return Fenced(f"{_key_of(write)}: not written, because {guard.key} has changed")


def bad_version(write: Write, expect: Version | Absent) -> BadVersion:
    """Return the error of a write whose key is not at the expected version."""
    wanted = "no such key" if isinstance(expect, Absent) else f"version {expect}"
    return BadVersion(f"{_key_of(write)}: expected {wanted}, but the key was changed")


def lease_ended(put: Put) -> LeaseEnded:
    """Return the error of a put under a lease that has ended."""
    return LeaseEnded(f"{put.key}: not written, because lease {put.lease} has ended")


def _key_of(write: Write) -> str:
    return getattr(write, "key", "")
