"""The objects that a data directory may delete from a store of objects: blocking work for a thread.

The objects of a data directory are `PREFIX/SEGMENT-NONCE.seg`.  Beside them there are two small
ones: `PREFIX/about/clock`, written to see the store's time, and `PREFIX/about/shared`, written by a
copy of the data directory.  The copy may list all objects that were written before that one.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from magnetar_storage.errors import NoObject, Unavailable
from magnetar_storage.objects.interfaces import Objects

SUFFIX: Final = ".seg"
CLOCK: Final = b"Magnetar writes this object to see the time of the store.\n"
SHARED: Final = b"""\
A restored copy of the data directory may use the objects of this prefix that are older than this
one: they are not deleted.  Delete this object when only one of the two directories is left.
"""


def name_of(prefix: str, segment: int, nonce: str) -> str:
    """Return the name of a segment's object."""
    return f"{prefix}/{segment:016x}-{nonce}{SUFFIX}"


def is_own(prefix: str, name: str) -> bool:
    """Return whether an object has the prefix."""
    return name.startswith(f"{prefix}/")


def share(objects: Objects, prefix: str) -> None:
    """Keep the present objects of a prefix from being deleted by the directory that has it."""
    objects.replace(_shared(prefix), [SHARED], None)


def is_shared(objects: Objects, prefix: str) -> bool:
    """Return whether `share` was called for the prefix."""
    try:
        objects.size(_shared(prefix))
    except NoObject:
        return False
    return True


class Deletable(NamedTuple):
    """The times, by the clock of the store, between which a deletable object was written."""

    after_ms: int
    """The last call of `share`; negative if there was none."""
    until_ms: int


def deletable(objects: Objects, prefix: str, grace_ms: int) -> Deletable:
    """Return the times at which a deletable object was written, if nothing lists it.

    Only times of the store are compared, so a wrong clock of this machine deletes nothing.
    """
    objects.replace(_clock(prefix), [CLOCK], None)
    about = {one.name: one.modified_ms for one in objects.list(f"{prefix}/about/")}
    now_ms = about.get(_clock(prefix))
    if now_ms is None:
        raise Unavailable(f"the store of objects does not list {_clock(prefix)}, just written")
    return Deletable(about.get(_shared(prefix), -1), now_ms - grace_ms)


def aged(objects: Objects, prefix: str, when: Deletable) -> Iterator[str]:
    """Yield the names of a prefix's objects of segments that were written in that time."""
    for one in objects.list(f"{prefix}/"):
        # promise[without when.after_ms < one.modified_ms <= when.until_ms and]: young objects and
        #   those of a copy of the directory stay
        if when.after_ms < one.modified_ms <= when.until_ms and one.name.endswith(SUFFIX):
            yield one.name


def some(names: Iterator[str], number: int) -> set[str]:
    """Return up to `number` of the next names."""
    return set(islice(names, number))


def delete(objects: Objects, names: set[str]) -> None:
    """Delete objects; those that do not exist are ignored."""
    for name in sorted(names):
        objects.delete(name)


def _shared(prefix: str) -> str:
    return f"{prefix}/about/shared"


def _clock(prefix: str) -> str:
    return f"{prefix}/about/clock"
