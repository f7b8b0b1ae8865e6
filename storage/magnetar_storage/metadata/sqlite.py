"""Metadata in one SQLite database: WAL mode, every write synced.

The connection is used by jobs of one worker only; watchers, leases and the keys live in memory.
All pending writes share one transaction, and its sync; each has an outcome of its own.
Leases end with the process: their keys are deleted when the database is next opened.

Damage is found before it does harm.  An orderly end checks everything and stores a digest; a start
checks what the digest does not cover; and each row is checked again when it is read.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from magnetar_storage.errors import (
    BadVersion,
    Corrupt,
    DiskFull,
    Fenced,
    StorageError,
    Unavailable,
)
from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.interfaces import (
    PAGE,
    PAGE_BYTES,
    Absent,
    Change,
    Guard,
    Lease,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata import sqlite_digest
from magnetar_storage.metadata.sorted_keys import LAST_CHARACTER, SortedKeys
from magnetar_storage.metadata.sqlite_digest import ALL, Checks
from magnetar_storage.metadata.sqlite_wal import damaged_frame
from magnetar_storage.metadata.statements import (
    ADD,
    DAMAGED_ROWS,
    KNOWN_SCHEMAS,
    READ_UNDER,
    REPLACE,
    SCHEMA,
    SCHEMA_VERSION,
    UPDATE,
    checksum,
)
from magnetar_storage.metadata.watch import Watch, Watchers
from magnetar_storage.metadata.writes import Changes, Delete, EndLease, Outcome, Put, Write
from magnetar_storage.runtime.disk import Disk, ReadableDisk
from magnetar_storage.runtime.execution import Clock, Promise, Worker
from magnetar_storage.runtime.whole_files import read_file, write_file

T = TypeVar("T")

FILE = "metadata.db"
GROUP = 1000
"""The most writes in one transaction."""
COPIED_PAGES = 256
"""The pages copied before it is checked whether the copying was given up."""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


Found = Versioned | BaseException | None
"""The value of a key; None if it does not exist; the error if it cannot be read."""


class Copying:
    """A copy that may be given up while another thread makes it."""

    given_up = False

    def check(self, *progress: int) -> None:
        """Raise `Unavailable` once the copy is given up; called after some pages each time."""
        if self.given_up:
            raise Unavailable("the copy of the metadata was given up")


class Database:
    """The statements; every method runs as one job and one transaction."""

    def __init__(
        self, path: str, checks: Checks = ALL, make_room: Callable[[], bool] = lambda: False
    ) -> None:
        """Open or create the database at a path; see `SqliteMetadata.open` for errors.

        `make_room` is called when the disk is full, and returns whether it freed space.
        """
        self._path = path
        self._make_room = make_room
        self._opened: sqlite3.Connection | None = None
        self._connection = self._opened = self._explained(partial(self._connect, checks))
        self._last: Version | None = None
        """The version of the last change; None if it is unknown."""

    def get_all(self, keys: Sequence[str]) -> list[Found]:
        """Return the value of each key, or the error if it cannot be read."""
        found: list[Found] = []
        for key in keys:
            try:
                found.append(self.get(key))
            except (StorageError, UnicodeEncodeError) as error:
                found.append(error)
        return found

    def get(self, key: str) -> Versioned | None:
        found = self._query("SELECT value, version, lease, crc FROM entries WHERE key = ?", key)
        if not found:
            return None
        value = self._checked(key, *found[0])
        if isinstance(value, Corrupt):
            raise value
        return value

    def read_under(self, prefix: str, after: str, limit: int) -> list[Listed]:
        """Run `MetadataStore.read_under`."""
        return self._explained(partial(self._read_under, prefix, after, limit))

    def _read_under(self, prefix: str, after: str, limit: int) -> list[Listed]:
        found: list[Listed] = []
        size = 0
        for key, *row in self._connection.execute(
            READ_UNDER, (prefix, prefix + LAST_CHARACTER, after, limit)
        ):
            value = self._checked(key, *row)
            found.append((key, value))
            size += len(value.value) if isinstance(value, Versioned) else 0
            if size >= PAGE_BYTES:
                break
        return found

    def _checked(
        self, key: str, value: bytes, version: Version, lease: Any, crc: Any
    ) -> Versioned | Corrupt:
        if checksum(key.encode(), value, version, lease) != crc:
            return self._damaged_row(key)
        return Versioned(value, version)

    def keys(self) -> SortedKeys:
        """Return all keys."""
        # Row by row: a list of the rows would need more memory than the keys.
        rows = partial(self._connection.execute, "SELECT key FROM entries ORDER BY key")
        return self._explained(lambda: SortedKeys(key for (key,) in rows()))

    def write(self, writes: Sequence[Write]) -> list[Outcome]:
        """Make all writes, in order and in one transaction; an error fails all of them."""
        return self._explained(partial(self._write_all, writes))

    def identify(self, check: Callable[[Identity], None], new_id: bytes) -> Identity:
        """Run `SqliteMetadata.identify`."""
        return self._explained(partial(self._identify, check, new_id))

    def _identify(self, check: Callable[[Identity], None], new_id: bytes) -> Identity:
        found = self.identity()
        check(found)  # promise: metadata of another data directory is refused
        if found.directory != UNKNOWN.directory:
            return found
        self._connection.execute("UPDATE directory SET id = ?", (new_id,))
        return found._replace(directory=new_id)

    def count_start(self) -> int:
        """Run `SqliteMetadata.count_start`; return the number of starts."""
        (row,) = self._query("UPDATE directory SET starts = starts + 1 RETURNING starts")
        return int(row[0])

    def identity(self) -> Identity:
        """Return the data directory that the database names, and the number of its last write."""
        query = "SELECT id, starts, last FROM directory, writes"
        return Identity(*self._connection.execute(query).fetchone())

    def stamp(self, identity: Identity) -> None:
        """Make this the database of a data directory; later writes have larger numbers."""
        self._explained(partial(self._stamp, identity))

    def _stamp(self, identity: Identity) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("UPDATE directory SET id = ?, starts = ?", identity[:2])
            self._connection.execute("UPDATE writes SET last = max(last, ?)", identity[2:])
        self._last = None

    def close(self) -> None:
        self._explained(self._connection.close)

    def copy_to(self, path: str, copying: "Copying") -> None:
        """Write a copy of the database to a new file, which is not synced.

        `Unavailable`, and a file with a part of it, if the copying is given up meanwhile."""
        self._explained(partial(self._copy, path, copying))

    def _copy(self, path: str, copying: "Copying") -> None:
        copying.check()
        with closing(sqlite3.connect(path)) as copy:
            copy.execute("PRAGMA synchronous=OFF")
            # promise[without , progress=copying.check]: a copy that was given up ends
            self._connection.backup(copy, pages=COPIED_PAGES, progress=copying.check)

    def check_closed(self) -> None:
        """Check everything in the database's file, after `close`; `Corrupt` if it is damaged."""
        self._explained(self._check_file)

    def _check_file(self) -> None:
        # A connection of its own: the closed one had pages in memory that were not read from the
        # file.  Immutable: without locks, and nothing is written.
        uri = f"file:{quote(self._path)}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            self._check_structure(connection)
            self._check_rows(connection)

    def _connect(self, checks: Checks) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection, checks)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, checks: Checks) -> None:
        # Locked until it is closed: a second process is refused, and at once (`timeout=0`).
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        # Each commit is synced: with NORMAL, the default of some builds, only checkpoints are.
        # promise["PRAGMA synchronous=FULL" -> "PRAGMA synchronous=OFF"]: metadata is synced with
        #   its transaction
        connection.execute("PRAGMA synchronous=FULL")
        # macOS: sync to the device, not only to the drive's cache; elsewhere without effect.
        connection.execute("PRAGMA fullfsync=ON")
        connection.execute("PRAGMA checkpoint_fullfsync=ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in KNOWN_SCHEMAS:
            raise Unavailable(
                f"{self._path} has schema {version}, this release knows {SCHEMA_VERSION}: "
                "use a release that knows it"
            )
        if checks.structure:
            # Before anything is written to it: more writes would spread the damage.
            self._check_structure(connection)
        # Otherwise nothing is written, so that a full disk is not a problem.
        if version != SCHEMA_VERSION:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        if checks.rows:
            self._check_rows(connection)
        connection.execute("DELETE FROM entries WHERE lease IS NOT NULL")

    def _check_structure(self, connection: sqlite3.Connection) -> None:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(verdict)

    def _check_rows(self, connection: sqlite3.Connection) -> None:
        connection.create_function("checksum", 4, checksum, deterministic=True)
        for (key,) in connection.execute(DAMAGED_ROWS):
            raise self._damaged_row(key.decode(errors="replace"))

    def _query(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return self._explained(lambda: self._connection.execute(statement, values).fetchall())

    def _write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        last, self._last = self._last, None  # if this fails, ask the database
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if last is None:
                (last,) = self._connection.execute("SELECT last FROM writes").fetchone()
            for write in writes:
                outcome = self._outcome(write, last + 1)
                if isinstance(outcome, list):
                    last += len(outcome)
                outcomes.append(outcome)
            self._connection.execute("UPDATE writes SET last = ?", (last,))
        self._last = last
        return outcomes

    def _outcome(self, write: Write, version: Version) -> Outcome:
        """Make one write, or return its refusal; its first change gets this version."""
        if isinstance(write, EndLease):
            keys = self._connection.execute(
                "DELETE FROM entries WHERE lease = ? RETURNING key", (write.lease,)
            ).fetchall()
            return [Change(key, None, at) for at, (key,) in enumerate(sorted(keys), version)]
        try:
            key = write.key.encode()  # invalid text must not fail the other writes
        except UnicodeEncodeError as refusal:
            return refusal
        if write.guard is not None and not self._holds(write.guard):
            return Fenced(f"{write.key}: not written, because {write.guard.key} has changed")
        if isinstance(write, Put):
            return self._put(write, key, version)
        return self._delete(write, version)

    def _holds(self, guard: Guard) -> bool:
        statement = "SELECT 1 FROM entries WHERE key = ? AND version = ?"
        return self._connection.execute(statement, guard).fetchone() is not None

    def _put(self, put: Put, encoded: bytes, version: Version) -> Outcome:
        # One statement compares and sets: each statement leaves and enters the interpreter, which
        # takes longer than the statement itself while the owner's thread is busy.
        key, value, expect, lease, _ = put
        row = value, version, lease, checksum(encoded, value, version, lease), key
        execute = self._connection.execute
        if expect is None:
            execute(REPLACE, row)
        elif isinstance(expect, Absent):
            if not execute(ADD, row).rowcount:
                return self._refusal(key, expect)
        elif not execute(UPDATE, (*row, expect)).rowcount:
            return self._refusal(key, expect)
        return [Change(key, value, version)]

    def _delete(self, delete: Delete, version: Version) -> Outcome:
        key, expect, _ = delete
        execute = self._connection.execute
        if expect is None:
            deleted = execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount
            return [Change(key, None, version)] if deleted else []
        statement = "DELETE FROM entries WHERE key = ? AND version = ?"
        if not execute(statement, (key, expect)).rowcount:
            return self._refusal(key, expect)
        return [Change(key, None, version)]

    def _with_room(self, job: Callable[[], T]) -> T:
        """Run a job, and again if the disk was full and space could be freed.

        The job changed nothing before, since it is one transaction.
        """
        # The space that is set aside comes last: others may need it more.
        remedies = iter((self._reuse_log, self._make_room))
        while True:
            try:
                return job()
            except sqlite3.OperationalError as error:
                is_full = _code(error) == sqlite3.SQLITE_FULL
                # promise[any(remedy() for remedy in remedies) -> False]: metadata is written on a
                #   full disk
                if not (is_full and any(remedy() for remedy in remedies)):
                    raise

    def _reuse_log(self) -> bool:
        """Move SQLite's log into the database's file, so that the log is written from its start
        again, over allocated blocks; returns whether there was room for that."""
        try:
            if self._opened is None:
                return False
            busy, *_ = self._opened.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.OperationalError:
            return False
        return not busy

    def _explained(self, job: Callable[[], T]) -> T:
        """Translate SQLite's errors into those of storage, with a remedy."""
        try:
            return self._with_room(job)
        except sqlite3.DatabaseError as error:
            code = _code(error)
            if code == sqlite3.SQLITE_FULL:
                raise DiskFull(f"no room to write {self._path}: free some space") from error
            if code in DAMAGE:
                raise self._damaged(str(error)) from error
            hint = (
                ": another process has it open; stop that one first"
                if code == sqlite3.SQLITE_BUSY
                else ""
            )
            raise Unavailable(f"{self._path}: {error}{hint}") from error
        except UnicodeDecodeError as error:  # a damaged schema, quoted by an error of SQLite
            raise self._damaged("its schema is not valid text") from error

    def _damaged(self, why: str) -> Corrupt:
        return Corrupt(self._path, 0, f"{why}; restore the database from a copy")

    def _damaged_row(self, key: str) -> Corrupt:
        return self._damaged(f"the row of {key} is not what was written")

    def _refusal(self, key: str, expect: Version | Absent) -> BadVersion:
        found = self._connection.execute(
            "SELECT version FROM entries WHERE key = ?", (key,)
        ).fetchone()
        wanted = "no such key" if isinstance(expect, Absent) else f"version {expect}"
        present = "the key does not exist" if found is None else f"it is at version {found[0]}"
        return BadVersion(f"{key}: expected {wanted}, but {present}")


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's number of an error, without its details."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def check_log(disk: ReadableDisk) -> None:
    """Raise `Corrupt` if SQLite would drop durable writes with a damaged part of its log."""
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


def _open(disk: Disk, make_room: Callable[[], bool]) -> Database:
    check_log(disk)
    return Database(disk.path_of(FILE), sqlite_digest.needed(disk, FILE), make_room)


class SqliteMetadata:
    """The `MetadataStore` of one process; create it with `open`."""

    def __init__(
        self, disk: Disk, database: Database, keys: SortedKeys, worker: Worker, clock: Clock
    ) -> None:
        self._disk = disk
        self._database = database
        self._worker = worker
        self._clock = clock
        self._watchers = Watchers(clock)
        self._keys: SortedKeys | None = keys  # None after a failed write: ask the database
        self._waiting: list[tuple[Write, Promise]] = []
        self._writing = False
        self._in_flight = False
        self._held = False
        self._copying = Copying()
        self._asked: list[tuple[str, Promise]] = []
        self._reading = False
        self._identity = UNKNOWN
        self._leases: set[str] = set()
        self._leases_made = 0

    @classmethod
    async def open(
        cls,
        disk: Disk,
        worker: Worker,
        clock: Clock,
        make_room: Callable[[], bool] = lambda: False,
    ) -> "SqliteMetadata":
        """Open the database: `Corrupt` if it is damaged, `Unavailable` if another process has it.

        `make_room` is called in the worker's thread when the disk is full, and returns whether it
        freed space.
        """
        database = await worker.run(partial(_open, disk, make_room))
        try:
            keys = await worker.run(database.keys)
        except BaseException:
            # On the worker: after a cancellation it may still be reading the keys.
            await worker.run(database.close)
            raise
        return cls(disk, database, keys, worker, clock)

    async def identify(self, check: Callable[[Identity], None], new_id: bytes) -> None:
        """Call `check` with the identity that the database has; it raises to refuse the start.

        The id of the data directory is `new_id` from then on, durably, if it had none.  Call this
        before anything is written, and `count_start` afterwards.
        """
        self._identity = await self._worker.run(partial(self._database.identify, check, new_id))

    async def count_start(self) -> None:
        """Count a start, durably: when nothing can refuse it any more, and before any part of the
        data directory notes the identity."""
        starts = await self._worker.run(self._database.count_start)
        self._identity = self._identity._replace(starts=starts)

    @property
    def identity(self) -> Identity:
        """The data directory, and the last write that has ended; known after `identify`."""
        return self._identity

    async def get(self, key: str) -> Versioned | None:
        # So a key that does not exist, such as a policy that is not set, costs no job.
        if self._keys is not None and key not in self._keys:
            return None
        promise = self._clock.promise()
        self._asked.append((key, promise))
        if not self._reading:
            self._reading = True
            self._clock.soon(self._read, "metadata")
        found: Versioned | None = await promise
        return found

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        if lease is not None and lease.id not in self._leases:
            raise Unavailable(f"lease {lease.id} has ended")
        put = Put(key, value, expect, None if lease is None else lease.id, guard)
        (change,) = await self._write(put)
        return change.version

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._write(Delete(key, expect, guard))

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        keys = self._keys
        if keys is None:
            keys = await self._worker.run(self._database.keys)
        return keys.page(prefix, after, limit)

    async def read_under(self, prefix: str, after: str = "", limit: int = PAGE) -> Sequence[Listed]:
        return await self._worker.run(partial(self._database.read_under, prefix, after, limit))

    def watch(self, prefix: str) -> Watch:
        return self._watchers.watch(prefix)

    async def lease(self, ttl_seconds: float) -> Lease:
        self._leases_made += 1
        lease = Lease(f"process-{self._leases_made}")
        self._leases.add(lease.id)
        return lease

    async def revoke(self, lease: Lease) -> None:
        self._leases.discard(lease.id)
        await self._write(EndLease(lease.id))

    async def hold(self, path: str) -> None:
        """Hold every change until `release`, and copy the database to a new file.

        The copy, which is not synced, has all changes that were answered before.  Reads continue
        once it is made.  Call `release` also if this raises or is cancelled.
        """
        self._held = True  # promise[never]: metadata does not change until its copy is released
        self._copying = copying = Copying()
        # The worker's jobs run in order: what was being written is written by then.
        await self._worker.run(partial(self._database.copy_to, path, copying))

    def release(self) -> None:
        """Resume the changes, and give up a copy that is being made: changes do not wait for it."""
        self._held = False
        self._copying.given_up = True
        if self._writing and not self._in_flight:
            self._clock.soon(self._begin, "metadata")

    async def close(self) -> None:
        """Close the database, in any case; `Corrupt` if it was damaged since it was opened."""
        for lease in sorted(self._leases):
            await self.revoke(Lease(lease))
        self._watchers.close()
        await self._worker.run(self._database.close)
        await self._worker.run(self._store_digest)

    def _store_digest(self) -> None:
        """Check everything, so that the next start need not."""
        if sqlite_digest.has_log(self._disk, FILE):
            return  # SQLite could not move it into the file, which may be incomplete
        try:
            # promise: a digest of the metadata is stored only after a check
            self._database.check_closed()
            write_file(self._disk, sqlite_digest.FILE, sqlite_digest.encode(self._disk, FILE))
        except (DiskFull, Unavailable):
            # Without a digest the next start checks everything, so the stop has not failed.
            pass

    # Reading and writing in groups ----------------------------------------------

    def _read(self) -> None:
        asked, self._asked = self._asked, []
        job = partial(self._database.get_all, [key for key, _ in asked])
        self._worker.submit(job, partial(self._found, [promise for _, promise in asked]))

    def _found(
        self,
        promises: Sequence[Promise],
        found: Sequence[Found] | None,
        error: BaseException | None,
    ) -> None:
        for promise, one in zip(promises, found or [_again(error)] * len(promises), strict=True):
            if promise.done():
                continue
            if isinstance(one, BaseException):
                promise.set_exception(one)
            else:
                promise.set_result(one)
        self._reading = bool(self._asked)
        if self._reading:
            self._read()

    async def _write(self, write: Write) -> Changes:
        """Return the changes of a write, once they are durable."""
        promise = self._clock.promise()
        self._waiting.append((write, promise))
        if not self._writing:
            self._writing = True
            self._clock.soon(self._begin, "metadata")
        changes: Changes = await promise
        return changes

    def _begin(self) -> None:
        if self._held or self._in_flight or not self._waiting:
            return  # `release`, or the outcome of that group, comes back to it
        self._in_flight = True
        group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
        job = partial(self._database.write, [write for write, _ in group])
        self._worker.submit(job, partial(self._written, [promise for _, promise in group]))

    def _written(
        self,
        promises: Sequence[Promise],
        outcomes: Sequence[Outcome] | None,
        error: BaseException | None,
    ) -> None:
        self._in_flight = False
        if outcomes is None:
            # Which of the writes took place is unknown.
            self._keys = None
            outcomes = [_again(error) for _ in promises]
        elif self._keys is None:
            self._worker.submit(self._database.keys, self._learn)
        for promise, outcome in zip(promises, outcomes, strict=True):
            if isinstance(outcome, list):
                self._changed(outcome)
                if not promise.done():
                    promise.set_result(outcome)
            elif not promise.done():
                promise.set_exception(outcome)
        self._writing = bool(self._waiting)
        if self._writing:
            self._begin()

    def _changed(self, changes: Changes) -> None:
        if changes:
            self._identity = self._identity._replace(revision=changes[-1].version)
        for change in changes:
            if self._keys is not None:
                if change.value is None:
                    self._keys.discard(change.key)
                else:
                    self._keys.add(change.key)
            self._watchers.publish(change)

    def _learn(self, keys: SortedKeys | None, error: BaseException | None) -> None:
        """Set the keys to those after all writes that have an outcome, and before any other."""
        self._keys = keys


def _again(error: BaseException | None) -> BaseException:
    """Return the error for one of several callers that fail by it."""
    if isinstance(error, StorageError):
        return error.again()
    return error or Unavailable("the outcome is unknown")
