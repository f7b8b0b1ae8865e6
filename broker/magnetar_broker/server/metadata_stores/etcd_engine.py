"""Metadata in etcd: each group of writes is one transaction, versions are revisions."""

import math
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

from magnetar_broker.server.metadata_stores.access import MetadataAccess
from magnetar_broker.server.metadata_stores.engine import (
    Batch,
    Outcome,
    Position,
    bad_version,
    fenced,
    lease_ended,
)
from magnetar_broker.server.metadata_stores.etcd_gateway import Gateway
from magnetar_broker.server.metadata_stores.groups import GroupLimits
from magnetar_broker.server.metadata_stores.urls import EtcdPlace
from magnetar_storage.errors import Corrupt, DiskFull, StorageError, TooLarge, Unavailable
from magnetar_storage.interfaces import (
    PAGE_BYTES,
    Absent,
    Change,
    Guard,
    Listed,
    Version,
    Versioned,
)
from magnetar_storage.metadata.writes import EndLease, Put, Write

LIMITS: Final = GroupLimits(writes=128 // 3, bytes=1 << 20, repeats_keys=False)
"""Below the default limits of etcd: --max-txn-ops is 128, and a write has up to three operations;
--max-request-bytes is 1.5 MiB."""
FIRST_READ: Final = 16
"""The keys of the first request of a listing with values: etcd limits answers by keys only."""
NO_LEASE: Final = "requested lease not found"
TOO_MANY: Final = "too many operations"
"""Words in the refusals of etcd: nothing was done."""

Message = dict[str, Any]


class EtcdEngine:
    """A cluster of etcd."""

    limits = LIMITS

    def __init__(self, place: EtcdPlace, access: MetadataAccess) -> None:
        """Prepare the calls; `MetadataRefused` if a file of the settings cannot be used."""
        self._gateway = Gateway(place, access)
        self._prefix = place.prefix

    async def open(self) -> None:
        # A read of a key needs the credentials, and a leader.
        await self.keys("/", "", 1)

    async def get(self, key: str) -> Versioned | None:
        answer = await self._gateway.call("/v3/kv/range", {"key": self._named(key)})
        for found in answer.get("kvs", ()):
            return _versioned(found)
        return None

    # Writing ------------------------------------------------------------------------------------

    async def write(self, group: Sequence[Write]) -> Sequence[Outcome]:
        if isinstance(group[0], EndLease):
            return [await self._end(group[0].lease)]
        try:
            answer = await self._gateway.call(
                "/v3/kv/txn", {"success": [self._conditional(write) for write in group]}
            )
        except DiskFull:
            raise
        except (Unavailable, TooLarge) as error:
            text = str(error)
            if not (isinstance(error, TooLarge) or NO_LEASE in text or TOO_MANY in text):
                raise
            if len(group) > 1:
                # etcd refuses the whole transaction for one write: find out for which.
                return [(await self.write([write]))[0] for write in group]
            return [_refusal(group[0], error)]
        version = int(answer["header"]["revision"])
        return [
            _outcome(write, found["response_txn"], version)
            for write, found in zip(group, answer["responses"], strict=True)
        ]

    def _conditional(self, write: Write) -> Message:
        """Return the operation of a write: a transaction for the guard with one for the version."""
        assert not isinstance(write, EndLease)
        key = self._named(write.key)
        if isinstance(write, Put):
            put = {"key": key, "value": _text(write.value)}
            if write.lease is not None:
                put["lease"] = write.lease
            operation: Message = {"request_put": put}
        else:
            operation = {"request_delete_range": {"key": key}}
        if write.expect is not None:
            expected = 0 if isinstance(write.expect, Absent) else write.expect
            operation = _transaction(_at(key, expected), operation)
        if (guard := write.guard) is not None:
            return _transaction(_at(self._named(guard.key), guard.version), operation)
        return {"request_txn": {"success": [operation]}}

    async def _end(self, lease: str) -> Version:
        try:
            answer = await self._gateway.call("/v3/lease/revoke", {"ID": lease})
        except Unavailable as error:
            if NO_LEASE not in str(error):
                raise
            return 0
        return int(answer["header"]["revision"])

    # Listing ------------------------------------------------------------------------------------

    async def keys(self, prefix: str, after: str, limit: int) -> list[str]:
        span = self._span(prefix, after)
        answer = await self._gateway.call(
            "/v3/kv/range", span | {"limit": str(limit), "keys_only": True}
        )
        return [self._key_of(found) for found in answer.get("kvs", ())]

    async def read_under(self, prefix: str, after: str, limit: int) -> list[Listed]:
        read: list[Listed] = []
        size = 0
        number = min(limit, FIRST_READ)
        while number:
            answer = await self._gateway.call(
                "/v3/kv/range", self._span(prefix, after) | {"limit": str(number)}
            )
            for found in answer.get("kvs", ()):
                after, value = self._key_of(found), _versioned(found)
                read.append((after, value))
                size += len(value.value)
            if not answer.get("more"):
                break
            # As many as will fit if they are as large as those before.
            will_fit = (PAGE_BYTES - size) * len(read) // max(size, 1)
            number = max(0, min(limit - len(read), will_fit))
        return read

    # Changes ------------------------------------------------------------------------------------

    async def changes(self, prefix: str, after: Position | None) -> AsyncGenerator[Batch]:
        request = self._span(prefix, "") | {"progress_notify": True}
        if after is not None:
            request["start_revision"] = str(after + 1)
        stream = self._gateway.stream("/v3/watch", {"create_request": request})
        async with aclosing(stream) as answers:
            async for answer in answers:
                position = int(answer["header"].get("revision", 0))
                if answer.get("created") and after is None:
                    yield Batch(position, None)  # promise: a reader of changes begins by listing
                elif answer.get("canceled"):
                    if "compact_revision" not in answer:
                        raise Unavailable(f"etcd ended a watch: {answer.get('cancel_reason', '')}")
                    break
                elif after is not None and position < after:
                    break  # an older state than the one that was watched, as after a restore
                elif not answer.get("created"):
                    found = map(self._change, answer.get("events", ()))
                    changes = [change for change in found if change is not None]
                    yield Batch(changes[-1].version if changes else position, changes)
            else:
                return
        # The changes since then are no longer known.
        async with aclosing(self.changes(prefix, None)) as later:
            async for batch in later:
                yield batch

    def _change(self, event: Message) -> Change | None:
        """Return a change; None if its key cannot be one of a broker."""
        found = event["kv"]
        try:
            key = self._key_of(found)
        except Corrupt:
            return None  # a listing reports it, and the changes of other keys go on
        is_deletion = event.get("type") == "DELETE"
        value = None if is_deletion else b64decode(found.get("value", ""))
        return Change(key, value, int(found["mod_revision"]))

    # Leases -------------------------------------------------------------------------------------

    async def grant(self, ttl_seconds: float) -> str:
        # etcd counts whole seconds.
        answer = await self._gateway.call("/v3/lease/grant", {"TTL": str(math.ceil(ttl_seconds))})
        return str(answer["ID"])

    async def renew(self, lease: str) -> bool:
        answer = await self._gateway.call("/v3/lease/keepalive", {"ID": lease})
        return int(answer.get("TTL", 0)) > 0

    async def close(self) -> None:
        self._gateway.close()

    # Keys ---------------------------------------------------------------------------------------

    def _named(self, key: str) -> str:
        return _text((self._prefix + key).encode())

    def _key_of(self, found: Message) -> str:
        key = b64decode(found["key"])
        try:
            return key.decode().removeprefix(self._prefix)
        except UnicodeDecodeError:
            # Nothing can be read on after it: listings continue after a key.
            raise Corrupt(repr(key), 0, "this key was not written by a broker") from None

    def _span(self, prefix: str, after: str) -> Message:
        """Return the range of the keys under a prefix that sort after another one."""
        start = (self._prefix + prefix).encode()
        stop = start[:-1] + bytes([start[-1] + 1]) if start else b"\0"
        first = start
        if after:
            behind = (self._prefix + after).encode() + b"\0"
            first = min(max(start, behind), stop) if start else behind
        return {"key": _text(first or b"\0"), "range_end": _text(stop)}


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _at(key: str, version: Version) -> Message:
    """Return the condition that a key is at a version; 0 if it does not exist."""
    return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}


