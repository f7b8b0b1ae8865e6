"""Decides which parts checkpoints append to the index files of open segments (`index_file`)."""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import NamedTuple

from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import index_file
from magnetar_storage.local.index_file import Growth
from magnetar_storage.local.segment_writer import LocalSegment
from magnetar_storage.runtime.disk import Disk


class Kept(NamedTuple):
    """The content of an index file: the number of blocks, and its size in bytes."""

    blocks: int
    size: int


NOTHING = Kept(0, 0)


class IndexWork(NamedTuple):
    """The work on index files that follows the writing of a checkpoint."""

    growths: list[Growth]
    needless: list[SegmentId]
    """Segments whose index files are to be removed."""


@dataclass
class IndexesKept:
    """The outcome of an `IndexWork`; `trouble` is the error that ended it."""

    grown: dict[SegmentId, Kept] = field(default_factory=dict)
    removed: list[SegmentId] = field(default_factory=list)
    trouble: StorageError | None = None


class OpenIndexes:
    """The progress of the index files of open segments; used on the owner's thread only."""

    def __init__(self, step_bytes: int, files: set[SegmentId]) -> None:
        self._step_bytes = step_bytes
        self._files = dict.fromkeys(files, NOTHING)

    def growth(self, one: LocalSegment, blocks: int) -> Growth | None:
        """Return the part to append for `blocks` committed blocks; None if the segment grew little.

        A segment that grew little is scanned quickly without an index file, so none is created.
        """
        offsets = one.index.offsets
        if offsets[-1] < self._step_bytes or one.refusal is not None:
            return None
        kept = self._files.get(one.id, NOTHING)
        if offsets[blocks] - offsets[kept.blocks] < self._step_bytes:
            return None
        # promise[kept.blocks, blocks, kept.size -> 0, blocks, 0]: an index grows at its end
        return Growth(one.id, one.index, kept.blocks, blocks, kept.size)

    def needless(self, rows: Container[SegmentId]) -> list[SegmentId]:
        """Return the index files to remove; `rows` are the checkpoint's unfinished segments."""
        # promise[without number for number in self._files if number not in rows]: index files of
        #   deleted segments are removed
        return [number for number in self._files if number not in rows]

    def done(self, kept: IndexesKept) -> None:
        """Account for the index work of a checkpoint."""
        self._files.update(kept.grown)
        for number in kept.removed:
            self._files.pop(number, None)


def keep(disk: Disk, work: IndexWork) -> IndexesKept:
    """Do this work, in the worker's thread.

    The checkpoint, which was written before, does not need it: an error is returned as `trouble`.
    """
    kept = IndexesKept()
    try:
        for number in work.needless:
            disk.remove(index_file.file_name(number))
            kept.removed.append(number)
        for growth in work.growths:
            # Before the attempt: one that fails may leave a file, which has to be removed later.
            # promise: an index file whose first write failed is removed later
            kept.grown[growth.segment] = Kept(growth.start, growth.at)
            kept.grown[growth.segment] = Kept(growth.stop, index_file.append(disk, growth))
    # promise[StorageError -> ZeroDivisionError]: a checkpoint does not depend on index files
    except StorageError as error:
        kept.trouble = error
    return kept
