"""The clock: message times, delays and retention depend on it."""

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from magnetar_broker.commands.checks.finding import Finding

SUBJECT = "clock"
FIRST = 1_767_225_600
"""2026-01-01: a correct clock is never before this time."""
TOLERANCE_SECONDS = 60
UNSYNCHRONIZED = 5
"""The result of `adjtimex` for a clock that is not synchronized."""
TIMEX_BYTES = 512
"""More bytes than the structure has on any platform."""


def check(data_dir: str) -> Iterator[Finding]:
    """Compare the clock with the files of the data directory, and ask the system about NTP."""
    now = time.time()
    remedy = "set the clock, and keep it right with NTP (chrony, systemd-timesyncd)"
    if now < FIRST:
        yield Finding("error", SUBJECT, f"it is {time.ctime(now)}", remedy)
        return
    ahead = _newest(data_dir) - now
    if ahead > TOLERANCE_SECONDS:
        yield Finding(
            "error", SUBJECT,
            f"it is {time.ctime(now)}, but the data was written {ahead:.0f} s later than that",
            remedy,
        )  # fmt: skip
    elif _is_unsynchronized():
        yield Finding("note", SUBJECT, "the system does not say that NTP keeps it right", remedy)
    else:
        yield Finding("ok", SUBJECT, time.ctime(now))


def _newest(data_dir: str) -> float:
    newest = 0.0
    for folder in ("", "journal"):
        with suppress(OSError):
            for entry in os.scandir(os.path.join(data_dir, folder)):
                with suppress(OSError):
                    newest = max(newest, entry.stat().st_mtime)
    return newest


def _is_unsynchronized() -> bool:
    if sys.platform != "linux":
        return False
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return False
    # All fields are zero: the call only reads.
    return bool(adjtimex(ctypes.create_string_buffer(TIMEX_BYTES)) == UNSYNCHRONIZED)
