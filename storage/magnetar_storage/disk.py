"""The disk: the only module of storage that knows the operating system.

Names are relative to the store's root, with `/` between parts.  Every method may
raise `DiskFull` or `Unavailable`; a missing file is `FileNotFoundError`.
Nothing is durable before `File.sync` (content) and `Disk.sync_dir` (names).
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from magnetar_storage.errors import DataDirLocked, DiskFull, Unavailable

IOV_MAX = os.sysconf("SC_IOV_MAX")
JOIN_BELOW_BYTES = 4096
"""Buffers smaller than this on average are cheaper to join than to list for the kernel."""

FULL = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or raise the quota",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
}
NOT_HERE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""What a file system answers when it does not know a call."""

SYNCED_WRITE = getattr(os, "RWF_DSYNC", 0)
"""Linux: a write that syncs itself, so that a thread gives up the interpreter once, not twice."""

REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the system is out of file handles",
    errno.EACCES: "the data directory must belong to the user the broker runs as",
    errno.EPERM: "the data directory must belong to the user the broker runs as",
    errno.EROFS: "the file system is mounted read-only; look for errors in the kernel's log",
    errno.EIO: "the device failed; look for errors in the kernel's log",
}


class File(Protocol):
    """An open file, read and written at offsets."""

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write all buffers one behind the other; after an error any part may be written."""

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        """Write, and have what was written durable on return; earlier writes may not be.

        After `DiskFull` any part may be written; after any other error its fate is unknown.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make the content durable.  After an error its fate is unknown: never `DiskFull`."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Reserve room up to `size`, as zeros, if the file system can; else do nothing."""

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that is held until `close`, or until the process ends."""

    def close(self) -> None: ...


class ReadableDisk(Protocol):
    """A directory tree that is looked at."""

    def open(self, name: str) -> File:
        """Open for reading."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; empty if there is no such directory."""

    def lock(self, name: str) -> Lock:
        """Keep away who would disturb, else `DataDirLocked`."""

    def path_of(self, name: str) -> str:
        """The path by which other libraries (SQLite) open the file."""


class Disk(ReadableDisk, Protocol):
    """A directory tree."""

    def open(self, name: str, create: bool = False) -> File:
        """Open for reading and writing; `create` makes the file if there is none."""

    def rename(self, old: str, new: str) -> None:
        """Atomically put `old` in the place of `new`."""

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is no error."""

    def make_dir(self, directory: str) -> None:
        """Make a directory; one that exists is no error."""

    def sync_dir(self, directory: str) -> None:
        """Make what was created, renamed and removed in the directory durable."""

    def lock(self, name: str) -> Lock:
        """Lock for this process alone, else `DataDirLocked`."""


@contextmanager
def _explained(action: str, path: str) -> Iterator[None]:
    """Turn what the system says into an error of ours that says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(f"no room to {action} {path}: {FULL[error.errno]}") from error
        remedy = REMEDIES.get(error.errno or 0)
        hint = f" ({remedy})" if remedy else ""
        raise Unavailable(f"cannot {action} {path}: {error.strerror}{hint}") from error


