"""Space that is reserved for what must be written on a full disk."""

from magnetar_storage.errors import DiskFull
from magnetar_storage.runtime.disk import Disk

METADATA_FILE = "metadata.reserve"
STORE_FILE = "journal.reserve"
"""The names of the reserves in the data directory, and in each store directory."""


class Reserve:
    """A file whose blocks are not used until it is removed.

    Its methods run in threads of one process that wait for the disk.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        """`name` is the name of the file in the root of the disk."""
        self._disk = disk
        self._name = name

    def is_held(self) -> bool:
        """Return whether the space is reserved at present."""
        # Not remembered: a start releases it, too.
        return self._disk.sizes("").get(self._name, 0) > 0

    def take(self, size: int) -> bool:
        """Reserve `size` bytes; returns whether there was room for them."""
        try:
            file = self._disk.open(self._name, create=True)
            try:
                file.allocate(size)
                if file.size() < size:
                    file.truncate(size)  # not supported by the file system: nothing is reserved
                file.sync()
            finally:
                file.close()
        except DiskFull:
            self._disk.remove(self._name)  # the part for which there was room
            return False
        return True

    def give(self) -> bool:
        """Release the space; returns whether any was reserved."""
        had = self.is_held()
        if had:
            self._disk.remove(self._name)
        return had
