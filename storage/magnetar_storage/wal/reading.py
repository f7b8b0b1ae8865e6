"""Reading slots, whole or in part."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from magnetar_storage.errors import Corrupt, NoObject
from magnetar_storage.objects.interfaces import Objects, ReadableObjects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import Head, RecordPlace, Slot

AHEAD: Final = 8
"""The number of slots that are read ahead."""
LIMIT_SECONDS: Final = 60.0
"""The time for which a request is repeated while the store is away."""


def read_slots(
    objects: Objects,
    workers: Sequence[Worker],
    clock: Clock,
    session: WalSession,
    trim: int,
    end: int,
    ahead: int = AHEAD,
    limit_seconds: float = LIMIT_SECONDS,
) -> AsyncIterator[tuple[int, Slot | Corrupt | NoObject]]:
    """Read the slots `trim` to `end` - 1 in order; all of them exist unless data was lost.

    Yield each number with its slot, or with the error: `Corrupt` if head or directory are damaged,
    `NoObject` if the object is missing.  Single damaged records are in `Slot.damage`.  Up to
    `ahead` slots are in memory.  `Unavailable` is raised if a request was not answered for
    `limit_seconds`: read on from that slot later.
    """
    raise NotImplementedError


def read_slot(objects: ReadableObjects, session: WalSession, slot: int) -> Slot:
    """Read a whole slot; blocks.  `NoObject` if it is missing, `Corrupt` as in `decode_slot`."""
    raise NotImplementedError


def read_head(objects: ReadableObjects, session: WalSession, slot: int) -> Head:
    """Read the head of a slot or fence; blocks.  `NoObject` if it is missing, or `Corrupt`."""
    raise NotImplementedError


def read_directory(
    objects: ReadableObjects, session: WalSession, slot: int
) -> tuple[Head, list[RecordPlace]]:
    """Read head and directory of a slot; blocks.  A fence has no places."""
    raise NotImplementedError


def read_record(
    objects: ReadableObjects, session: WalSession, slot: int, place: RecordPlace
) -> bytes:
    """Read one record by its range; blocks.  `NoObject` if the slot is missing, or `Corrupt`."""
    raise NotImplementedError
