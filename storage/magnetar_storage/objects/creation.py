"""Creating an object exactly once, although the answers of a store may be lost or ambiguous.

The object begins with a *nonce* of its creator, which no other attempt to create it has.  Where the
answer does not say whose object has the name, reading the nonce does.  So a late or repeated
write of the same creator is recognized as its own, and a conflict that stored nothing is not
taken for a lost race.
"""

from collections.abc import Sequence
from functools import partial

from magnetar_storage.errors import AccessDenied, NoObject, Unavailable
from magnetar_storage.objects.interfaces import Creation, Objects
from magnetar_storage.runtime.execution import Clock, Worker, sleep

NONCE_BYTES = 16
"""The size of a nonce: so large that random ones never repeat."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""The seconds between two attempts: at first, and at most; each pause is twice the last one."""


async def create_once(
    objects: Objects,
    worker: Worker,
    clock: Clock,
    name: str,
    nonce: bytes,
    data: Sequence[bytes],
    limit_seconds: float,
) -> bool:
    """Create an object of `nonce` and `data`; False if another creator's object has the name.

    While that is unknown, the same is tried again until `limit_seconds` have passed; then
    `Unavailable` is raised, and the object may exist, now or later.  A caller that tries again
    passes the same nonce and data.  `AccessDenied` is raised at once.
    """
    assert len(nonce) == NONCE_BYTES
    buffers = [nonce, *data]
    deadline, pause = clock.uptime() + limit_seconds, FIRST_PAUSE
    while True:
        doubt: Unavailable | None = None
        try:
            mine = await worker.run(partial(attempt, objects, name, nonce, buffers))
        except AccessDenied:
            raise  # stays so: trying again only delays the report
        except Unavailable as error:
            mine, doubt = None, error
        if mine is not None:
            return mine
        left = deadline - clock.uptime()
        if left <= 0:
            raise Unavailable(
                f"the outcome of creating object {name} is unknown after {limit_seconds:g} s"
                f" ({doubt or 'every attempt met another write, or got no answer'})"
            ) from doubt
        await sleep(clock, min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE)


def attempt(objects: Objects, name: str, nonce: bytes, buffers: Sequence[bytes]) -> bool | None:
    """Try once to create an object, whose first buffer is the nonce; blocks.

    Return whether the object of that name is the caller's; None if there is none, or if an object
    may still appear: the caller tries the same again.
    """
    if objects.create(name, buffers) is Creation.CREATED:
        return True
    try:
        found = objects.read(name, 0, NONCE_BYTES)
    except NoObject:
        # Not a lost race: the other write failed, or this one did, or is not there yet.
        return None
    # promise[never]: a retry that finds what an earlier attempt stored is not taken for a lost race
    return found == nonce  # promise[always]: another creator's object is not taken for one's own
