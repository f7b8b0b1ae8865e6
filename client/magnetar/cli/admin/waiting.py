"""A line on a terminal while a request takes long."""

import threading
import time
from typing import Self, TextIO

FIRST_S = 2.0
CLEAR = "\r\x1b[K"


class Waiting:
    """Shows how long the request has been running; shows nothing if `out` is not a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True) if out.isatty() else None

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        started_s = time.monotonic()
        pause_s, shown = FIRST_S, False
        while not self._done.wait(pause_s):
            pause_s, shown = 1.0, True
            passed_s = time.monotonic() - started_s
            self._write(f"{CLEAR}waiting for the broker: {passed_s:.0f} s")
        if shown:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
