"""Room that is set aside, for what must be written on a full disk."""

from magnetar_storage.errors import DiskFull
from magnetar_storage.world.disk import Disk

METADATA_FILE = "metadata.reserve"
STORE_FILE = "journal.reserve"
"""In the data directory, and in each store directory."""


class Reserve:
    """A file whose blocks nobody uses until it is removed.

    Its methods run in threads that wait for the disk, of one process.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        """The name is that in the root of the disk."""
        self._disk = disk
        self._name = name

    def is_held(self) -> bool:
        """Whether its room is set aside at present."""
        # Not remembered: a start gives it back, too.
        return self._disk.sizes("").get(self._name, 0) > 0

    def take(self, size: int) -> bool:
        """Set `size` bytes aside; returns whether there was room for them."""
        try:
            file = self._disk.open(self._name, create=True)
            try:
                file.allocate(size)
                if file.size() < size:
                    file.truncate(size)  # the file system cannot: then nothing is set aside
                file.sync()
            finally:
                file.close()
        except DiskFull:
            self._disk.remove(self._name)  # what there was room for
            return False
        return True

    def give(self) -> bool:
        """Give the room back to the disk; returns whether any was set aside."""
        had = self.is_held()
        if had:
            self._disk.remove(self._name)
        return had
