"""Metadata in one SQLite database: WAL mode, every write synced.

The connection is used by jobs of one worker only; watchers and leases live in memory.
Leases end with the process: what they held is deleted when the database is next opened.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from crc32c import crc32c

from magnetar_storage.disk import Disk, ReadableDisk
from magnetar_storage.errors import BadVersion, Corrupt, DiskFull, StorageError, Unavailable
from magnetar_storage.interfaces import (
    Absent,
    Change,
    Lease,
    Resync,
    Version,
    Versioned,
)
from magnetar_storage.sqlite_wal import damaged_frame
from magnetar_storage.watch import Watchers
from magnetar_storage.whole_files import read_file
from magnetar_storage.world import Clock, Worker

T = TypeVar("T")

FILE = "metadata.db"
SCHEMA_VERSION = 2
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS entries (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, lease TEXT,
        crc INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS entries_lease ON entries (lease) WHERE lease IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS writes (last INTEGER NOT NULL)",
    "INSERT INTO writes SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM writes)",
)
DAMAGED_ROWS = """SELECT CAST(key AS BLOB) FROM entries
    WHERE typeof(key) != 'text' OR crc IS NOT checksum(CAST(key AS BLOB), value, version, lease)
    LIMIT 1"""
LAST_CHARACTER = "\U0010ffff"
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def checksum(key: bytes, value: object, version: object, lease: object) -> int:
    """Of a row; -1 if the value is none, since SQLite lets a damaged column be of any type."""
    if not isinstance(value, bytes):
        return -1
    return crc32c(value, crc32c(b"%d %a " % (len(key), (version, lease)) + key))


class Database:
    """The statements; every method runs as one job and one transaction."""

    def __init__(self, path: str) -> None:
        """Open or create the database at a path; see `SqliteMetadata.open` for errors."""
        self._path = path
        self._connection = self._explained(partial(self._connect, path))

    def get(self, key: str) -> Versioned | None:
        found = self._query("SELECT value, version, lease, crc FROM entries WHERE key = ?", key)
        if not found:
            return None
        value, version, lease, crc = found[0]
        if checksum(key.encode(), value, version, lease) != crc:
            raise self._damaged_row(key)
        return Versioned(value, version)

    def keys(self, prefix: str, after: str, limit: int) -> list[str]:
        found = self._query(
            "SELECT key FROM entries WHERE key >= ? AND key > ? AND key <= ? ORDER BY key LIMIT ?",
            prefix,
            after,
            prefix + LAST_CHARACTER,
            limit,
        )
        return [key for (key,) in found]

    def put(
        self, key: str, value: bytes, expect: Version | Absent | None, lease: str | None
    ) -> Change:
        def write() -> Change:
            self._check(key, expect)
            version = self._count()
            row = key, value, version, lease, checksum(key.encode(), value, version, lease)
            self._connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)", row)
            return Change(key, value, version)

        return self._transaction(write)

    def delete(self, key: str, expect: Version | None) -> Change | None:
        def write() -> Change | None:
            self._check(key, expect)
            gone = self._connection.execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount
            return Change(key, None, self._count()) if gone else None

        return self._transaction(write)

    def end_lease(self, lease: str) -> list[Change]:
        """Delete what was put under the lease."""

        def write() -> list[Change]:
            keys = self._connection.execute(
                "DELETE FROM entries WHERE lease = ? RETURNING key", (lease,)
            ).fetchall()
            return [Change(key, None, self._count()) for (key,) in sorted(keys)]

        return self._transaction(write)

    def close(self) -> None:
        self._explained(self._connection.close)

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise Unavailable(
                f"{self._path} has schema {version}, this release knows {SCHEMA_VERSION}: "
                "use a release that knows it"
            )
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(verdict)
        connection.create_function("checksum", 4, checksum, deterministic=True)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        for (key,) in connection.execute(DAMAGED_ROWS):
            raise self._damaged_row(key.decode(errors="replace"))
        connection.execute("DELETE FROM entries WHERE lease IS NOT NULL")

    def _query(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return self._explained(lambda: self._connection.execute(statement, values).fetchall())

    def _transaction(self, write: Callable[[], T]) -> T:
        def committed() -> T:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                return write()

        return self._explained(committed)

    def _explained(self, job: Callable[[], T]) -> T:
        """Say what SQLite's errors mean, and what to do."""
        try:
            return job()
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise DiskFull(f"no room to write {self._path}: free some space") from error
            if code in DAMAGE:
                raise self._damaged(str(error)) from error
            hint = ": another process has it open" if code == sqlite3.SQLITE_BUSY else ""
            raise Unavailable(f"{self._path}: {error}{hint}") from error
        except UnicodeDecodeError as error:  # a damaged schema, quoted by an error of SQLite
            raise self._damaged("names in it are not text") from error

    def _damaged(self, why: str) -> StorageError:
        return Corrupt(self._path, 0, f"{why}; restore the database from a copy")

    def _damaged_row(self, key: str) -> StorageError:
        return self._damaged(f"the row of {key} is not what was written")

    def _count(self) -> Version:
        (writes,) = self._connection.execute(
            "UPDATE writes SET last = last + 1 RETURNING last"
        ).fetchone()
        return int(writes)

    def _check(self, key: str, expect: Version | Absent | None) -> None:
        if expect is None:
            return
        found = self._connection.execute(
            "SELECT version FROM entries WHERE key = ?", (key,)
        ).fetchone()
        present = None if found is None else found[0]
        if isinstance(expect, Absent):
            if present is not None:
                raise BadVersion(f"{key} exists, at version {present}")
        elif present is None:
            raise BadVersion(f"{key} does not exist, version {expect} was expected")
        elif present != expect:
            raise BadVersion(f"{key} is at version {present}, not {expect}")


