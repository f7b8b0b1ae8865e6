"""Deleting slots that are not needed any more."""

from collections.abc import Sequence

from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.wal.session import WalSession


async def discard(
    objects: Objects,
    workers: Sequence[Worker],
    clock: Clock,
    session: WalSession,
    first: int,
    stop: int,
) -> int:
    """Delete the slots `first` to `stop` - 1; return their number.  Fences and gaps stay.

    Slots before the trim point, once its record is durable; or what a writer stored behind the end
    of its session.  An upload that is repeated late may store a slot again: discard it again, or
    leave it.  `Unavailable` if the store is away: call again.
    """
