"""Files of a disk as a whole: read, measured, and put in place durably."""

from magnetar_storage.runtime.disk import Disk, ReadableDisk


def read_file(disk: ReadableDisk, name: str) -> bytes:
    """Read a whole file; `FileNotFoundError` if it does not exist."""
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def file_size(disk: ReadableDisk, name: str) -> int:
    """Return the size of a file; `FileNotFoundError` if it does not exist."""
    file = disk.open(name)
    try:
        return file.size()
    finally:
        file.close()


def write_file(disk: Disk, name: str, data: bytes) -> None:
    """Write a whole file, durably: after a crash it is the old one or the new one."""
    # The rename is what changes the file, at once: a crash leaves one of the two.
    temporary = f"{name}.tmp"
    file = disk.open(temporary, create=True)
    try:
        # Left by a crash, perhaps longer than what is written now.
        file.truncate(0)
        file.write(0, [data])
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, name)
    directory, _, _ = name.rpartition("/")
    disk.sync_dir(directory)
