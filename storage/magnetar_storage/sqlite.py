"""Metadata in one SQLite file, from the standard library: WAL mode, synced at every write.

The connection lives in one worker.  Versions count the writes to the whole store and are
never used again.  Keys under a lease are gone at the next opening, or when it is revoked.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from magnetar_storage.disk import Disk
from magnetar_storage.errors import BadVersion, Corrupt, DiskFull, Unavailable
from magnetar_storage.interfaces import (
    Absent,
    Change,
    Lease,
    Resync,
    Version,
    Versioned,
)
from magnetar_storage.watch import Watchers
from magnetar_storage.world import Clock, Worker

T = TypeVar("T")

FILE = "metadata.db"
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, lease TEXT
) WITHOUT ROWID;
CREATE TABLE writes (last INTEGER NOT NULL);
INSERT INTO writes VALUES (0);
"""
LAST_CHARACTER = "\U0010ffff"
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteMetadata:
    """A `MetadataStore`; make it with `open`."""

    def __init__(self, connection: sqlite3.Connection, worker: Worker, clock: Clock) -> None:
        self._connection = connection
        self._worker = worker
        self._watchers = Watchers(clock)
        self._leases: set[str] = set()
        self._leases_made = 0

    @classmethod
    async def open(cls, disk: Disk, worker: Worker, clock: Clock) -> "SqliteMetadata":
        """Open or make the file; `Corrupt` if it is no database of ours."""
        path = disk.path_of(FILE)
        return cls(await worker.run(lambda: _explained(lambda: _open(path))), worker, clock)

    async def get(self, key: str) -> Versioned | None:
        row = await self._run(lambda db: _row(db, key))
        return None if row is None else Versioned(*row)

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
    ) -> Version:
        holder = None if lease is None else lease.id
        if holder is not None and holder not in self._leases:
            raise Unavailable(f"lease {holder} has ended")
        version = await self._run(lambda db: _put(db, key, value, expect, holder))
        self._watchers.publish(Change(key, value, version))
        return version

    async def delete(self, key: str, expect: Version | None = None) -> None:
        version = await self._run(lambda db: _delete(db, key, expect))
        if version is not None:
            self._watchers.publish(Change(key, None, version))

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return await self._run(lambda db: _list(db, prefix, after, limit))

    def watch(self, prefix: str) -> AsyncIterator[Change | Resync]:
        return self._watchers.watch(prefix)

    async def lease(self, ttl_seconds: float) -> Lease:
        self._leases_made += 1
        lease = Lease(f"process-{self._leases_made}")
        self._leases.add(lease.id)
        return lease

    async def revoke(self, lease: Lease) -> None:
        self._leases.discard(lease.id)
        for key in await self._run(lambda db: _leased(db, lease.id)):
            await self.delete(key)

    async def close(self) -> None:
        for lease in sorted(self._leases):
            await self.revoke(Lease(lease))
        self._watchers.close()
        await self._worker.run(self._connection.close)

    async def _run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Run one transaction in the worker."""

        def transaction() -> T:
            with self._connection:
                return job(self._connection)

        return await self._worker.run(lambda: _explained(transaction))


def _open(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == 0:
        with db:
            db.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
    elif version != SCHEMA_VERSION:
        raise Corrupt(FILE, 0, f"schema version {version}; this release reads {SCHEMA_VERSION}")
    with db:
        db.execute("DELETE FROM entries WHERE lease IS NOT NULL")
    return db


def _row(db: sqlite3.Connection, key: str) -> tuple[bytes, Version] | None:
    found = db.execute("SELECT value, version FROM entries WHERE key = ?", (key,)).fetchone()
    return None if found is None else (found[0], found[1])


def _check(db: sqlite3.Connection, key: str, expect: Version | Absent | None) -> None:
    if expect is None:
        return
    row = _row(db, key)
    if isinstance(expect, Absent):
        if row is not None:
            raise BadVersion(f"{key} exists, at version {row[1]}")
    elif row is None:
        raise BadVersion(f"{key} does not exist, version {expect} was expected")
    elif row[1] != expect:
        raise BadVersion(f"{key} is at version {row[1]}, not {expect}")


def _next_version(db: sqlite3.Connection) -> Version:
    version: int = db.execute("UPDATE writes SET last = last + 1 RETURNING last").fetchone()[0]
    return version


def _put(
    db: sqlite3.Connection,
    key: str,
    value: bytes,
    expect: Version | Absent | None,
    lease: str | None,
) -> Version:
    _check(db, key, expect)
    version = _next_version(db)
    db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, value, version, lease))
    return version


def _delete(db: sqlite3.Connection, key: str, expect: Version | None) -> Version | None:
    """The version of the deletion; None if there was nothing to delete."""
    _check(db, key, expect)
    if db.execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount == 0:
        return None
    return _next_version(db)


def _list(db: sqlite3.Connection, prefix: str, after: str, limit: int) -> list[str]:
    rows = db.execute(
        "SELECT key FROM entries WHERE key > ? AND key >= ? AND key < ? ORDER BY key LIMIT ?",
        (after, prefix, prefix + LAST_CHARACTER, limit),
    )
    return [key for (key,) in rows]


def _leased(db: sqlite3.Connection, lease: str) -> list[str]:
    rows = db.execute("SELECT key FROM entries WHERE lease = ? ORDER BY key", (lease,))
    return [key for (key,) in rows]


def _explained(job: Callable[[], T]) -> T:
    """SQLite's errors as ours."""
    try:
        return job()
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in DAMAGED:
            raise Corrupt(FILE, 0, f"{error}; restore the file from a backup") from error
        if code is not None and code & 0xFF == sqlite3.SQLITE_FULL:
            raise DiskFull(f"no room for metadata: {error}; free some space") from error
        raise Unavailable(f"metadata: {error}") from error
