"""The requests of a process to the process that has another store directory open."""

from typing import Protocol

from magnetar_storage.interfaces import Sealed, SegmentId


class Holder(Protocol):
    """Settles, finishes and deletes segments of the directories that it has open.

    A `LocalStore` is the holder of its own directory.  A directory of another process is reached
    over a link: arguments and results are numbers, the errors are those of a store, and
    `ProcessUnavailable` is raised if the process cannot be reached.
    """

    async def recover(self, segment: SegmentId) -> Sealed:
        """Recover a segment as `SegmentStore.recover` does: a writer of the segment is fenced."""

    async def finish(self, segment: SegmentId) -> None:
        """Recover the segment and complete its file: other processes can read it on return."""

    async def delete(self, segment: SegmentId) -> None:
        """Delete a segment as `SegmentStore.delete` does; open readers of it can continue."""
