"""Reading slots, whole or in part."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from magnetar_storage.errors import Corrupt, NoObject, Unavailable
from magnetar_storage.objects.interfaces import ReadableObjects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.wal.requests import LIMIT_SECONDS, LookAhead
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import (
    HEAD_BYTES,
    Head,
    RecordPlace,
    Slot,
    decode_directory,
    decode_head,
    decode_slot,
    is_intact,
)

AHEAD: Final = 8
"""The most slots that are read at a time."""
USUAL_BYTES: Final = 5 << 20
"""A size that most slots do not exceed: they are read by one request."""
FRONT_BYTES: Final = 16 << 10
"""A size that most heads with their directories do not exceed."""


async def read_slots(
    objects: ReadableObjects,
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
    `NoObject` if the object is missing.  Single damaged records are in `Slot.damage`.  One slot is
    read at a time in each worker, of at most `ahead`, and is in memory until its turn.
    `Unavailable` is raised if a request was not answered for `limit_seconds`: read on from that
    slot later.
    """
    slots = range(trim, end)
    job = partial(_slot_or_error, objects, session)
    reads = LookAhead(workers[:ahead], clock, job, slots, limit_seconds)
    for slot in slots:
        yield slot, await reads.next()


def _slot_or_error(
    objects: ReadableObjects, session: WalSession, slot: int
) -> Slot | Corrupt | NoObject:
    try:
        return read_slot(objects, session, slot)
    except (Corrupt, NoObject) as error:
        return error


def read_slot(objects: ReadableObjects, session: WalSession, slot: int) -> Slot:
    """Read a whole slot; blocks.  `NoObject` if it is missing, `Corrupt` as in `decode_slot`."""
    name = session.name(slot)
    data = _read(objects, name, 0, HEAD_BYTES, USUAL_BYTES)
    head = decode_head(data, session, slot)
    if len(data) < head.size:
        # The head is intact and within the limits, so its size can be believed.
        rest = head.size - len(data)
        data += _read(objects, name, len(data), rest, rest)
    return decode_slot(data, session, slot)


def read_head(objects: ReadableObjects, session: WalSession, slot: int) -> Head:
    """Read the head of a slot or fence; blocks.  `NoObject` if it is missing, or `Corrupt`."""
    data = _read(objects, session.name(slot), 0, HEAD_BYTES, HEAD_BYTES)
    return decode_head(data, session, slot)


def read_directory(
    objects: ReadableObjects, session: WalSession, slot: int
) -> tuple[Head, list[RecordPlace]]:
    """Read head and directory of a slot; blocks.  A fence has no places.

    `NoObject` if it is missing, `Corrupt` if either is damaged.
    """
    name = session.name(slot)
    data = _read(objects, name, 0, HEAD_BYTES, FRONT_BYTES)
    head = decode_head(data, session, slot)
    if len(data) < head.records_at:
        rest = head.records_at - len(data)
        data += _read(objects, name, len(data), rest, rest)
    return head, decode_directory(data, head, session)


def read_record(
    objects: ReadableObjects, session: WalSession, slot: int, place: RecordPlace
) -> bytes:
    """Read one record by its range; blocks.

    `NoObject` if the slot is missing, `Corrupt` if the record is damaged.
    """
    name = session.name(slot)
    data = _read(objects, name, place.at, place.size, place.size)
    if not is_intact(data, 0, place):
        raise place.damaged(name)
    return data


def _read(objects: ReadableObjects, name: str, offset: int, needed: int, wanted: int) -> bytes:
    """Read up to `wanted` bytes, but at least `needed` if the object has them.

    An answer that was cut short is not taken for damage.
    """
    data = objects.read(name, offset, wanted)
    # promise: an answer that was cut short is asked for again, and not reported as damage
    if len(data) < needed and offset + len(data) < objects.size(name):
        raise Unavailable(
            f"expected {needed} bytes of object {name} at byte {offset}, got {len(data)}"
        )
    return data
