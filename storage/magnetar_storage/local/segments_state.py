"""The state of the segments at one moment, for a checkpoint; described in slices."""

from collections.abc import Mapping
from itertools import islice

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local.checkpoint import Checkpoint, Flush
from magnetar_storage.local.index_file import Growth
from magnetar_storage.local.open_indexes import IndexWork, OpenIndexes
from magnetar_storage.local.segment_writer import LocalSegment


class SegmentsState:
    """The data to write so that files and checkpoint hold the segments in their present state.

    Only numbers of blocks are noted at once.  Later rounds add blocks after these, and nothing
    else writes segment files meanwhile, so that the rest can be described at any time.  A segment
    that is deleted meanwhile is described too: its deletion is in the journal after `made`.
    """

    def __init__(
        self, made: Checkpoint, segments: Mapping[SegmentId, LocalSegment], indexes: OpenIndexes
    ) -> None:
        """`made` has the rows of segments that are not in memory; it gets those of `segments`."""
        self.checkpoint = made
        self.flushes: list[Flush] = []
        self._indexes = indexes
        self._growths: list[Growth] = []
        # A copy, since segments come and go while it is described in slices.
        self._left = iter([(one, one.committed_blocks, one.sealed) for one in segments.values()])

    def describe(self, segments: int) -> bool:
        """Describe up to `segments` more segments; returns False once all are described."""
        described = 0
        for one, blocks, sealed in islice(self._left, segments):
            described += 1
            # A sealed segment gets its footer in this checkpoint, and is listed as finished
            # instead.
            if sealed is None:
                self.checkpoint.rows[one.id] = one.row(blocks)
            if (work := one.flush(blocks, sealed)) is not None:
                self.flushes.append(work)
            if (growth := self._indexes.growth(one, blocks)) is not None:
                self._growths.append(growth)
        return described == segments

    def index_work(self) -> IndexWork:
        """Return the work on index files that follows the writing of the checkpoint."""
        # Here and not before: only now it is known which segments remain unfinished.
        return IndexWork(self._growths, self._indexes.needless(self.checkpoint.rows))
