"""A meter that runs py-spy on a server during a measurement."""

import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

from bench.usage import Measures, Meter

PY_SPY = Path(sys.executable).with_name("py-spy")
SAMPLES_PER_SECOND = 200


class ProfilingMeter(Meter):
    """Writes a flame graph of the time in which threads of a process held the interpreter's lock.

    Each measurement has a file of its own in `folder`, numbered after `name`.
    """

    def __init__(self, pid: int, folder: Path, name: str) -> None:
        paths = (folder / f"{name}-{number}.svg" for number in count(1))
        self.output = next(path for path in paths if not path.exists())
        self._spy = subprocess.Popen(
            [
                *(PY_SPY, "record", "--gil", "--threads", "--subprocesses", "--pid", str(pid)),
                *("--output", self.output, "--rate", str(SAMPLES_PER_SECOND)),
                *("--duration", "unlimited"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        super().__init__(pid)

    def stop(self, messages: int) -> Measures:
        measures = super().stop(messages)
        self._spy.send_signal(signal.SIGINT)
        _, errors = self._spy.communicate()
        if self._spy.returncode != 0:
            raise RuntimeError(f"py-spy ended with {self._spy.returncode}: {errors}")
        return measures
