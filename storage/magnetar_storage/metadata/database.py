"""The statements of the metadata's SQLite database, each run as one job and one transaction."""

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
    PAGE_BYTES,
    Absent,
    Change,
    Guard,
    Listed,
    Version,
    Versioned,
)
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
from magnetar_storage.metadata.writes import Delete, EndLease, Outcome, Put, Write
from magnetar_storage.runtime.disk import ReadableDisk
from magnetar_storage.runtime.whole_files import read_file

T = TypeVar("T")

FILE = "metadata.db"
COPIED_PAGES = 256
"""The number of copied pages after which the copying looks whether it was given up."""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


Found = Versioned | BaseException | None
"""The value of a key; None if it does not exist; the error if it cannot be read."""


class Copying:
    """A copy in progress, which another thread may give up."""

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
        rows = self._connection.execute(READ_UNDER, (prefix, prefix + LAST_CHARACTER, after, limit))
        for raw, *row in rows:
            try:
                key = raw.decode()
            except UnicodeDecodeError:
                # Nothing can be read on after it: listings continue after a key.
                raise self._damaged_row(raw.decode(errors="replace")) from None
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
        """Return the identity stored in the database: its data directory, and its last write."""
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
        """Check the whole database file, after `close`; `Corrupt` if it is damaged."""
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
        """Perform one write, or return its refusal; the first change gets the number `version`."""
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
        """Move SQLite's log into the database's file, so that the log reuses its blocks."""
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
