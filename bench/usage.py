"""CPU and memory of a server's processes during a measurement."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

MIB = 1 << 20
Measures = dict[str, float]
"""By name; the names are those of the columns in `bench.table`."""


@dataclass(frozen=True)
class Memory:
    """In MiB, of a process and its children."""

    peak: float
    """The most that was resident since it was last forgotten."""
    rss: float
    pss: float
    """Resident, but pages mapped more than once are counted once."""
    uss: float
    """What would be free if they ended."""


def family(pid: int) -> list[psutil.Process]:
    """A process and its children."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Of all threads of a process and its children, since their start: own, and the system's."""
    times = [process.cpu_times() for process in family(pid)]
    return sum(t.user for t in times), sum(t.system for t in times)


def memory(pid: int) -> Memory:
    """Of a process and its children, now."""
    peak = rss = pss = uss = 0.0
    for process in family(pid):
        full = process.memory_full_info()
        rss, pss, uss = rss + full.rss, pss + full.pss, uss + full.uss
        peak += _peak_bytes(process.pid)
    return Memory(peak / MIB, rss / MIB, pss / MIB, uss / MIB)


def forget_peak(pid: int) -> None:
    """From now on the peak is that of what follows."""
    for process in family(pid):
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def cpu_ratio(cpu_us: float, other_us: float) -> float:
    """The CPU a message compared with that of another run; 0 if the other used none.

    The kernel counts CPU in ticks of some milliseconds: a very short run may use none.
    """
    return cpu_us / other_us if other_us else 0.0


def is_python(process: psutil.Process) -> bool:
    """Whether a process is a Python interpreter."""
    return process.name().startswith("python")


class PerProcess:
    """The CPU of a process and its children from its making on; those that end do not count."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = time.perf_counter()
        self._before = self._cpu_seconds()

    def percent(self, of: Callable[[psutil.Process], bool] = lambda process: True) -> float:
        """What some of them used, in percent of one core."""
        seconds = time.perf_counter() - self._began
        used = sum(
            now - self._before.get(process, 0.0)
            for process, now in self._cpu_seconds().items()
            if of(process)
        )
        return used / seconds * 100

    def _cpu_seconds(self) -> dict[psutil.Process, float]:
        found = {}
        for process in family(self._pid):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                found[process] = times.user + times.system
        return found


class Meter:
    """Runs from its making until `stop`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        forget_peak(pid)
        self._own = time.process_time()
        self._cpu = cpu_seconds(pid)
        self.began = time.perf_counter()

    def stop(self, messages: int, size: int) -> Measures:
        """What `messages` of `size` bytes have cost; RuntimeError if there were none."""
        if not messages:
            raise RuntimeError("nothing was done in the time there was")
        seconds = time.perf_counter() - self.began
        own = time.process_time() - self._own
        user, system = (
            now - then for now, then in zip(cpu_seconds(self._pid), self._cpu, strict=True)
        )
        used = memory(self._pid)
        return {
            "messages": messages,
            "seconds": seconds,
            "msg_per_s": messages / seconds,
            "mb_per_s": messages * size / seconds / 1e6,
            "cpu_us": (user + system) / messages * 1e6,
            "system_cpu_us": system / messages * 1e6,
            "cpu_percent": (user + system) / seconds * 100,
            "peak_mib": used.peak,
            "pss_mib": used.pss,
            "client_percent": own / seconds * 100,
        }
