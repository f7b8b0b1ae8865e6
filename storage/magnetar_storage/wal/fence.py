"""The end of a session: a *fence* in the first slot that its writer did not store.

A fence is an object in the place of a slot.  Creating an object is refused where one exists, so
either the writer or a recovery has a slot, for ever.  A fence is therefore never deleted: an upload
that was on its way could take its place.

A walk that only looks for the first free slot would chase a writer that goes on.  So a fence is
stored ahead of the writer first, the *barrier*: the writer cannot pass it, and the walk ends there
at the latest.
"""

from collections.abc import Callable, Sequence
from typing import Final

from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.wal.session import WalSession

IN_FLIGHT: Final = 64
"""The most requests of a walk at a time."""
LIMIT_SECONDS: Final = 60.0
"""The time for which a request is repeated while the store is away."""


async def fence(
    objects: Objects,
    workers: Sequence[Worker],
    clock: Clock,
    session: WalSession,
    trim: int,
    new_nonce: Callable[[], bytes],
    limit_seconds: float = LIMIT_SECONDS,
) -> int:
    """End a session, whose writer may go on; return its end, the first slot that is not part of it.

    The slots from `trim` to the end are complete and never change.  Nothing is reported as durable
    behind the end, before or after.  Any number of calls, at the same time or later, agree if they
    have the same `trim`, which must not change any more: mark the session as fenced before, in the
    record that has the trim point.  Slots before `trim` may be deleted.

    One request at a time is made in each worker, of at most `IN_FLIGHT`.  `Unavailable` if one was
    not answered for `limit_seconds`, `AccessDenied` at once: call again.  `Corrupt` if an object is
    neither a slot nor a fence.
    """
