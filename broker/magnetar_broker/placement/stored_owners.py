"""The owners of bundles in the metadata store, which the next leader of a cluster begins with."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import OWNERS, owners_key
from magnetar_broker.placement.bundles import Bundles
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import ABSENT, Absent, Version

BOUNDARIES, WORKERS = "boundaries", "workers"
"""The fields of a record."""


class NamedOwners(NamedTuple):
    """The bundles of a namespace, and the name of the worker of each."""

    bundles: Bundles
    workers: tuple[str, ...]


class StoredOwners:
    """Reads and changes the owners of bundles; each change is durable on return.

    A change depends on the record that this object has read or written last, so a leader that has
    lost its place changes nothing, even where its guard would still hold.
    """

    def __init__(self, metadata: GuardedMetadata) -> None:
        self._metadata = metadata
        self._versions: dict[str, Version] = {}
        """The versions of records that were read or written last, by namespace."""

    async def load(self) -> dict[str, NamedOwners]:
        """Return the owners of all namespaces that have any; `Corrupt` for a damaged record."""
        self._versions.clear()
        found: dict[str, NamedOwners] = {}
        after = ""
        # promise[while -> if]: all owners are read, however many there are
        while page := await self._metadata.read_under(OWNERS, after):
            for key, record in page:
                if isinstance(record, Corrupt):
                    raise record
                namespace = key.removeprefix(OWNERS)
                found[namespace] = _decoded(record.value)
                self._versions[namespace] = record.version
            after = page[-1][0]
        return found

    async def store(self, namespace: str, owners: NamedOwners) -> None:
        """Replace the owners of a namespace; `BadVersion` if another process has changed them."""
        # Until the answer is there, it is unknown which version is stored.
        expect: Version | Absent | None = self._versions.pop(namespace, None)
        key = owners_key(namespace)
        if expect is None:
            found = await self._metadata.get(key)
            expect = ABSENT if found is None else found.version
        version = await self._metadata.put(key, _encoded(owners), expect)
        self._versions[namespace] = version

    async def delete(self, namespace: str) -> None:
        """Remove the owners of a namespace, if it has any."""
        self._versions.pop(namespace, None)
        await self._metadata.delete(owners_key(namespace))


def _encoded(owners: NamedOwners) -> bytes:
    fields = {BOUNDARIES: owners.bundles.texts, WORKERS: list[str](owners.workers)}
    return json.dumps(fields).encode()


def _decoded(value: bytes) -> NamedOwners:
    fields = json.loads(value)
    workers: Sequence[str] = fields[WORKERS]
    return NamedOwners(Bundles.parse(fields[BOUNDARIES]), tuple(workers))
