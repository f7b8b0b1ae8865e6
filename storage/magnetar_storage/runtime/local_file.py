"""A file of the operating system, with calls that every POSIX system has."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from magnetar_storage.errors import DiskFull, Unavailable
from magnetar_storage.runtime.pieces import JOIN_BELOW_BYTES

FULL = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or raise the quota",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
}
UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.ENOTTY)
"""The errors of a file system for a call that it does not implement."""

REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the system is out of file handles",
    errno.EACCES: "the data directory must belong to the user the broker runs as",
    errno.EPERM: "the data directory must belong to the user the broker runs as",
    errno.EROFS: "the file system is mounted read-only; look for errors in the kernel's log",
    errno.EIO: "the device failed; look for errors in the kernel's log",
}


@contextmanager
def explained(action: str, path: str) -> Iterator[None]:
    """Turn errors of the system into `DiskFull` or `Unavailable` with the remedy.

    A missing file stays `FileNotFoundError`.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        # Apart from all others: nothing is lost, and it may pass when files are deleted.
        if error.errno in FULL:
            raise DiskFull(f"no room to {action} {path}: {FULL[error.errno]}") from error
        remedy = REMEDIES.get(error.errno or 0)
        hint = f" ({remedy})" if remedy else ""
        raise Unavailable(f"cannot {action} {path}: {error.strerror}{hint}") from error


class LocalFile:
    """An open descriptor; implements `File`.  Subclasses use better calls of one system.

    Without `durable`, nothing is synced.
    """

    def __init__(self, fd: int, path: str, durable: bool) -> None:
        self._fd = fd
        self._path = path
        self._durable = durable

    @staticmethod
    def sync_all(fd: int) -> None:
        """Make a file with all its attributes, or the names in a directory, durable."""
        os.fsync(fd)

    @classmethod
    def sync_data(cls, fd: int) -> None:
        """Make a file's content and size durable."""
        cls.sync_all(fd)

    def fileno(self) -> int:
        """Return the file's descriptor."""
        return self._fd

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        # One copy of small buffers costs less than a system call for each.
        if sum(map(len, buffers)) < JOIN_BELOW_BYTES * len(buffers):
            buffers = [b"".join(buffers)]
        with explained("write", self._path):
            for buffer in buffers:
                self._write_all(offset, buffer)
                offset += len(buffer)

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        self.write(offset, buffers)
        self.sync()

    def write_uncached(self, offset: int, buffers: Sequence[bytes]) -> None:
        self.write(offset, buffers)

    def _write_all(self, offset: int, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._fd, rest, offset)
            # A signal or a limit may cut a write short, without an error.
            rest, offset = rest[written:], offset + written

    def read(self, offset: int, size: int) -> bytes:
        with explained("read", self._path):
            data = os.pread(self._fd, size, offset)
            while len(data) < size:
                more = os.pread(self._fd, size - len(data), offset + len(data))
                # The end of the file: callers compare what they got with what they wanted.
                if not more:
                    break
                data += more
        return data

    def sync(self) -> None:
        if not self._durable:
            return
        try:
            self.sync_data(self._fd)
        except OSError as error:
            # Whatever the reason, even a full disk: the kernel may have dropped what it could
            # not write, and a second sync would then succeed without it.
            raise Unavailable(f"cannot sync {self._path}: {error.strerror}") from error

    def size(self) -> int:
        with explained("read the size of", self._path):
            return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        with explained("truncate", self._path):
            os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        # No portable call reserves room.  A file that has its final size at least spares the
        # syncs of its rounds from storing a new size each time.
        if self.size() < size:
            self.truncate(size)

    def close(self) -> None:
        os.close(self._fd)
