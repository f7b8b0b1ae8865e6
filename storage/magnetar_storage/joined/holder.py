"""What a process asks of the one that has another store directory open."""

from typing import Protocol

from magnetar_storage.interfaces import Sealed, SegmentId


class Holder(Protocol):
    """Settles, finishes and deletes segments of the directories that it has open.

    A `LocalStore` is one for its own directory.  For that of another process it is a link:
    arguments and results are numbers, the errors are those of a store, and `ProcessUnavailable` is
    raised when the process cannot be asked.
    """

    async def recover(self, segment: SegmentId) -> Sealed:
        """As `SegmentStore.recover`: a writer of the segment is fenced."""

    async def finish(self, segment: SegmentId) -> None:
        """Recover the segment, and have its file complete on return, for others to read."""

    async def delete(self, segment: SegmentId) -> None:
        """As `SegmentStore.delete`; a reader that has the file open goes on."""
