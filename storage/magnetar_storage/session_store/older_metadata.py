"""Signs that the metadata is older than the objects, as after its backup was restored.

A takeover by such a record would delete what only the newer one lists, and a new session would get
a number that another one had.  These checks find most of that, and never take a crash for it.
They block.
"""

from typing import Final

from magnetar_storage.errors import NoObject
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.session_store import manifest
from magnetar_storage.wal.session import WalSession, session_in
from magnetar_storage.wal.slot import HEAD_BYTES

REMEDY: Final = "restore the newer metadata, as docs/cluster.md describes; nothing was deleted"


def newest_log(objects: Objects, prefix: str) -> int:
    """Return the largest number of a session whose log has objects; 0 if there is none."""
    logs = f"{prefix}wal/"
    return max((session_in(prefix, each.name) for each in objects.list(logs)), default=0)


def has_objects(objects: Objects, directory: str) -> bool:
    """Return whether the name of any object begins with `directory`."""
    return any(True for _ in objects.list(directory))


def contradiction(
    objects: Objects, log: WalSession, directory: str, trim: int, manifest_number: int, behind: int
) -> str | None:
    """Return how the objects of a session contradict its record; None if they do not.

    For a record whose trim point does not move any more, and whose log has not got its end.
    `directory` is where its packs are, and its writer stores at most `behind` slots behind one that
    is missing.  What another process settles meanwhile may look like a contradiction: read the
    record again.
    """
    # Before the log is listed: a process that still runs has a segment in the log first.
    has_rows = not manifest_number and _has_rows(objects, directory)
    slots, fences = _log(objects, log, trim)
    missing = _first_missing(objects, log, trim, slots | fences)
    if missing is not None:
        # promise: slots that were deleted after a newer record do not become the end of a log
        if max(slots, default=0) > missing + behind:
            return f"slot {missing} of its log is missing, and there is slot {max(slots)}"
        # A recovery stores fences at these distances from the trim point, and in the first slot
        # that is missing.
        odd = [slot for slot in fences if slot > missing and (slot - trim) & (slot - trim - 1)]
        # promise: a log that ended later than its record knows is not ended again
        if odd:
            return f"slot {missing} of its log is missing, and the log ends with slot {min(odd)}"
    # What is in packs was in the log before, which is deleted only behind a record that says so.
    # promise: segments that only a newer record lists are not deleted
    if has_rows and not slots:
        return "by its record it has stored nothing, and there are its segments"
    return None


def _log(objects: Objects, log: WalSession, trim: int) -> tuple[set[int], set[int]]:
    """Return the numbers of the slots and of the fences from the trim point on."""
    slots, fences = set[int](), set[int]()
    for listed in objects.list(log.directory):
        slot = int(listed.name.removeprefix(log.directory), 16)
        if slot >= trim:
            (fences if listed.size == HEAD_BYTES else slots).add(slot)
    return slots, fences


def _first_missing(objects: Objects, log: WalSession, trim: int, found: set[int]) -> int | None:
    """Return the first slot that is missing before the last one of those that were found."""
    for slot in range(trim, max(found, default=trim)):
        # A listing may lack what was written meanwhile.
        # promise[without and not _is_there(objects, log.name(slot))]: a log that is being written
        #   is not taken for one with a hole
        if slot not in found and not _is_there(objects, log.name(slot)):
            return slot
    return None


def _is_there(objects: Objects, name: str) -> bool:
    try:
        objects.size(name)
    except NoObject:
        return False
    return True


def _has_rows(objects: Objects, directory: str) -> bool:
    """Return whether there is more than manifests without rows."""
    return any(each.size > manifest.EMPTY_BYTES for each in objects.list(directory))
