"""A driver of a supervisor whose processes only report events (supervised.py)."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from magnetar_broker.server.supervision.process_liveness import REPORTS

PROGRAM = Path(__file__).with_name("supervised.py")
KILLED = "is killed: its event loop has not run"
Event = dict[str, Any]


class Supervised:
    """A supervisor in a separate process, and the events that its processes report."""

    def __init__(
        self, workers: int, stop_seconds: float, silence_seconds: float, behaviours: list[str]
    ) -> None:
        seconds = str(stop_seconds), str(silence_seconds)
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(workers), *seconds, *behaviours],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.events: list[Event] = []
        self.log = ""
        self._leaps = 0

    def until(self, **wanted: object) -> Event:
        """Return the first event with these values, reported already or not."""
        position = 0
        while True:
            for event in self.events[position:]:
                if wanted.items() <= event.items():
                    return event
            position = len(self.events)
            self._read_line(wanted)

    def until_connected(self) -> None:
        """Return when no process of two workers and a controller waits for another one."""
        self.until(event="ready")
        others = {"controller": (0, 1), "worker-0": (None, 1), "worker-1": (None, 0)}
        for name, numbers in others.items():
            for number in numbers:
                self.until(event="met", name=name, worker=number)

    def until_logged(self, text: str) -> None:
        while text not in self.log:
            self._read_line(text)

    def leap(self, seconds: float) -> None:
        """Advance the supervisor's clock, which otherwise stands still; return after the leap."""
        self._begin_leap(seconds)
        self.until(event="leapt", number=self._leaps)

    def _begin_leap(self, seconds: float) -> None:
        assert self.process.stdin is not None
        self._leaps += 1
        with suppress(BrokenPipeError):  # it has ended
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        self.process.send_signal(signal.SIGUSR1)

    def expire(self, silence_seconds: float, *others: str) -> None:
        """Return when a silent process was killed; the others report after each leap of the clock.

        They must have the behaviour `tell_reports`.  One leap counts for one interval at most, and
        two may count as one, so the number of leaps is not known.
        """
        while KILLED not in self.log:
            position = len(self.events)
            self._begin_leap(silence_seconds / REPORTS)
            awaited = {("leapt", "supervisor"), *(("alive", name) for name in others)}
            while KILLED not in self.log and not awaited <= {
                (event["event"], event["name"]) for event in self.events[position:]
            }:
                self._read_line(KILLED)

    def _read_line(self, wanted: object) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"no {wanted} among {self.events}\n{self.log}"
        self._take(line)

    def _take(self, line: str) -> None:
        if line.startswith("{"):
            self.events.append(json.loads(line))
        else:
            self.log += line

    def wait(self) -> int:
        """Return the exit code, once all processes, which hold the events' pipe, have ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(line)
        return self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the first process of this name."""
        os.kill(self.until(event="started", name=name)["pid"], number)

    def named(self, event: str) -> list[str]:
        """Return the names of the processes that reported an event, in this order."""
        return [found["name"] for found in self.events if found["event"] == event]

    def close(self) -> None:
        """Kill the processes that a failed test has left."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


Supervise = Callable[..., Supervised]
