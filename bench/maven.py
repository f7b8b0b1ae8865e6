"""Class paths of what Maven fetches."""

import subprocess
import sys
from pathlib import Path


def class_path(pom: Path, target: Path) -> str:
    """Of a pom's dependencies; fetched once, and then read from `target`.

    RuntimeError if there is no Maven, or it cannot fetch them.
    """
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        goal = ("dependency:build-classpath", "-DincludeScope=runtime")
        command = ["mvn", "-B", "-q", "-f", str(pom), *goal, f"-Dmdep.outputFile={target}"]
        try:
            # Maven writes control codes to its output, even with -B; output is the bench's table.
            subprocess.run(command, stdout=sys.stderr, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise RuntimeError(f"Maven did not fetch what {pom.name} names: {error}") from error
    return target.read_text().strip()


def version_in(pom: Path, name: str) -> str:
    """The property `name.version` of a pom."""
    return pom.read_text().split(f"<{name}.version>")[1].split("<")[0]
