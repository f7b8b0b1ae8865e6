"""Files of a disk as a whole: read, measured, and put in place durably."""

from magnetar_storage.world.disk import Disk, ReadableDisk


def read_file(disk: ReadableDisk, name: str) -> bytes:
    """All of a file; `FileNotFoundError` if there is none."""
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def file_size(disk: ReadableDisk, name: str) -> int:
    """The bytes of a file; `FileNotFoundError` if there is none."""
    file = disk.open(name)
    try:
        return file.size()
    finally:
        file.close()


def write_file(disk: Disk, name: str, data: bytes) -> None:
    """Put a whole file in place, durably: after a crash it is the old one or the new one."""
    temporary = f"{name}.tmp"
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write(0, [data])
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, name)
    directory, _, _ = name.rpartition("/")
    disk.sync_dir(directory)
