"""`magnetar init --secure` as a person uses it: what it writes, what it prints, and the broker."""

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

from ports import free_ports

TIMEOUT_S = 60
COMMAND = str(Path(sys.executable).with_name("magnetar"))


def words(line: str) -> list[str]:
    """The words of a printed line, as a shell divides them."""
    program, *others = shlex.split(line)
    assert program == "magnetar"
    return [COMMAND, *others]


def run(line: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        words(line), capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env=os.environ | environment,
    )  # fmt: skip
    assert result.returncode == code, result.stdout + result.stderr
    return result


class Prepared:
    """A directory that the command has written, what it printed, and the broker."""

    def __init__(self, directory: Path, workers: int) -> None:
        port, http_port = free_ports(2)
        self.directory = directory
        self.printed = run(
            f"magnetar init --secure --port {port} --http-port {http_port} '{directory}'"
        ).stdout
        self.log = (directory.parent / "log").open("a+")
        (start,) = self.lines("magnetar standalone")
        self.process = subprocess.Popen(
            words(start), stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=os.environ | {"PULSAR_PREFIX_magnetarWorkers": str(workers)},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.banner = ""
        for line in self.process.stdout:
            self.banner += line
            if line.startswith("  durability"):
                break

    def lines(self, start: str) -> list[str]:
        """The printed lines that begin so."""
        stripped = [line.strip() for line in self.printed.splitlines()]
        return [line for line in stripped if line.startswith(start)]

    def program(self, title: str) -> str:
        """The lines that are printed under a title."""
        _, _, rest = self.printed.partition(f"\n{title}\n")
        block, _, _ = rest.partition("\n\n")
        return textwrap.dedent(block)

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=TIMEOUT_S)
        self.log.close()
