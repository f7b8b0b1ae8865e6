"""Take one thing out of storage or delivery at a time: the tests must notice each.

    python -m mutants [--jobs 2] [--only TEXT]

Works on copies; exits with 1 if a mutant survives the tests that should notice it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutants.sites import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("proto", "storage", "broker", "client", "spark_connector", "tests", "pyproject.toml")
SOURCE_ROOTS = ("proto", "storage", "broker", "client", "spark_connector")
LIKELY = (
    "local/test_crash_points.py", "local/test_journal.py", "world/test_disk.py",
    "world/test_uncached_write.py",
    "local/test_rot.py", "log/test_log_crash.py", "cursors/test_cursor_log.py",
    "local/test_local_model.py", "log/test_rewriting.py",
)  # fmt: skip
"""Tests that notice most mutants, to be asked first."""

EXAMPLES = "600"
"""Histories of each subscription type: some faults of delivery show in one of a hundred."""

TIMEOUT_SECONDS = 900
HANGS_SECONDS = 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="only mutants that have this text in their line")
    chosen = parser.parse_args()
    found = [one for one in mutations(ROOT) if chosen.only in title(one)]
    with tempfile.TemporaryDirectory(prefix="magnetar-mutants-") as directory:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(chosen.jobs):
            copies.put(copied(Path(directory) / str(job)))
        for tests in {one.tests for one in found}:
            failing, name = noticed(Path(directory) / "0", tests)
            if failing:
                sys.exit(f"{name} fails as it is: mend that first")
        with ThreadPoolExecutor(chosen.jobs) as pool:
            verdicts = list(pool.map(lambda one: judged(one, copies), found))
    survivors = sum(not noticed for noticed in verdicts)
    print(f"{len(found)} mutants, {survivors} not noticed")
    return 1 if survivors or not found else 0


def copied(target: Path) -> Path:
    target.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "corpus", ".hypothesis", "*.so")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target / name)
    return target


def judged(mutation: Mutation, copies: "SimpleQueue[Path]") -> bool:
    """Whether the tests notice; prints a line."""
    copy = copies.get()
    try:
        path = copy / mutation.file
        original = path.read_text()
        path.write_text(mutation.apply(original))
        began = time.monotonic()
        try:
            outcome, by = noticed(copy, mutation.tests)
        finally:
            path.write_text(original)
    finally:
        copies.put(copy)
    word = "noticed " if outcome else "SURVIVES"
    print(f"{word} {time.monotonic() - began:5.0f} s  {title(mutation)}  {by}", flush=True)
    return outcome


def title(mutation: Mutation) -> str:
    return f"{mutation.file}:{mutation.line} {mutation.what}"


def noticed(copy: Path, tests: tuple[str, ...]) -> tuple[bool, str]:
    """Run these tests, or those of storage, until one fails; which one that was."""
    chosen = [copy / test for test in tests] or of_storage(copy)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    # A fault may make a test hang, which notices it so.
    command += ["--hypothesis-profile=unshrunk", f"--timeout={HANGS_SECONDS}"]
    run = subprocess.run(
        [*command, *map(str, chosen)],
        check=False,
        cwd=copy,
        env=environment(copy),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    if run.returncode not in (0, 1):
        sys.exit(f"the tests could not be run:\n{run.stdout}{run.stderr}")
    failed = [
        line
        for line in run.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR")) and "::" in line  # and no line of a log
    ]
    return run.returncode == 1, failed[0].partition("::")[2].split()[0] if failed else ""


def of_storage(copy: Path) -> list[Path]:
    """All tests of storage, those that notice most first."""
    tests = copy / "tests" / "storage"
    first = [tests / name for name in LIKELY]
    return first + sorted(set(tests.rglob("test_*.py")) - set(first))


def environment(copy: Path) -> dict[str, str]:
    """The copies in front of the package that is installed."""
    roots = [str(copy / root) for root in (*SOURCE_ROOTS, "tests")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(roots),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DISPATCH_EXAMPLES": EXAMPLES,
    }


if __name__ == "__main__":
    sys.exit(main())
