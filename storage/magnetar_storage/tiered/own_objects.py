"""The objects that a data directory may delete from a store of objects: blocking work for a thread.

The objects of a data directory are `PREFIX/SEGMENT-NONCE.seg`.  Beside them there are small ones:
`PREFIX/about/clock` is written to see the store's time.  `PREFIX/about/stray` has the names of
objects that no record listed.  `PREFIX/about/shared` is written by a copy of the data directory,
which may list all objects that were written before that one.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from magnetar_storage.errors import NoObject, Unavailable
from magnetar_storage.objects.interfaces import Objects

SUFFIX: Final = ".seg"
NUMBER: Final = re.compile("[0-9a-f]{16}")
CLOCK: Final = b"Magnetar writes this object to see the time of the store.\n"
SHARED: Final = b"""\
A restored copy of the data directory may use the objects of this prefix that are older than this
one: they are not deleted.  Delete this object when only one of the two directories is left.
"""


def name_of(prefix: str, segment: int, nonce: str) -> str:
    """Return the name of a segment's object."""
    return f"{prefix}/{segment:016x}-{nonce}{SUFFIX}"


def parts_of(name: str) -> tuple[str, int] | None:
    """Return the prefix and the segment of a name that `name_of` has made; None for others."""
    prefix, _, last = name.rpartition("/")
    segment, dash, _ = last.removesuffix(SUFFIX).partition("-")
    if not (prefix and dash and last.endswith(SUFFIX) and NUMBER.fullmatch(segment)):
        return None
    return prefix, int(segment, 16)


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


class About(NamedTuple):
    """The times of a store that decide which objects are deleted."""

    shared_ms: int
    """The time of the last call of `share`; negative if there was none."""
    noticed_ms: int | None
    """The time at which `delete_noticed` noted objects; None if none are noted."""
    now_ms: int


def about(objects: Objects, prefix: str) -> About:
    """Return the times of a prefix.

    Only times of the store are compared, so a wrong clock of this machine deletes nothing.
    """
    objects.replace(_clock(prefix), [CLOCK], None)
    found = {one.name: one.modified_ms for one in objects.list(f"{prefix}/about/")}
    now_ms = found.get(_clock(prefix))
    if now_ms is None:
        raise Unavailable(f"the store of objects does not list the new {_clock(prefix)}")
    return About(found.get(_shared(prefix), -1), found.get(_noticed(prefix)), now_ms)


def not_shared(objects: Objects, prefix: str, times: About) -> Iterator[str]:
    """Yield the names of a prefix's objects of segments, without those that a copy may list."""
    for one in objects.list(f"{prefix}/"):
        # promise[without one.modified_ms > times.shared_ms and]: objects of a copy stay
        if one.modified_ms > times.shared_ms and one.name.endswith(SUFFIX):
            yield one.name


def delete_noticed(
    objects: Objects, prefix: str, stray: set[str], times: About, grace_ms: int
) -> list[str]:
    """Delete stray objects that an earlier call has noted `grace_ms` ago; note the others.

    So the broker may run by mistake on an old copy of the metadata, which does not list them.
    Returns the names of those that were deleted.
    """
    noticed = set[str]()
    if times.noticed_ms is not None:
        # promise: what is not listed is deleted only if it is not listed for long
        if times.noticed_ms > times.now_ms - grace_ms:
            return []
        noticed = _read_noticed(objects, prefix)
    doomed = sorted(stray & noticed)
    for name in doomed:
        objects.delete(name)
    if left := sorted(stray - noticed):
        objects.replace(_noticed(prefix), ["\n".join(left).encode()], None)
    elif times.noticed_ms is not None:
        objects.delete(_noticed(prefix))
    return doomed


def noticed(objects: Objects, prefix: str) -> set[str]:
    """Return the names of the objects that the last call of `delete_noticed` has noted."""
    try:
        return _read_noticed(objects, prefix)
    except NoObject:
        return set()


def _read_noticed(objects: Objects, prefix: str) -> set[str]:
    size = objects.size(_noticed(prefix))
    return set(objects.read(_noticed(prefix), 0, size).decode().split())


def some(names: Iterator[str], number: int) -> set[str]:
    """Return up to `number` of the next names."""
    return set(islice(names, number))


def _shared(prefix: str) -> str:
    return f"{prefix}/about/shared"


def _clock(prefix: str) -> str:
    return f"{prefix}/about/clock"


def _noticed(prefix: str) -> str:
    return f"{prefix}/about/stray"
