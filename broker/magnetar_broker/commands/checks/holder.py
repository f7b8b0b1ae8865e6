"""The process that holds a data directory, and the addresses of its broker."""

import os
from dataclasses import dataclass

from magnetar_broker.server.data_directory.addresses import Addresses, addresses_in
from magnetar_storage.errors import DataDirLocked, StorageError
from magnetar_storage.local import layout
from magnetar_storage.runtime.disk import ReadOnlyDisk
from magnetar_storage.runtime.whole_files import read_file


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock of a data directory."""

    pid: int
    """The id of the process; 0 if it is not known."""
    addresses: Addresses | None = None
    """The addresses announced by the broker that holds it; None while that starts or stops."""

    @property
    def name(self) -> str:
        """The name of the process, for people."""
        return f"process {self.pid or 'unknown'}"


def holder_of(data_dir: str) -> Holder | None:
    """Return the process that uses a data directory; None if there is none, or it cannot be seen.

    Only the lock counts: a broker that was killed leaves its file of addresses behind.
    """
    try:
        disk = ReadOnlyDisk(data_dir)
        disk.lock(layout.LOCK_FILE).close()
    except DataDirLocked:
        text = read_file(disk, layout.LOCK_FILE).strip()
        pid = int(text) if text.isdigit() else 0
        found = addresses_in(data_dir)
        # promise[never]: the addresses of an earlier broker are not taken for those of this one
        if found is not None and found.process != pid:
            found = None
        return Holder(pid, found)
    except (StorageError, OSError):
        pass
    return None


def why_unseen(data_dir: str) -> str | None:
    """Return the reason why the holder of the lock cannot be determined; None if it can."""
    path = os.path.join(data_dir, layout.LOCK_FILE)
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return f"this user ({os.getuid()}) cannot read {path}"
    return None
