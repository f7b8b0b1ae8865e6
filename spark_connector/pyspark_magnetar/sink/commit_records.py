"""The records of a driver in the transaction log: JSON, which an operator can read."""

import json
from dataclasses import asdict, dataclass
from typing import TypeAlias

TxnId: TypeAlias = tuple[int, int]
"""The most and the least significant bits of a transaction."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Announcement:
    """Announces that the listed transactions of a micro-batch are about to be committed."""

    owner: str
    """The query or job, with the topic that it writes to."""
    batch: int
    txns: list[TxnId]


@dataclass(frozen=True, slots=True)
class Mark:
    """Proves, as a part of a partition's transaction, that it was committed."""

    owner: str
    batch: int
    partition: int
    rows: int
    """The number of rows of the partition."""
    partitions: int
    """The number of partitions of the micro-batch."""


Record: TypeAlias = Announcement | Mark


def encoded(record: Record) -> bytes:
    return json.dumps({"v": VERSION, **asdict(record)}).encode()


def decoded(data: bytes) -> Record:
    """Decode a record; ValueError for any other data."""
    found = json.loads(data)
    if not isinstance(found, dict) or found.pop("v", None) != VERSION:
        raise ValueError(f"expected a record of version {VERSION}, got {data[:80]!r}")
    try:
        if "txns" in found:
            found["txns"] = [(most, least) for most, least in found["txns"]]
            return Announcement(**found)
        return Mark(**found)
    except TypeError as error:
        raise ValueError(f"expected a record, got {data[:80]!r}: {error}") from error
