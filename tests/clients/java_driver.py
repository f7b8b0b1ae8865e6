"""The program with the Java client: one process plays scenario after scenario."""

import re
import subprocess
from pathlib import Path

from clients import builds
from clients.stage import Stage

SCENARIO = re.compile(r"@Scenario\s+static void (\w+)\(")
MAVEN = (
    "mvn", "-B", "-q", "-Dbuild.dir={target}", "compile", "dependency:build-classpath",
    "-Dmdep.outputFile={target}/classpath", "-Dmdep.includeScope=runtime",
)  # fmt: skip
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def scenarios() -> list[str]:
    """`Subject.method` of each, as the sources have them."""
    return [
        f"{path.stem}.{name}"
        for path in builds.sources("java", "*.java")
        for name in SCENARIO.findall(path.read_text())
    ]


class JavaDriver:
    """Builds if need be, and starts; to be closed."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        target = builds.build("java", builds.sources("java", "*.java", "pom.xml"), MAVEN)
        self.libraries = (target / "classpath").read_text().strip()
        class_path = f"{target / 'classes'}:{self.libraries}"
        with log_path.open("w") as log:
            self._process = subprocess.Popen(
                ["java", "-Xmx512m", QUIET, "-cp", class_path, "magnetar.clients.Main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def play(self, scenario: str, stage: Stage) -> str | None:
        """What went wrong, as text, or None."""
        broker = stage.broker
        self._send("\t".join((scenario, broker.service_url, broker.http_url, stage.topic)))
        while True:
            word, _, rest = self._receive().partition(" ")
            if word != "ask":
                return None if word == "ok" else rest.replace("\\n", "\n")
            self._send(stage.answer_or_failure(rest))

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _receive(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it ended; see {self.log_path}:\n{self.log_path.read_text()}"
        return line.rstrip("\n")
