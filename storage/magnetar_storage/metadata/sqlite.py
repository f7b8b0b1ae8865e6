"""Metadata in one SQLite database: WAL mode, every write synced.

The connection is used by jobs of one worker only; watchers, leases and the keys live in memory.
All pending writes share one transaction, and its sync; each has an outcome of its own.
Leases end with the process: their keys are deleted when the database is next opened.

Damage is found before it does harm.  An orderly end checks everything and stores a digest; a start
checks what the digest does not cover; and each row is checked again when it is read.
"""

from collections.abc import Callable, Sequence
from functools import partial

from magnetar_storage.errors import (
    DiskFull,
    StorageError,
    Unavailable,
)
from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.interfaces import (
    PAGE,
    Absent,
    Guard,
    Lease,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata import sqlite_digest
from magnetar_storage.metadata.database import FILE, Copying, Database, Found, check_log
from magnetar_storage.metadata.sorted_keys import SortedKeys
from magnetar_storage.metadata.watch import Watch, Watchers
from magnetar_storage.metadata.writes import Changes, Delete, EndLease, Outcome, Put, Write
from magnetar_storage.runtime.disk import Disk
from magnetar_storage.runtime.execution import Clock, Promise, Worker
from magnetar_storage.runtime.whole_files import write_file

GROUP = 1000
"""The most writes in one transaction."""


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
        self._leases: dict[str, Lease] = {}
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
        """The identity of the data directory, with its last write; known after `identify`."""
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
        self._leases[lease.id] = lease
        return lease

    async def revoke(self, lease: Lease) -> None:
        if (held := self._leases.pop(lease.id, None)) is not None:
            held.lose()
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
        for lease in list(self._leases.values()):
            await self.revoke(lease)
        self._watchers.close()
        await self._worker.run(self._database.close)
        await self._worker.run(self._store_digest)

    def _store_digest(self) -> None:
        """Check the database and store its digest, so that the next start need not check it."""
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
        """Return the changes of a write once they are durable; raise the error that refused it."""
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
        """Set the known keys, which must reflect all finished writes and no others."""
        self._keys = keys


def _again(error: BaseException | None) -> BaseException:
    """Return a copy of the error, to be raised for one more of the callers that it fails."""
    if isinstance(error, StorageError):
        return error.again()
    return error or Unavailable("the outcome is unknown")
