"""The choice of system calls that write and sync files, made once when the process starts.

The environment variable MAGNETAR_DISK_CALLS=portable chooses the calls that every system has, as on
a system that is not listed here, so that they can be tested on any machine.
"""

import fcntl
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from magnetar_storage.errors import Unavailable
from magnetar_storage.runtime.local_file import UNSUPPORTED, LocalFile, explained
from magnetar_storage.runtime.pieces import JOIN_BELOW_BYTES, Piece, Source, cut

VARIABLE = "MAGNETAR_DISK_CALLS"
IOV_MAX = os.sysconf("SC_IOV_MAX")

ALIGNMENT: Final = max(4096, mmap.PAGESIZE)
"""The alignment of place, size and memory of a direct write: blocks of usual devices, and whole
pages, so that no page is written both through the cache and past it."""
PIECE_BYTES: Final = max(1 << 20, ALIGNMENT)
DIRECT_FROM_BYTES: Final = 128 << 10
"""The smallest direct write; smaller ones use the cache: they may be read soon, and cost little."""
DIRECT_SYNC_FROM_BYTES: Final = 1 << 20
"""The smallest direct write that is synced at once: the cache saves a smaller one a second sync of
its unaligned ends."""


class LinuxFile(LocalFile):
    """Writes and syncs in one call, writes past the cache, and reserves room.

    Syncs leave out times of modification.
    """

    _pieces: ClassVar[list[mmap.mmap]] = []
    """Unused memory for direct writes: as much as threads have needed at a time."""

    def __init__(self, fd: int, path: str, durable: bool) -> None:
        super().__init__(fd, path, durable)
        # Absent where Python was built for a C library without it, whatever the kernel knows.
        self._synced_write = durable and hasattr(os, "RWF_DSYNC")
        # A direct write waits for the device, which costs nothing where a sync follows anyway.
        self._direct_write = durable and hasattr(os, "O_DIRECT")
        self._is_direct = False

    @classmethod
    def sync_data(cls, fd: int) -> None:
        os.fdatasync(fd)

    def write(self, offset: int, buffers: Sequence[bytes]) -> None:
        with explained("write", self._path):
            for start in range(0, len(buffers), IOV_MAX):
                chunk = buffers[start : start + IOV_MAX]
                size = sum(map(len, chunk))
                if size < JOIN_BELOW_BYTES * len(chunk):
                    chunk = [b"".join(chunk)]
                # One call for up to `IOV_MAX` buffers: each call gives up the interpreter, and
                # waits for it.
                written = os.pwritev(self._fd, chunk, offset)
                if written < size:
                    self._write_all(offset + written, b"".join(chunk)[written:])
                offset += size

    def write_uncached(self, offset: int, buffers: Sequence[bytes]) -> None:
        size = sum(map(len, buffers))
        if not self._direct_write or size < DIRECT_FROM_BYTES:
            self.write(offset, buffers)
            return
        source = Source(buffers)
        try:
            # Several threads write; each takes aligned memory of its own and gives it back.
            memory = self._pieces.pop()
        except IndexError:
            memory = mmap.mmap(-1, PIECE_BYTES)
        with explained("write", self._path), memoryview(memory) as room:
            try:
                for piece in cut(offset, size, ALIGNMENT, PIECE_BYTES):
                    data = room[: piece.size]
                    source.copy(data)
                    written = self._write_directly(piece, data)
                    if written < piece.size:
                        self._be_direct(False)
                        # promise: what a direct write left over is written too
                        self._write_all(piece.at + written, data[written:])
            finally:
                # promise: a file is read through the cache again after a direct write
                self._be_direct(False)
        self._pieces.append(memory)

    def _write_directly(self, piece: Piece, data: memoryview) -> int:
        """Write directly; returns the bytes written, 0 if piece or file system do not allow it.

        The kernel keeps the cache of the file consistent with it.
        """
        if not (piece.aligned and self._direct_write):
            return 0
        try:
            self._be_direct(True)
            return os.pwrite(self._fd, data, piece.at)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            self._direct_write = False
            return 0

    def _be_direct(self, on: bool) -> None:
        """Turn direct writes, past the cache, on or off.

        Not for each piece: every system call gives up the interpreter, and the thread then waits
        for the owner's thread to give it back.
        """
        if on != self._is_direct:
            # The descriptor has no other flag that could be set.
            fcntl.fcntl(self._fd, fcntl.F_SETFL, os.O_DIRECT if on else 0)
            self._is_direct = on

    def write_through(self, offset: int, buffers: Sequence[bytes]) -> None:
        if self._direct_write and sum(map(len, buffers)) >= DIRECT_SYNC_FROM_BYTES:
            self.write_uncached(offset, buffers)
            self.sync()
            return
        # More buffers than one call takes would need a sync for each call.
        if self._synced_write and len(buffers) <= IOV_MAX:
            with explained("write", self._path):
                written = self._write_synced(offset, buffers)
            # Cut short, or not supported: the usual write repeats all of it, and syncs.
            if written == sum(map(len, buffers)):
                return
        super().write_through(offset, buffers)

    def _write_synced(self, offset: int, buffers: Sequence[bytes]) -> int:
        """Write and sync in one call; returns the durable bytes, 0 if that is not supported.

        With one call instead of two, the thread gives up the interpreter only once.
        """
        try:
            # promise[without , os.RWF_DSYNC]: a write that is to sync itself does
            return os.pwritev(self._fd, buffers, offset, os.RWF_DSYNC)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            self._synced_write = False
            return 0

    def allocate(self, size: int) -> None:
        with explained("reserve room for", self._path):
            try:
                os.posix_fallocate(self._fd, 0, size)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise


class MacFile(LocalFile):
    """Syncs to the device: macOS's `fsync` stops at the drive's own cache."""

    F_FULLFSYNC = 51
    """The number in <sys/fcntl.h>; Python names it on macOS only."""

    @staticmethod
    def sync_all(fd: int) -> None:
        try:
            fcntl.fcntl(fd, MacFile.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            os.fsync(fd)  # network file systems have nothing stronger


BY_PLATFORM = {"linux": LinuxFile, "darwin": MacFile}


def choose(platform: str, environ: Mapping[str, str]) -> type[LocalFile]:
    """Return the class of files on a platform; `Unavailable` if the variable has another value."""
    wanted = environ.get(VARIABLE) or "native"
    if wanted not in ("native", "portable"):
        raise Unavailable(f"{VARIABLE}={wanted}: expected native or portable, or unset")
    return BY_PLATFORM.get(platform, LocalFile) if wanted == "native" else LocalFile


NATIVE_FILE: Final = choose(sys.platform, os.environ)
