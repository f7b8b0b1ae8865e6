"""The names of a data directory's objects in stores of objects: the prefix tells whose they are.

The prefix is the id of the data directory at first.  A restored snapshot has the same id, and lists
objects of the directory that it was made of, which may still be in use.  So its first start chooses
another prefix: a broker deletes only objects with the prefix of its own.
"""

import json
import os
from typing import NamedTuple

from magnetar_broker.base.metadata_keys import OBJECTS
from magnetar_broker.server.data_directory.snapshots.files import MANIFEST
from magnetar_storage.errors import Corrupt
from magnetar_storage.identity import ID_BYTES
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.runtime.whole_files import write_file

COPIED = "COPIED"
"""The file in a data directory that is a copy of another one, until its first start."""


class ObjectPrefix(NamedTuple):
    """The prefix of the names of new objects, and those of the originals, if this is a copy."""

    own: str
    formers: tuple[str, ...] = ()
    """The prefixes of directories that have not been told yet that this one shares objects."""


def mark_as_copy(disk: LocalDisk) -> None:
    """Make the first start on a data directory choose a prefix; durable on return."""
    write_file(disk, COPIED, b"The next start of a broker removes this file.\n")
    disk.sync_dir("")


async def object_prefix(disk: LocalDisk, metadata: SqliteMetadata, worker: Worker) -> ObjectPrefix:
    """Return the prefix of the data directory, chosen now if this is the first start of a copy.

    Call it before the manifest of a snapshot is removed, which is a copy, too.
    """
    found = await _stored(metadata)
    names = await worker.run(lambda: disk.list(""))
    # promise[COPIED not in names and MANIFEST not in names -> True]: a restored directory deletes
    #   no object of the original
    if COPIED not in names and MANIFEST not in names:
        return found
    chosen = another(found)
    await metadata.put(OBJECTS, encoded(chosen))
    await worker.run(lambda: _remove_mark(disk))
    return chosen


def another(former: ObjectPrefix) -> ObjectPrefix:
    """Return a prefix that no data directory has."""
    return ObjectPrefix(os.urandom(ID_BYTES).hex(), (*former.formers, former.own))


async def forget_formers(metadata: MetadataStore, prefix: ObjectPrefix) -> None:
    """Store the prefix without those of its originals, which have been told of this directory."""
    await metadata.put(OBJECTS, encoded(ObjectPrefix(prefix.own)))


def encoded(prefix: ObjectPrefix) -> bytes:
    """Return the value of the prefix in the metadata."""
    return json.dumps({"prefix": prefix.own, "formers": prefix.formers}).encode()


async def _stored(metadata: SqliteMetadata) -> ObjectPrefix:
    value = await metadata.get(OBJECTS)
    if value is None:
        return ObjectPrefix(metadata.identity.directory.hex())
    return decoded(value.value)


def decoded(value: bytes) -> ObjectPrefix:
    """Decode the value of the prefix in the metadata; `Corrupt` if it cannot be read."""
    try:
        fields = json.loads(value)
        own, formers = fields["prefix"], tuple(fields["formers"])
    except (ValueError, TypeError, KeyError) as error:
        raise Corrupt(OBJECTS, 0, f"the prefix of objects cannot be read: {error}") from error
    return ObjectPrefix(own, formers)


def _remove_mark(disk: LocalDisk) -> None:
    disk.remove(COPIED)
    disk.sync_dir("")
