"""The share of the machine that this process uses, in percent."""

import os
import resource
import sys
from typing import NamedTuple

STATM = "/proc/self/statm"


class Usage(NamedTuple):
    """The shares of all processors, and of all memory."""

    cpu: float
    memory: float


class UsageMeter:
    """Measures the usage from one call to the next."""

    def __init__(self, now_ms: int) -> None:
        self._cores = os.cpu_count() or 1
        self._memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._since_ms, self._cpu_then = now_ms, _cpu_seconds()

    def usage(self, now_ms: int) -> Usage:
        """Return the shares of processor time since the last call, and of memory at present."""
        cpu, seconds = _cpu_seconds(), max(now_ms - self._since_ms, 1) / 1000
        used = cpu - self._cpu_then
        self._since_ms, self._cpu_then = now_ms, cpu
        return Usage(100 * used / seconds / self._cores, 100 * _resident_bytes() / self._memory)


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system


def _resident_bytes() -> int:
    try:
        with open(STATM) as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # without /proc only the peak is known, on macOS in bytes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
