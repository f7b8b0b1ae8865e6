"""Metadata in PostgreSQL: all writes are serial, and a table of changes has the latest ones."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final

import asyncpg

from magnetar_broker.server.metadata_stores import postgres_schema as sql
from magnetar_broker.server.metadata_stores.access import MetadataAccess
from magnetar_broker.server.metadata_stores.engine import (
    Batch,
    Outcome,
    Position,
    bad_version,
    fenced,
    lease_ended,
)
from magnetar_broker.server.metadata_stores.engine_thread import report_defect
from magnetar_broker.server.metadata_stores.etcd_gateway import tls_context
from magnetar_broker.server.metadata_stores.expiring import Expiry, SeenLease
from magnetar_broker.server.metadata_stores.groups import GroupLimits, size_of
from magnetar_broker.server.metadata_stores.postgres_lane import Connection, Lane
from magnetar_broker.server.metadata_stores.urls import PostgresPlace
from magnetar_storage.errors import Corrupt, StorageError, TooLarge, Unavailable
from magnetar_storage.interfaces import PAGE_BYTES, Absent, Change, Listed, Versioned
from magnetar_storage.metadata.writes import Delete, EndLease, Put, Write

LIMITS: Final = GroupLimits(writes=1000, bytes=4 << 20, repeats_keys=True)
KEY_BYTES: Final = 2600
"""The longest key: an entry of an index must fit into a third of a page."""
VALUE_BYTES: Final = 16 << 20
FEED_ROWS: Final = 500
"""The most changes of one answer."""
POLL_SECONDS: Final = 10.0
"""The seconds between two looks at the changes if no notification comes, as behind a pooler."""
READERS: Final = 2


class PostgresEngine:
    """A schema of a database."""

    limits = LIMITS

    def __init__(
        self, place: PostgresPlace, access: MetadataAccess, uptime: Callable[[], float]
    ) -> None:
        """Prepare the calls; `MetadataRefused` if a file of the settings cannot be used."""
        self._place = place
        self._access = access
        self._uptime = uptime
        has_files = access.trusted_certificates_file or access.certificate_file
        self._tls = tls_context(access) if has_files else None
        self._writer, self._keeper = self._lane(), self._lane()
        self._readers = [self._lane() for _ in range(READERS)]
        self._turns = 0
        self._watcher = Lane(self._listening, place.text, access.request_seconds)
        self._changed: set[asyncio.Event] = set()
        """The events of all feeds, set when there may be changes."""
        self._expiry: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._writer.run(self._prepare)
        self._expiry = asyncio.get_running_loop().create_task(self._end_leases())
        self._expiry.add_done_callback(report_defect)

    async def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        for lane in (self._writer, self._keeper, self._watcher, *self._readers):
            await lane.close()

    # Reading ------------------------------------------------------------------------------------

    async def get(self, key: str) -> Versioned | None:
        row = await self._reader().run(lambda one: one.fetchrow(sql.GET, key.encode()))
        return None if row is None else Versioned(row["value"], row["version"])

    async def keys(self, prefix: str, after: str, limit: int) -> list[str]:
        span = _span(prefix)
        rows = await self._reader().run(
            lambda one: one.fetch(sql.LIST, *span, after.encode(), limit)
        )
        return [_key_of(row["key"]) for row in rows]

    async def read_under(self, prefix: str, after: str, limit: int) -> list[Listed]:
        span = _span(prefix)
        rows = await self._reader().run(
            lambda one: one.fetch(sql.READ_UNDER, *span, after.encode(), limit, PAGE_BYTES)
        )
        return [(_key_of(row["key"]), Versioned(row["value"], row["version"])) for row in rows]

    # Writing ------------------------------------------------------------------------------------

    async def write(self, group: Sequence[Write]) -> Sequence[Outcome]:
        refusals = [_too_large(write) for write in group]
        sent = [write for write, refusal in zip(group, refusals, strict=True) if refusal is None]
        outcomes = iter(await self._write_all(sent) if sent else ())
        return [
            refusal if refusal is not None else _outcome(write, next(outcomes))
            for write, refusal in zip(group, refusals, strict=True)
        ]

    async def _write_all(self, group: Sequence[Write]) -> list[int]:
        rows = [_fields(write) for write in group]
        return await self._call_write([list(column) for column in zip(*rows, strict=True)])

    async def _call_write(self, columns: list[list[Any]]) -> list[int]:
        outcomes: list[int] = await self._writer.run(
            lambda one: one.fetchval(sql.WRITE, *columns, sql.KEPT_CHANGES, sql.KEPT_VALUE_BYTES)
        )
        return outcomes

    # Changes ------------------------------------------------------------------------------------

    async def changes(self, prefix: str, after: Position | None) -> AsyncGenerator[Batch]:
        changed = asyncio.Event()
        self._changed.add(changed)
        try:
            while True:
                changed.clear()
                batch, is_all = await self._next_batch(prefix, after)
                if batch.changes is None or batch.position != after:
                    yield batch
                    after = batch.position
                if is_all:
                    await _wait(changed)
        finally:
            self._changed.discard(changed)

    async def _next_batch(self, prefix: str, after: Position | None) -> tuple[Batch, bool]:
        """Return the next changes, and whether these are all that there are."""
        if after is None:
            position = await self._watcher.run(lambda one: one.fetchval(sql.POSITION))
            return Batch(position, None), True  # promise: a reader of changes begins by listing
        rows = await self._watcher.run(
            lambda one: one.fetch(sql.CHANGES, after, *_span(prefix), FEED_ROWS)
        )
        last: int = rows[0]["last"]
        # Or an older state than the one that was watched: the database was restored from a copy.
        if rows[0]["trimmed"] > after or last < after:
            return Batch(last, None), True
        found = [_change(row) for row in rows if row["revision"] is not None]
        changes = [change for change in found if change is not None]
        is_all = len(rows) < FEED_ROWS
        return Batch(last if is_all else rows[-1]["revision"], changes), is_all

    async def _listening(self) -> Connection:
        connection = await self._connect()
        channel = f"magnetar_{self._place.schema}"
        await connection.add_listener(channel, lambda *_: self._wake())
        connection.add_termination_listener(lambda *_: self._wake())
        return connection

    def _wake(self) -> None:
        for changed in self._changed:
            changed.set()

    # Leases -------------------------------------------------------------------------------------

    async def grant(self, ttl_seconds: float) -> str:
        ttl_ms = int(ttl_seconds * 1000)
        return str(await self._keeper.run(lambda one: one.fetchval(sql.GRANT, ttl_ms)))

    async def renew(self, lease: str) -> bool:
        found = await self._keeper.run(lambda one: one.fetchval(sql.RENEW, int(lease)))
        return found is not None

    async def _end_leases(self) -> None:
        """End leases of processes that do not renew them, as long as this process runs."""
        expiry = Expiry()
        while True:
            try:
                asked = self._uptime()
                rows = await self._keeper.run(lambda one: one.fetch(sql.LEASES))
                found = [SeenLease(id, ttl_ms / 1000, number) for id, ttl_ms, number in rows]
                for lease in expiry.ended(found, asked, self._uptime()):
                    await self._end_unless_renewed(lease)
            except StorageError:
                pass  # the next look does it, here or in another process
            await asyncio.sleep(expiry.pause())

    async def _end_unless_renewed(self, lease: SeenLease) -> None:
        # promise[lease.renewals -> None]: a lease that is renewed at the last moment does not end
        row = (sql.END_LEASE, None, None, lease.renewals, lease.id, None, None)
        await self._call_write([[field] for field in row])

    # Connections --------------------------------------------------------------------------------

    def _lane(self) -> Lane:
        return Lane(self._connect, self._place.text, self._access.request_seconds)

    def _reader(self) -> Lane:
        self._turns += 1
        return self._readers[self._turns % READERS]

    async def _connect(self) -> Connection:
        options: dict[str, Any] = {}
        if self._access.password or self._access.password_file:
            options["password"] = self._access.current_password()
        if self._tls is not None:
            options["ssl"] = self._tls
        if (
            "PGTARGETSESSIONATTRS" not in os.environ
            and "target_session_attrs" not in self._place.dsn
        ):
            # Of several hosts, the one that is not a standby.
            options["target_session_attrs"] = "read-write"
        connection: Connection = await asyncpg.connect(
            self._place.dsn, timeout=self._access.connect_seconds, **options
        )
        try:
            await self._set_up(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _set_up(self, connection: Connection) -> None:
        settings = {
            "application_name": "magnetar",
            "search_path": self._place.schema,
            "default_transaction_isolation": "read committed",
            "statement_timeout": f"{self._access.request_seconds * 1000:.0f}",
        }
        if await connection.fetchval("SELECT current_setting('synchronous_commit')") == "off":
            # promise: a write that was answered survives a power failure
            settings["synchronous_commit"] = "on"
        for name, value in settings.items():
            # Not as parameters of the connection, which poolers refuse.
            await connection.execute("SELECT set_config($1, $2, false)", name, value)

    async def _prepare(self, connection: Connection) -> None:
        """Create the tables unless they exist."""
        schema = self._place.schema
        if not await self._has_tables(connection):
            async with connection.transaction():
                # Several brokers may start at once.
                await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", schema)
                if not await self._has_tables(connection):
                    if not await connection.fetchval(sql.HAS_SCHEMA, schema):
                        await connection.execute(f"CREATE SCHEMA {schema}")
                    for statement in (*sql.TABLES, sql.FUNCTION):
                        await connection.execute(statement)
                    await connection.execute(sql.STATE, sql.SCHEMA_VERSION)
        version = await connection.fetchval("SELECT schema_version FROM state")
        if version != sql.SCHEMA_VERSION:
            raise Unavailable(
                f"{self._place.text}: the tables have schema {version}, this release knows"
                f" {sql.SCHEMA_VERSION}: use a release that knows it"
            )

    async def _has_tables(self, connection: Connection) -> bool:
        return bool(await connection.fetchval(sql.HAS_TABLES, self._place.schema))


async def _wait(changed: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL_SECONDS):
            await changed.wait()
    except TimeoutError:
        pass  # look all the same


def _span(prefix: str) -> tuple[bytes, bytes | None]:
    """Return the first key under a prefix, and the first one behind all of them if there is one."""
    start = prefix.encode()
    return start, start[:-1] + bytes([start[-1] + 1]) if start else None


def _key_of(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        # Nothing can be read on after it: listings continue after a key.
        raise Corrupt(repr(key), 0, "this key was not written by a broker") from None


def _change(row: Mapping[str, Any]) -> Change | None:
    """Return a change; None if it has none to report."""
    if row["value"] is None and not row["is_deletion"]:
        return None  # the value was replaced, and the change that did it follows
    try:
        return Change(_key_of(row["key"]), row["value"], row["revision"])
    except Corrupt:
        return None  # a listing reports it, and the changes of other keys go on


def _fields(write: Write) -> tuple[Any, ...]:
    """Return the arguments of the function for one write."""
    if isinstance(write, EndLease):
        return sql.END_LEASE, None, None, None, int(write.lease), None, None
    expect = 0 if isinstance(write.expect, Absent) else write.expect
    guard = (None, None) if write.guard is None else (write.guard.key.encode(), write.guard.version)
    if isinstance(write, Delete):
        return sql.DELETE, write.key.encode(), None, expect, None, *guard
    lease = None if write.lease is None else int(write.lease)
    return sql.PUT, write.key.encode(), write.value, expect, lease, *guard


def _outcome(write: Write, outcome: int) -> Outcome:
    if isinstance(write, EndLease):
        return max(outcome, 0)  # one that has ended before is not an error
    if outcome == sql.FENCED and write.guard is not None:
        return fenced(write, write.guard)
    if outcome == sql.LEASE_ENDED and isinstance(write, Put):
        return lease_ended(write)
    if outcome == sql.NOT_MADE and write.expect is not None:
        return bad_version(write, write.expect)
    return outcome


def _too_large(write: Write) -> TooLarge | None:
    if isinstance(write, EndLease):
        return None
    key_bytes = len(write.key.encode())
    if key_bytes > KEY_BYTES:
        return TooLarge(
            f"a key of {key_bytes:,} bytes is too large: PostgreSQL takes {KEY_BYTES:,}"
        )
    value_bytes = size_of(write) - key_bytes
    if value_bytes > VALUE_BYTES:
        return TooLarge(
            f"{write.key}: a value of {value_bytes:,} bytes is too large: {VALUE_BYTES:,} are taken"
        )
    return None
