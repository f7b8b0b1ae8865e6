"""The phases of a start, and the time that each took."""

import os
import time
from collections.abc import Callable
from pathlib import Path

SHORT_SECONDS = 0.005
"""Phases shorter than this are left out: all of them together are rounded away."""


class Phases:
    """The phases of a start, one after the other; as text, the time of all and of each."""

    def __init__(self, began: float, timer: Callable[[], float] = time.monotonic) -> None:
        """`began` is when the first phase began, by the timer, which counts seconds."""
        self._began = self._last = began
        self._timer = timer
        self._ended: list[tuple[str, float]] = []

    def end(self, phase: str) -> None:
        """End a phase, and begin the next one."""
        now = self._timer()
        self._ended.append((phase, now - self._last))
        self._last = now

    def __str__(self) -> str:
        """Return text such as "0.84 s: 0.52 s imports, 0.31 s recovery from 12.0 MB of journal"."""
        parts = [f"{took:.2f} s {phase}" for phase, took in self._ended if took >= SHORT_SECONDS]
        return f"{self._last - self._began:.2f} s{': ' if parts else ''}{', '.join(parts)}"


def recovery(journal_bytes: int) -> str:
    """Return the name of the phase in which a store is opened."""
    return f"recovery from {journal_bytes / (1 << 20):.1f} MB of journal"


def began_at() -> float:
    """Return the monotonic time at which this process began, before its interpreter if known."""
    now = time.monotonic()
    try:
        # The third field and those after it: they follow the name, which may contain blanks.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return now - max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
    except (OSError, AttributeError):  # not Linux: the imports so far are not known
        return now
