"""Rebuilds the metadata of a data directory from its other files, offline."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from magnetar_broker.base.metadata_keys import DELETIONS, OBJECTS, TOPICS, topic_of
from magnetar_broker.names.rebuilt_names import recovered_key, values_by_names
from magnetar_broker.server.data_directory.lost_objects import (
    Search,
    as_lines,
    found_objects,
    listed_before,
    prefix_of,
)
from magnetar_broker.server.data_directory.object_names import ObjectPrefix, another, encoded
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, ThreadWorkers
from magnetar_broker.verify import copied_metadata, values_under
from magnetar_storage.errors import Corrupt, Incomplete, Unavailable
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import SegmentCopy
from magnetar_storage.local import layout
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.metadata import sqlite_digest
from magnetar_storage.metadata.database import FILE, Database
from magnetar_storage.metadata.sqlite import GROUP
from magnetar_storage.metadata.writes import Put
from magnetar_storage.multi_store.belonging import GIVING_UP, Noted, check, noted_offline
from magnetar_storage.multi_store.opening import open_store
from magnetar_storage.rebuild.logs import Rebuilt, RebuiltLog, rebuilt
from magnetar_storage.rebuild.objects import FoundObjects
from magnetar_storage.runtime.disk import Disk, LocalDisk, ReadOnlyDisk
from magnetar_storage.verify.overlay import Overlay

NEW_FILE = f"{FILE}.rebuilt"
FORMER = "metadata-former-"
"""The prefix of the directories in which former files of the metadata are kept."""
WAL = f"{FILE}-wal"
FILES = (FILE, WAL, f"{FILE}-shm", sqlite_digest.FILE)

Progress = Callable[[int], None]


@dataclass
class Rebuilding:
    """The result of a rebuild, made or only calculated."""

    logs: dict[str, RebuiltLog]
    """The rebuilt logs by the keys of their records."""
    found: Rebuilt
    kept: int = 0
    """The number of values of the older metadata that are used."""
    missing: list[SegmentCopy] = field(default_factory=list)
    """The only copies of ledgers that the older metadata lists and the new one does not."""
    objects: FoundObjects | None = None
    """The objects that stores have; None if no store was asked."""
    former: str = ""
    """The directory with the former files of the metadata; empty if there were none."""
    values: dict[str, bytes] = field(default_factory=dict)


class Trouble(NamedTuple):
    """The reason why no broker starts with the metadata of a data directory."""

    why: str
    noted: Noted
    """The identities found in the other parts of the directory."""
    older: dict[str, bytes]
    """The values of the metadata if it is an outdated copy; otherwise empty."""


def metadata_trouble(data_dir: str) -> Trouble | None:
    """Return the fault of the metadata; None if it belongs to the directory and is intact.

    Raises `StorageError` if a broker uses the directory, or another part is missing.
    """
    disk = ReadOnlyDisk(data_dir)
    layout.format_of(disk)
    with closing(disk.lock(layout.LOCK_FILE)):
        noted = noted_offline(Overlay(disk))
        if FILE not in disk.list(""):
            return Trouble(f"{FILE} is missing", noted, {})
        try:
            with copied_metadata(disk) as database:
                identity, values = database.identity(), dict(values_under(database, ""))
        except Corrupt as error:
            return Trouble(f"{FILE} is damaged: {error.why}", noted, {})
    try:
        check(noted, identity)
    except Incomplete as error:
        is_older = identity.directory == noted.directory
        return Trouble(str(error), noted, values if is_older else {})
    return None


def rebuild(
    data_dir: str, apply: bool, progress: Progress, search: Search | None = None
) -> Rebuilding:
    """Derive the metadata from the segments, and with `apply` write it to a new `metadata.db`.

    Segments are also looked for in stores of objects if `search` says where.  If the present
    metadata is an older copy, its values other than records of logs are used.  Without `apply`
    nothing is changed.  Raises `StorageError` if a broker uses the directory, if it or a store of
    objects cannot be opened, or if its metadata is the right one.
    """
    trouble = metadata_trouble(data_dir)
    if trouble is None:
        raise Unavailable(f"{FILE} is the right one: it is not rebuilt")
    objects = None
    if search is not None:
        objects = found_objects(search, trouble.noted.directory, trouble.older)
    prefixes = () if search is None else search.prefixes
    return asyncio.run(_rebuild(data_dir, apply, trouble, objects, prefixes, progress))


async def _rebuild(
    data_dir: str,
    apply: bool,
    trouble: Trouble,
    objects: FoundObjects | None,
    prefixes: Sequence[str],
    progress: Progress,
) -> Rebuilding:
    loop = asyncio.get_running_loop()
    workers, clock = ThreadWorkers(loop), LoopClock(loop)
    local = LocalDisk(data_dir) if apply else None
    disk: Disk = local or Overlay(ReadOnlyDisk(data_dir))
    try:
        lock = disk.lock(layout.LOCK_FILE)
        store = await open_store(disk, workers, clock, GIVING_UP, lock=lock)
        try:
            there = {} if objects is None else objects.segments
            found = await rebuilt(store, clock.now_ms(), progress, there)
            identity = _identity(trouble.noted)
            result = _joined(found, trouble.older, identity, prefixes)
            if objects is not None:
                objects.unusable += found.unusable
            result.objects = objects
            if local is not None:
                result.former = _write(local, result.values, identity, bool(trouble.older))
        finally:
            await store.close()
    finally:
        workers.stop()
    return result


NOT_TOLD = """\
What the files do not tell: tenants' roles and clusters, permissions, policies, schemas, properties
and numbers of partitions that were never used, settings changed while the broker ran, whether a
topic was terminated. Tenants and namespaces are named by their topics; each namespace keeps all
messages and topics until its policies retention and inactive_topics are set again."""
REMOTE = """\
No store of objects was asked: ledgers that are only in a store of objects are not listed again,
and their objects are not deleted. If ledgers were offloaded, name the broker's configuration file
with --conf, and places that policies named with --place."""
KEPT = """\
The broker deletes no object that was found again, since another copy of this directory may use it:
when nothing else does, delete the objects that are not needed any more."""
OLDER = """\
Tenants, namespaces, policies, schemas and the like are those of the older metadata.db."""


def as_text(result: Rebuilding) -> str:
    """Return a line for each topic, with what could not be derived below it, and a summary."""
    lines: list[str] = []
    for key, log in result.logs.items():
        record = log.record
        messages = sum(one.messages for one in record.segments if one.kept is None)
        names = ", ".join(sorted(log.cursors)) or "none"
        ledgers = len(record.listed)
        lines.append(
            f"{topic_of(key)}: {messages} messages, {ledgers} ledgers, subscriptions: {names}"
        )
        lines += [f"  {note}" for note in log.notes]
    for number, why in result.found.unlisted.items():
        lines.append(f"ledger {number} belongs to no topic: {why}")
    lines.append(
        f"{result.found.segments} ledgers read: {len(result.logs)} topics, "
        f"{len(result.found.nameless)} of them named by their ledger only, "
        f"{len(result.found.unlisted)} ledgers of no topic"
    )
    if result.kept:
        lines.append(OLDER)
    else:
        lines.append(NOT_TOLD)
    if result.objects is None:
        lines.append(REMOTE)
        if result.missing:
            lines.append(f"The older metadata.db lists {len(result.missing)} such ledgers.")
    else:
        lines += as_lines(result.objects, result.found.objects, result.missing)
        if result.objects.segments:
            lines.append(KEPT)
    if result.former:
        lines.append(f"the former metadata.db is in {result.former}")
    return "\n".join(lines)


def _identity(noted: Noted) -> Identity:
    """Return the identity that the metadata must at least have to match the other parts."""
    parts = noted.parts.values()
    return Identity(
        noted.directory,
        max(part.starts for part in parts),
        max(part.revision for part in parts),
    )


def _joined(
    found: Rebuilt, older: dict[str, bytes], identity: Identity, prefixes: Sequence[str]
) -> Rebuilding:
    """Return the values of the metadata: records of logs as found, other values as they were.

    `prefixes` are further ones of objects that records may list.
    """
    logs = found.logs | {recovered_key(number): log for number, log in found.nameless.items()}
    values = {key: value for key, value in older.items() if _stays(key, value)}
    kept = len(values)
    for key, log in logs.items():
        values[key] = _with_older(log.record, key, older.get(key)).encode()
    keys = [key for key in values if key.startswith(TOPICS)]
    values |= values_by_names(keys, identity.starts, values)
    former = prefix_of(identity.directory, older)
    formers = dict.fromkeys((*former.formers, *prefixes))
    # promise: a rebuilt directory deletes no object of a directory that it was copied from
    values[OBJECTS] = encoded(another(ObjectPrefix(former.own, tuple(formers))))
    listed = {copy.name for copy in listed_before(values)}
    missing = [copy for copy in listed_before(older) if copy.name not in listed]
    return Rebuilding(logs, found, kept, missing, values=values)


def _stays(key: str, value: bytes) -> bool:
    """Return whether a value of older metadata is used, because segments tell nothing better."""
    if not key.startswith(TOPICS):
        return not key.startswith(DELETIONS)
    with suppress(Corrupt):
        return not LogRecord.decode(key, value).listed
    return False


def _with_older(record: LogRecord, key: str, older: bytes | None) -> LogRecord:
    """Return the record with fields of an older one that segments do not hold."""
    if older is None:
        return record
    try:
        former = LogRecord.decode(key, older)
    except Corrupt:
        return record
    return replace(
        record,
        epoch=max(record.epoch, former.epoch + 1),
        properties=former.properties,
        terminated=former.terminated,
        terminated_at=former.terminated_at,
    )


def _write(disk: LocalDisk, values: dict[str, bytes], identity: Identity, is_readable: bool) -> str:
    """Replace the database; return where the former one is kept, "" if there was none.

    `is_readable` says whether the former one is intact and of this directory: then it is there,
    with all of its values, until the new one takes its place.
    """
    for name in ("", "-wal", "-shm"):  # left by a repair that was interrupted
        disk.remove(f"{NEW_FILE}{name}")
    database = Database(disk.path_of(NEW_FILE))
    try:
        left = iter(sorted(values.items()))
        while group := list(islice(left, GROUP)):
            database.write([Put(key, value, None, None) for key, value in group])
        database.stamp(identity)
    finally:
        database.close()
    if is_readable and WAL in disk.list(""):
        # SQLite moves the log's changes to the file, which has to do without the log below.
        Database(disk.path_of(FILE)).close()
    former = _keep_former(disk)
    # SQLite would apply a log of the former database to the new one.
    for name in FILES[1:]:
        disk.remove(name)
    disk.sync_dir("")
    disk.rename(NEW_FILE, FILE)
    disk.sync_dir("")
    return former


def _keep_former(disk: LocalDisk) -> str:
    """Link former metadata files, if any, to a new directory beside them."""
    names = disk.list("")
    present = [name for name in FILES if name in names]
    if not present:
        return ""
    number = 1
    while f"{FORMER}{number}" in names:
        number += 1
    former = f"{FORMER}{number}"
    disk.make_dir(former)
    for name in present:
        # promise[disk.link(name, f"{former}/{name}") -> disk.rename(name, f"{former}/{name}")]: a
        #   repair that was killed can be repeated without a loss
        disk.link(name, f"{former}/{name}")
    # promise: former metadata is kept
    disk.sync_dir(former)
    disk.sync_dir("")
    return os.path.join(disk.path_of(former), "")
