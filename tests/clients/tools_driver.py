"""The program with Pulsar's command line tools: one process runs command after command."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clients import builds
from clients.java_driver import MAVEN, QUIET

PROGRAM_SECONDS = 300
LIMIT = ("--request-timeout", "120")


class Ran(NamedTuple):
    """What a command did."""

    worked: bool
    printed: str


class ToolsDriver:
    """Builds if need be, and starts; to be closed."""

    def __init__(self, log_path: Path) -> None:
        target = builds.build("tools", builds.sources("tools", "*.java", "pom.xml"), MAVEN)
        libraries = (target / "classpath").read_text().strip()
        self._java = ["java", "-Xmx512m", "-cp", f"{target / 'classes'}:{libraries}"]
        self._log_path = log_path
        with log_path.open("w") as log:
            self._process = subprocess.Popen(
                [*self._java, QUIET, "magnetar.tools.Main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def play(self, program: str, *words: str) -> Ran:
        """Run a program of its own to its end."""
        done = subprocess.run(
            [*self._java, program, *words],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
        return Ran(done.returncode == 0, done.stdout)

    def run(self, url: str, words: Sequence[str]) -> Ran:
        """Run a command of pulsar-admin against the broker with this URL for HTTP."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\t".join((url, *LIMIT, *words)) + "\n")
        self._process.stdin.flush()
        outcome, _, printed = self._process.stdout.readline().rstrip("\n").partition(" ")
        assert outcome in ("ok", "failed"), self._log_path.read_text()
        return Ran(outcome == "ok", printed.replace("\\n", "\n").replace("\\\\", "\\"))

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
