"""The tests of the Go client: one program that is run for each."""

import os
import re
import subprocess

from clients import builds
from clients.stage import Stage

SCENARIO = re.compile(r"^func (Test\w+)\(", re.MULTILINE)
COMPILE = ("go", "test", "-c", "-o", "{target}/tests", ".")
LIMIT = "120s"


def scenarios() -> list[str]:
    """The name of each, as the sources have them."""
    return [
        name for path in builds.sources("go", "*.go") for name in SCENARIO.findall(path.read_text())
    ]


class GoDriver:
    """Builds if need be."""

    def __init__(self) -> None:
        files = builds.sources("go", "*.go", "go.mod", "go.sum")
        self._program = builds.build("go", files, COMPILE) / "tests"

    def play(self, scenario: str, stage: Stage) -> str | None:
        """What went wrong, as text, or None."""
        broker = stage.broker
        environment = {
            "SERVICE_URL": broker.service_url,
            "HTTP_URL": broker.http_url,
            "TOPIC": stage.topic,
        }
        with subprocess.Popen(
            [str(self._program), "-test.run", f"^{scenario}$", "-test.timeout", LIMIT],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            output = []
            for line in process.stdout:
                if line.startswith("ask "):
                    process.stdin.write(stage.answer_or_failure(line[4:]) + "\n")
                    process.stdin.flush()
                else:
                    output.append(line)
        return "".join(output) if process.returncode else None

    def close(self) -> None:
        """Nothing keeps running behind a test."""
