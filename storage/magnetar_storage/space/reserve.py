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
        self._is_held: bool | None = None  # not looked yet

    def is_held(self) -> bool:
        """Whether its room is set aside at present."""
        if self._is_held is None:
            self._is_held = self._disk.sizes("").get(self._name, 0) > 0
        return self._is_held

    def take(self, size: int) -> bool:
        """Set `size` bytes aside; returns whether there was room for them."""
        try:
            file = self._disk.open(self._name, create=True)
            try:
                file.allocate(size)
                file.sync()
            finally:
                file.close()
        except DiskFull:
            self._remove()  # what there was room for
            return False
        self._is_held = True
        return True

    def give(self) -> bool:
        """Give the room back to the disk; returns whether any was set aside."""
        had = self.is_held()
        if had:
            self._remove()
        return had

    def _remove(self) -> None:
        self._disk.remove(self._name)
        self._is_held = False
