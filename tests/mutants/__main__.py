"""Break one promise of the sources at a time: the tests must notice each.

    python -m mutants [--jobs 1] [--only TEXT] [--verdicts FILE] [--minutes 60]

Works on copies. A verdict goes to the file at once; a mutant that was noticed according to the
file is not judged again, so remove the file after a change of the tests. Exits with 1 if a mutant
survives the tests that should notice it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from mutants.judges import judges
from mutants.sites import ROOTS, Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
COPIED = (*ROOTS, "tests", "docs", "conf", "scripts", "pyproject.toml")
EXAMPLES = "600"
"""The number of histories per subscription type: some faults show in one of a hundred."""

TIMEOUT_SECONDS = 1800
HANGS_SECONDS = 300
HANGS = "a test that hangs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="only mutants that have this text in their line")
    parser.add_argument("--verdicts", type=Path, help="a file of the verdicts so far")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none afterwards")
    parser.add_argument("--list", action="store_true", help="list them, and judge none")
    chosen = parser.parse_args()
    found = [one for one in mutations(ROOT) if chosen.only in title(one)]
    if chosen.list:
        print(*map(title, found), sep="\n")
        return 0
    before = noticed_before(chosen.verdicts) if chosen.verdicts else set()
    left = [one for one in found if name(one) not in before]
    ends_at = time.monotonic() + chosen.minutes * 60
    with tempfile.TemporaryDirectory(prefix="magnetar-mutants-") as directory:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(chosen.jobs):
            copies.put(copied(Path(directory) / str(job)))
        with ThreadPoolExecutor(chosen.jobs) as pool:
            run = partial(judged, copies=copies, verdicts=chosen.verdicts, ends_at=ends_at)
            verdicts = list(pool.map(run, left))
    survivors, unjudged = verdicts.count(False), verdicts.count(None)
    print(
        f"{len(found)} mutants: {len(found) - len(left)} noticed before, "
        f"{verdicts.count(True)} noticed now, {survivors} not noticed, {unjudged} not judged"
    )
    return 1 if survivors or not found else 0


def noticed_before(verdicts: Path) -> set[str]:
    if not verdicts.exists():
        return set()
    lines = [line.split("\t") for line in verdicts.read_text().splitlines()]
    return {name for verdict, name, _ in lines if verdict == "noticed"}


def copied(target: Path) -> Path:
    target.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "corpus", ".hypothesis", "*.so")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target / name)
    return target


def judged(
    mutation: Mutation, copies: "SimpleQueue[Path]", verdicts: Path | None, ends_at: float
) -> bool | None:
    """Return whether the tests notice, `None` if the time was over; print and store a line."""
    if time.monotonic() > ends_at:
        return None
    copy = copies.get()
    try:
        path = copy / mutation.file
        original = path.read_text()
        path.write_text(mutation.apply(original))
        began = time.monotonic()
        try:
            likely, *others = judges(copy, mutation.file)
            # Alone it ends in seconds, and it notices most mutants.
            by = first_failure(copy, [likely]) or first_failure(copy, [likely, *others])
        finally:
            path.write_text(original)
        if by not in ("", HANGS) and first_failure(copy, [by]):
            sys.exit(f"{by} fails as it is: mend that first")
    finally:
        copies.put(copy)
    verdict = "noticed" if by else "SURVIVES"
    print(f"{verdict:8} {time.monotonic() - began:5.0f} s  {title(mutation)}  {by}", flush=True)
    if verdicts:
        with verdicts.open("a") as file:
            file.write(f"{verdict}\t{name(mutation)}\t{by}\n")
    return bool(by)


def title(mutation: Mutation) -> str:
    return f"{mutation.file}:{mutation.line} {mutation.what}"


def name(mutation: Mutation) -> str:
    """Return a name that stays the same when other lines of the file change."""
    return f"{mutation.file} {mutation.what}: {' '.join(mutation.old.split())}"


def first_failure(copy: Path, tests: "list[Path] | list[str]") -> str:
    """Run tests until one fails, and return that one; empty if none does in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    # A fault may make a test hang, which also reveals it.
    command += ["--hypothesis-profile=unshrunk", f"--timeout={HANGS_SECONDS}"]
    try:
        run = subprocess.run(
            [*command, *map(str, tests)],
            check=False,
            cwd=copy,
            env=environment(copy),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return ""
    if run.returncode == 0:
        return ""
    failed = [
        line
        for line in run.stdout.splitlines()
        if line.startswith(("FAILED tests/", "ERROR tests/"))  # and no line of a log
    ]
    if not failed and "Timeout >" in run.stdout + run.stderr:  # which ends pytest
        return HANGS
    if run.returncode not in (1, 2) or not failed:
        sys.exit(f"the tests could not be run:\n{run.stdout}{run.stderr}")
    return failed[0].split(maxsplit=1)[1].partition(" - ")[0]


def environment(copy: Path) -> dict[str, str]:
    """Return an environment in which the copies take precedence over the installed package."""
    roots = [str(copy / root) for root in (*ROOTS, "tests")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(roots),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DISPATCH_EXAMPLES": EXAMPLES,
    }


if __name__ == "__main__":
    sys.exit(main())
