"""Detection of files of another data directory, such as after the wrong ones were copied.

Ids of segments count from 1 in every data directory, so the names of the files are the same.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, islice

from magnetar_storage.errors import Incomplete, NoSegment, Unavailable
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import rounds, segment_origin
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.runtime.disk import ReadableDisk

HEADS = 200
"""The number of segments that a start checks: there may be a million, but files are copied by the
directory."""
WAYS_OUT = (
    "No data was changed. Put the right files back, or restore a snapshot of the whole directory "
    "(docs/backup.md)"
)


def check(disk: ReadableDisk, start: Checkpoint, files: Mapping[SegmentId, int]) -> None:
    """Raise `Incomplete` if a journal or segment file is of another data directory than `start`.

    `files` has the sizes of the segments' files.
    """
    directory = start.identity.directory
    if directory != UNKNOWN.directory:
        _check_journal(disk, start, directory)
        _check_segments(disk, start, files, directory)


def _check_journal(disk: ReadableDisk, start: Checkpoint, directory: bytes) -> None:
    for name in disk.list("journal"):
        number = rounds.file_number(name)
        # Spare files, and files that the checkpoint has replaced, are not read.
        if number is None or number < start.position.file:
            continue
        # A damaged head is left to recovery, which knows whether the file matters; a file of an
        # earlier release has no mark.
        head = rounds.decode_file_head(_beginning(disk, rounds.file_name(number)))
        if head is not None and head.mark not in (0, rounds.mark_of(directory)):
            raise Incomplete(
                f"{rounds.file_name(number)} is not of the data directory {directory.hex()} but of "
                f"another one. {WAYS_OUT}"
            )


def _beginning(disk: ReadableDisk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return file.read(0, rounds.FIRST_ROUND_AT)
    finally:
        file.close()


def _check_segments(
    disk: ReadableDisk, start: Checkpoint, files: Mapping[SegmentId, int], directory: bytes
) -> None:
    for number in islice(_suspects(start, files), HEADS):
        try:
            named = segment_origin.read(disk, number)
        except (NoSegment, Unavailable):
            continue  # its absence is reported elsewhere; what cannot be read is its damage alone
        found = UNKNOWN.directory if named is None else named.identity.directory
        if found not in (UNKNOWN.directory, directory):
            raise Incomplete(
                f"{segment.file_name(number)} is of another data directory, "
                f"{found.hex()}: the others are of {directory.hex()}. {WAYS_OUT}"
            )


def _suspects(start: Checkpoint, files: Mapping[SegmentId, int]) -> Iterable[SegmentId]:
    """Return the segments in the order of the check: first those that have grown or are not in the
    checkpoint, since they were written after it or are strangers."""
    changed = (n for n, size in files.items() if start.finished.get(n) != size)
    same = (n for n, size in files.items() if start.finished.get(n) == size)
    return chain(changed, same)
