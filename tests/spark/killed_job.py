"""A job of Spark in processes of its own, of which any can be killed."""

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil


class Job:
    """The driver, with its JVM and its Python workers.  `lines` is what the driver prints."""

    def __init__(self, script: Path, arguments: list[str], log: Path) -> None:
        """What Spark logs is appended to `log`."""
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                text=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def await_lines(self, count: int) -> None:
        """Return when the driver has printed so many more, or has ended of what was killed."""
        assert self.process.stdout is not None
        for _ in range(count):
            if not self.process.stdout.readline():
                return

    def kill_worker(self, choice: random.Random) -> None:
        """Kill one of the forked processes that run tasks, if there is one at the moment."""
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.process.pid).children(recursive=True)
            forked = [one for one in below if not one.children() and "daemon" in str(one.cmdline())]
            if forked:
                choice.choice(forked).kill()

    def kill(self) -> None:
        """Kill the driver and the JVM; the workers notice it, or go on for a while."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
