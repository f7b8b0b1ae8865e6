"""What a process does to its files, as it happens: inotify."""

import ctypes
import os
import select
import time
from pathlib import Path
from struct import Struct

CREATE, MODIFY, MOVED_TO = 0x100, 0x2, 0x80
NONBLOCK = os.O_NONBLOCK
EVENT = Struct("iIII")
"""watch, what happened, cookie, bytes of the name that follows."""
READ_BYTES = 1 << 16


class FileEvents:
    """Watches a directory and some below it; use it in a `with` statement."""

    def __init__(self, root: Path, *below: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._checked(self._libc.inotify_init1(NONBLOCK))
        self._names: dict[int, str] = {}
        for name in ("", *below):
            path = os.fsencode(root / name)
            mask = CREATE | MODIFY | MOVED_TO
            self._names[self._checked(self._libc.inotify_add_watch(self._fd, path, mask))] = name

    def __enter__(self) -> "FileEvents":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def forget(self) -> None:
        """Events so far do not count."""
        while self._read():
            pass

    def await_change(self, part: str, seconds: float) -> bool:
        """Wait for a change of a file whose path has this part; False if none came in time."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            poll.poll(left * 1000)
            if any(part in path for path in self._read()):
                return True
        return False

    def _read(self) -> list[str]:
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return []
        paths, at = [], 0
        while at < len(data):
            watch, _, _, size = EVENT.unpack_from(data, at)
            at += EVENT.size
            name = data[at : at + size].rstrip(b"\0").decode()
            paths.append(os.path.join(self._names.get(watch, ""), name))
            at += size
        return paths

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result
