"""Deleting slots that are not needed any more."""

from collections.abc import Sequence
from functools import partial

from magnetar_storage.errors import NoObject
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.wal.reading import read_head
from magnetar_storage.wal.requests import LIMIT_SECONDS, LookAhead
from magnetar_storage.wal.session import WalSession


async def discard(
    objects: Objects,
    workers: Sequence[Worker],
    clock: Clock,
    session: WalSession,
    first: int,
    stop: int,
    limit_seconds: float = LIMIT_SECONDS,
) -> int:
    """Delete the slots `first` to `stop` - 1, except for fences; return the deletions seen.

    These are slots before the trim point, once the record that has it is durable, or slots that the
    writer stored behind the end of its session.  An upload that takes place late may store a slot
    again, which nobody needs.  `Unavailable` if a request was not answered for `limit_seconds`:
    call again.  `Corrupt` if an object is neither a slot nor a fence.
    """
    slots = range(first, stop)
    ahead = LookAhead(workers, clock, partial(_discard, objects, session), slots, limit_seconds)
    discarded = 0
    for _ in slots:
        discarded += await ahead.next()
    return discarded


def _discard(objects: Objects, session: WalSession, slot: int) -> bool:
    """Delete the object of a slot, unless it is a fence or missing; return whether it was there."""
    try:
        head = read_head(objects, session, slot)
    except NoObject:
        return False
    # promise: a fence is never deleted, since an upload that is late would take its place
    if head.is_fence:
        return False
    objects.delete(session.name(slot))
    return True