def _transaction(condition: Message, operation: Message) -> Message:
    return {"request_txn": {"compare": [condition], "success": [operation]}}


def _versioned(found: Message) -> Versioned:
    return Versioned(b64decode(found.get("value", "")), int(found["mod_revision"]))


def _outcome(write: Write, found: Message, version: Version) -> Outcome:
    """Return the outcome of a write from the answer to its operation."""
    assert not isinstance(write, EndLease)
    guard: Guard | None = write.guard
    # promise[never]: a write is refused if its guard does not hold
    if guard is not None and not found.get("succeeded"):
        return fenced(write, guard)
    if write.expect is not None:
        compared = found["responses"][0]["response_txn"]
        # promise[never]: a write is refused if its key is at another version
        if not compared.get("succeeded"):
            return bad_version(write, write.expect)
    return version


def _refusal(write: Write, error: StorageError) -> StorageError:
    """Return the error of a write for which etcd refused the transaction."""
    assert not isinstance(write, EndLease)
    if isinstance(write, Put) and NO_LEASE in str(error):
        return lease_ended(write)
    if not isinstance(error, TooLarge):
        return error  # etcd was started with --max-txn-ops below 3
    size = len(write.value) if isinstance(write, Put) else 0
    return TooLarge(f"{write.key}: a value of {size:,} bytes is too large: {error}")