class LocalFile:
    """A file of the operating system."""

    def __init__(self, fd: int, path: str, durable: bool) -> None:
        self._fd = fd
        self._path = path
        self._durable = durable
        self._synced_write = SYNCED_WRITE if durable else 0

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        with _explained("write", self._path):
            for start in range(0, len(buffers), IOV_MAX):
                chunk = buffers[start : start + IOV_MAX]
                size = sum(map(len, chunk))
                if size < JOIN_BELOW_BYTES * len(chunk):
                    chunk = [b"".join(chunk)]
                written = os.pwritev(self._fd, chunk, offset)
                if written < size:
                    self._write_rest(offset + written, b"".join(chunk)[written:])
                offset += size

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        if self._synced_write and len(buffers) <= IOV_MAX:
            with _explained("write", self._path):
                written = self._write_synced(offset, buffers)
            if written == sum(map(len, buffers)):
                return
        self.write(offset, buffers)
        self.sync()

    def _write_synced(self, offset: int, buffers: Sequence[bytes]) -> int:
        """How many bytes are durable; 0 where the file system does not know such a write."""
        try:
            return os.pwritev(self._fd, buffers, offset, SYNCED_WRITE)
        except OSError as error:
            if error.errno not in NOT_HERE:
                raise
            self._synced_write = 0
            return 0

    def _write_rest(self, offset: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._fd, rest, offset)
            rest, offset = rest[written:], offset + written

    def read(self, offset: int, size: int) -> bytes:
        with _explained("read", self._path):
            data = os.pread(self._fd, size, offset)
            while len(data) < size:
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        return data

    def sync(self) -> None:
        if not self._durable:
            return
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise Unavailable(f"cannot sync {self._path}: {error.strerror}") from error

    def size(self) -> int:
        with _explained("look at", self._path):
            return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        with _explained("truncate", self._path):
            os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        with _explained("reserve room for", self._path):
            try:
                os.posix_fallocate(self._fd, 0, size)
            except OSError as error:
                if error.errno not in NOT_HERE:
                    raise

    def close(self) -> None:
        os.close(self._fd)


class _Tree:
    """What a directory tree under `root` is to those who write it and those who look."""

    def __init__(self, root: str) -> None:
        self._root = root

    def list(self, directory: str) -> list[str]:
        path = self.path_of(directory)
        with _explained("list", path):
            try:
                return sorted(os.listdir(path))
            except FileNotFoundError:
                return []

    def path_of(self, name: str) -> str:
        return os.path.join(self._root, name)

    def _lock(self, file: LocalFile, name: str, how: int) -> None:
        try:
            fcntl.flock(file._fd, how | fcntl.LOCK_NB)
        except OSError as error:
            holder = file.read(0, 32).decode("ascii", "replace").strip() or "unknown"
            file.close()
            raise DataDirLocked(
                f"{self._root} is in use by process {holder}: stop it first, "
                f"or give this one another data directory ({self.path_of(name)})"
            ) from error


class LocalDisk(_Tree):
    """The directory tree under `root`, which is made if it does not exist.

    Without `durable`, files are left to the kernel: a killed process loses nothing, a power
    failure may lose what was acknowledged.
    """

    def __init__(self, root: str, durable: bool = True) -> None:
        super().__init__(root)
        self._durable = durable
        with _explained("make", root):
            os.makedirs(root, exist_ok=True)

    def open(self, name: str, create: bool = False) -> LocalFile:
        path = self.path_of(name)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _explained("open", path):
            return LocalFile(os.open(path, flags, 0o640), path, self._durable)

    def rename(self, old: str, new: str) -> None:
        with _explained("rename", self.path_of(old)):
            os.replace(self.path_of(old), self.path_of(new))

    def remove(self, name: str) -> None:
        path = self.path_of(name)
        with _explained("remove", path), suppress(FileNotFoundError):
            os.unlink(path)

    def make_dir(self, directory: str) -> None:
        path = self.path_of(directory)
        with _explained("make", path):
            os.makedirs(path, exist_ok=True)

    def sync_dir(self, directory: str) -> None:
        path = self.path_of(directory)
        with _explained("open", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
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
    """The same for somebody who only looks: nothing is made, and no file can be written."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        if not os.path.isdir(root):
            raise Unavailable(f"{root} is no directory")

    def open(self, name: str) -> LocalFile:
        path = self.path_of(name)
        with _explained("open", path):
            return LocalFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, durable=True)

    def lock(self, name: str) -> Lock:
        """Keep those away who would write; where there is no lock file, nobody ever wrote."""
        try:
            file = self.open(name)
        except FileNotFoundError:
            return _NoLock()
        self._lock(file, name, fcntl.LOCK_SH)
        return file


class _NoLock:
    """The lock of a directory that nobody has ever opened for writing."""

    def close(self) -> None:
        """Nothing is held."""