def check_log(disk: ReadableDisk) -> None:
    """`Corrupt` if SQLite would drop durable writes with a damaged part of its log."""
    name = f"{FILE}-wal"
    try:
        log = read_file(disk, name)
    except FileNotFoundError:
        return
    at = damaged_frame(log)
    if at is not None:
        why = (
            "not what was written, and later writes depend on it; restore the database from a copy"
        )
        raise Corrupt(name, at, why)


class SqliteMetadata:
    """The `MetadataStore` of one process; make it with `open`."""

    def __init__(self, database: Database, worker: Worker, clock: Clock) -> None:
        self._database = database
        self._worker = worker
        self._watchers = Watchers(clock)
        self._leases: set[str] = set()
        self._leases_made = 0

    @classmethod
    async def open(cls, disk: Disk, worker: Worker, clock: Clock) -> "SqliteMetadata":
        """`Corrupt` if the database is damaged, `Unavailable` if another process has it."""
        await worker.run(partial(check_log, disk))
        database = await worker.run(partial(Database, disk.path_of(FILE)))
        return cls(database, worker, clock)

    async def get(self, key: str) -> Versioned | None:
        return await self._worker.run(partial(self._database.get, key))

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
    ) -> Version:
        if lease is not None and lease.id not in self._leases:
            raise Unavailable(f"lease {lease.id} has ended")
        lease_id = None if lease is None else lease.id
        change = await self._worker.run(partial(self._database.put, key, value, expect, lease_id))
        self._watchers.publish(change)
        return change.version

    async def delete(self, key: str, expect: Version | None = None) -> None:
        change = await self._worker.run(partial(self._database.delete, key, expect))
        if change is not None:
            self._watchers.publish(change)

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return await self._worker.run(partial(self._database.keys, prefix, after, limit))

    def watch(self, prefix: str) -> AsyncIterator[Change | Resync]:
        return self._watchers.watch(prefix)

    async def lease(self, ttl_seconds: float) -> Lease:
        self._leases_made += 1
        lease = Lease(f"process-{self._leases_made}")
        self._leases.add(lease.id)
        return lease

    async def revoke(self, lease: Lease) -> None:
        self._leases.discard(lease.id)
        for change in await self._worker.run(partial(self._database.end_lease, lease.id)):
            self._watchers.publish(change)

    async def close(self) -> None:
        for lease in sorted(self._leases):
            await self.revoke(Lease(lease))
        self._watchers.close()
        await self._worker.run(self._database.close)
