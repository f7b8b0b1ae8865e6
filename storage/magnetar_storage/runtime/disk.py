"""The disk: with the other modules for files, the whole interface to the operating system.

Names are relative to the store's root, with `/` between parts.  Every method may
raise `DiskFull` or `Unavailable`; a missing file is `FileNotFoundError`.
Nothing is durable before `File.sync` (content) and `Disk.sync_dir` (names).
"""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from magnetar_storage.errors import DataDirLocked, Unavailable
from magnetar_storage.runtime.local_file import LocalFile, explained
from magnetar_storage.runtime.native_file import NATIVE_FILE


class Space(NamedTuple):
    """The space of a file system in bytes."""

    free: int
    """The bytes that the user of this process may still write."""
    size: int


class File(Protocol):
    """An open file, read and written at offsets."""

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write all buffers one after the other; after an error any part may be written."""

    def write_uncached(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write like `write`, but past the system's cache where that is cheaper.

        For much data that is rarely read soon.  It is no more durable than data of `write`.
        """

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write, and make the written data durable on return; earlier writes may not be.

        After `DiskFull` any part may be written; after any other error its fate is unknown.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make the content durable.  After an error its fate is unknown: never `DiskFull`."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Reserve space up to `size`, as zeros, if the file system supports it.

        Otherwise nothing is reserved, and a later write may raise `DiskFull`.
        """

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that is held until `close`, or until the process ends."""

    def close(self) -> None: ...


class ReadableDisk(Protocol):
    """A directory tree for reading."""

    def open(self, name: str) -> File:
        """Open a file for reading."""

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is no such directory."""

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the sizes of the files in a directory; empty if there is no such directory."""

    def lock(self, name: str) -> Lock:
        """Lock out other processes that would conflict; `DataDirLocked` if one has the lock."""

    def path_of(self, name: str) -> str:
        """Return the path by which other libraries (SQLite) open the file."""


class Disk(ReadableDisk, Protocol):
    """A directory tree."""

    def open(self, name: str, create: bool = False) -> File:
        """Open for reading and writing; `create` creates a missing file."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and atomically replace `new` if it exists."""

    def link(self, name: str, other: str) -> None:
        """Give a file a second name, replacing a file of that name; both names are one file.

        `Unavailable` if the file system does not support it.
        """

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""

    def make_dir(self, directory: str) -> None:
        """Create a directory; an existing directory is not an error."""

    def sync_dir(self, directory: str) -> None:
        """Make creations, renamings and removals in the directory durable."""

    def space(self) -> Space:
        """Return the space of the file system that holds the tree."""

    def lock(self, name: str) -> Lock:
        """Lock for this process alone; `DataDirLocked` if another process has the lock."""


class _Tree:
    """The common part of writing and reading disks: the directory tree under `root`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def list(self, directory: str) -> list[str]:
        path = self.path_of(directory)
        with explained("list", path):
            try:
                # Sorted, so that recovery and tests do not depend on the order of a file system.
                return sorted(os.listdir(path))
            except FileNotFoundError:
                return []

    def sizes(self, directory: str) -> dict[str, int]:
        path = self.path_of(directory)
        with explained("list", path):
            try:
                with os.scandir(path) as entries:
                    return {one.name: one.stat().st_size for one in entries if one.is_file()}
            except FileNotFoundError:
                return {}

    def path_of(self, name: str) -> str:
        return os.path.join(self._root, name)

    def space(self) -> Space:
        with explained("read the free space of", self._root):
            found = os.statvfs(self._root)
        # `f_bavail`, not `f_bfree`: some blocks are reserved for the superuser.
        return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def _lock(self, file: LocalFile, name: str, how: int) -> None:
        try:
            # The system gives it back when the process ends, in whatever way.
            fcntl.flock(file.fileno(), how | fcntl.LOCK_NB)
        except OSError as error:
            holder = file.read(0, 32).decode("ascii", "replace").strip() or "unknown"
            file.close()
            raise DataDirLocked(
                f"{self._root} is in use by process {holder}: stop it first, "
                f"or give this one another data directory ({self.path_of(name)})"
            ) from error


class LocalDisk(_Tree):
    """The directory tree under `root`, which is created if it does not exist.

    Without `durable`, only names are synced: a killed process loses nothing, but a power failure
    may lose acknowledged data.
    """

    def __init__(
        self, root: str, durable: bool = True, files: type[LocalFile] = NATIVE_FILE
    ) -> None:
        super().__init__(root)
        self._durable = durable
        self._files = files
        with explained("create", root):
            os.makedirs(root, exist_ok=True)

    def open(self, name: str, create: bool = False) -> LocalFile:
        path = self.path_of(name)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with explained("open", path):
            # No access for other users: they must not read messages.
            return self._files(os.open(path, flags, 0o640), path, self._durable)

    def rename(self, old: str, new: str) -> None:
        with explained("rename", self.path_of(old)):
            os.replace(self.path_of(old), self.path_of(new))

    def link(self, name: str, other: str) -> None:
        path = self.path_of(other)
        with explained("link", path):
            temporary = f"{path}.tmp"
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            # Not under the final name, which may exist: a link does not replace.
            os.link(self.path_of(name), temporary)
            os.replace(temporary, path)
            # A rename between two names of one file does nothing.
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def remove(self, name: str) -> None:
        path = self.path_of(name)
        with explained("remove", path), suppress(FileNotFoundError):
            os.unlink(path)

    def make_dir(self, directory: str) -> None:
        path = self.path_of(directory)
        with explained("create", path):
            os.makedirs(path, exist_ok=True)

    def sync_dir(self, directory: str) -> None:
        path = self.path_of(directory)
        with explained("open", path):
            # A name is an entry of its directory: that is what a sync makes durable.
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._files.sync_all(fd)
        except OSError as error:
            raise Unavailable(f"cannot sync {path}: {error.strerror}") from error
        finally:
            os.close(fd)

    def lock(self, name: str) -> Lock:
        file = self.open(name, create=True)
        self._lock(file, name, fcntl.LOCK_EX)
        holder = b"%d\n" % os.getpid()
        try:
            # In this order a full disk has room: the file's own block.
            file.write(0, [holder])
            file.truncate(len(holder))
        except BaseException:
            file.close()
            raise
        return file


class ReadOnlyDisk(_Tree):
    """The directory tree under `root` for reading: nothing is created, no file can be written."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        if not os.path.isdir(root):
            raise Unavailable(f"{root} is not a directory")

    def open(self, name: str) -> LocalFile:
        path = self.path_of(name)
        with explained("open", path):
            return NATIVE_FILE(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, durable=True)

    def lock(self, name: str) -> Lock:
        """Lock out writing processes, else `DataDirLocked`; readers share the lock."""
        try:
            file = self.open(name)
        except FileNotFoundError:
            return _NoLock()  # no process ever opened it for writing
        # Several readers may run, such as `verify`; a broker locks for itself alone.
        self._lock(file, name, fcntl.LOCK_SH)
        return file


class _NoLock:
    """The lock of a directory that has no lock file."""

    def close(self) -> None:
        """Do nothing: no lock is held."""
