"""The end of a session: a *fence* in the first slot that its writer did not store.

A fence is an object in the place of a slot.  Creating an object is refused where one exists, so
either the writer or a recovery has a slot, for ever.  A fence is therefore never deleted: an upload
that was on its way could take its place.

A walk that only looks for the first free slot would chase a writer that goes on.  So a fence is
stored ahead of the writer first, the *barrier*: the writer cannot pass it, and the walk ends there
at the latest.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from magnetar_storage.errors import Corrupt, NoObject, Unavailable
from magnetar_storage.objects.interfaces import Creation, Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.wal.reading import read_head
from magnetar_storage.wal.requests import LIMIT_SECONDS, Answer, LookAhead, patiently
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import Head, encode_fence

IN_FLIGHT: Final = 64
"""The most requests of a walk at a time."""


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
    planter = _Planter(objects, workers[0], clock, session, new_nonce, limit_seconds)
    # promise[await _bar(planter, trim) -> trim + (1 << 40)]: a writer that goes on is not chased
    barrier = await _bar(planter, trim)
    walk = LookAhead(
        workers[:IN_FLIGHT],
        clock,
        partial(_head_of, objects, session),
        range(trim, barrier + 1),
        limit_seconds,
    )
    for slot in range(trim, barrier + 1):
        head = await walk.next()
        if head is None:
            # A hole: its upload may be on the way.
            # promise[always]: the end of a session has a fence, so that nothing can be stored there
            if await planter.plant(slot):
                return slot
        elif head.is_fence:
            return slot
    raise Corrupt(session.name(barrier), 0, "this recovery stored a fence here, and it is gone")


async def _bar(planter: "_Planter", trim: int) -> int:
    """Store a fence ahead of the writer, at doubling distances; return its slot."""
    distance = 1
    while not await planter.plant(trim + distance):
        distance *= 2
    return trim + distance


class _Planter:
    """Stores the fences of one recovery."""

    def __init__(
        self,
        objects: Objects,
        worker: Worker,
        clock: Clock,
        session: WalSession,
        new_nonce: Callable[[], bytes],
        limit_seconds: float,
    ) -> None:
        self._objects = objects
        self._worker = worker
        self._clock = clock
        self._session = session
        self._new_nonce = new_nonce
        self._limit_seconds = limit_seconds

    async def plant(self, slot: int) -> bool:
        """Store a fence; return whether one is there now, this one or that of another recovery.

        False if the writer has stored the slot.
        """
        fence = encode_fence(self._new_nonce(), self._session, slot)
        job = partial(_plant, self._objects, self._session, slot, fence)

        def attempt() -> Answer[bool]:
            return Answer(self._worker, job)

        return await patiently(self._clock, self._limit_seconds, attempt(), attempt)


def _plant(objects: Objects, session: WalSession, slot: int, fence: Sequence[bytes]) -> bool:
    """Try once to store a fence; blocks.  `Unavailable` if it is not known who has the slot."""
    if objects.create(session.name(slot), fence) is Creation.CREATED:
        return True
    head = _head_of(objects, session, slot)
    if head is None:
        # Refused or unknown, and nothing is there: the other write failed, or is not there yet.
        raise Unavailable(f"the outcome of creating object {session.name(slot)} is unknown")
    return head.is_fence


def _head_of(objects: Objects, session: WalSession, slot: int) -> Head | None:
    """Return the head of a slot or fence; None if the object does not exist; blocks."""
    try:
        return read_head(objects, session, slot)
    except NoObject:
        return None
