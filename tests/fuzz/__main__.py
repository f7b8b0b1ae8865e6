"""Coverage-guided fuzzing: `python -m fuzz run`, `repeat`, `keep` and `record`."""

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fuzz import corpus

MOST_RESTARTS = 20
REPEAT_SECONDS = 120
FIGURES = {
    "executions": re.compile(r"stat::number_of_executed_units:\s*(\d+)"),
    "coverage": re.compile(r"cov: (\d+)"),
}


class NotRun(Exception):
    """A target that cannot be loaded, or Atheris that is missing."""


@dataclass
class Outcome:
    """How one target fared."""

    name: str
    seconds: float = 0.0
    executions: int = 0
    coverage: int = 0
    new: int = 0
    findings: tuple[Path, ...] = ()


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="fuzz every target, or one")
    run.add_argument("--minutes", type=float, default=10, help="for all targets together")
    run.add_argument("--target", choices=corpus.names(), action="append")
    repeat = commands.add_parser("repeat", help="run one input, without Atheris")
    repeat.add_argument("target", choices=corpus.names())
    repeat.add_argument("input", type=Path)
    keep = commands.add_parser("keep", help="store inputs that reach more than the stored ones")
    keep.add_argument("target", choices=[*corpus.names(), []], nargs="*")
    prepare = commands.add_parser("prepare", help="put the seeds where a run begins")
    prepare.add_argument("target", choices=corpus.names())
    commands.add_parser("record", help="record what real clients send to a real broker")
    asked = parser.parse_args()
    if asked.command == "run":
        return fuzz(asked.target or corpus.names(), asked.minutes * 60)
    if asked.command == "repeat":
        corpus.target(asked.target).run(asked.input.read_bytes())
    elif asked.command == "prepare":
        corpus.prepare(asked.target)
    elif asked.command == "keep":
        for name in asked.target or corpus.names():
            print(f"{name}: {corpus.keep(name)} new inputs")
    else:
        from fuzz.record import record

        record()
    return 0


def fuzz(names: list[str], seconds: float) -> int:
    """Fuzz the targets one after the other; 1 if anything was found."""
    outcomes = []
    broken = []
    for name in names:
        print(f"{name}: {seconds / len(names):.0f} s", flush=True)
        try:
            outcomes.append(fuzz_one(name, seconds / len(names)))
        except NotRun as error:
            broken.append(error)
    print(table(outcomes), *broken, sep="\n")
    findings = [(outcome.name, path) for outcome in outcomes for path in outcome.findings]
    for name, path in findings:
        print(f"repeat with: PYTHONPATH=tests {sys.executable} -m fuzz repeat {name} {path}")
    return 1 if findings or broken else 0


def fuzz_one(name: str, seconds: float) -> Outcome:
    """Fuzz for so long, starting again behind whatever ends the process."""
    # In a process of its own, as is all that imports the target: it may not even load.
    prepared, output = python("fuzz", "prepare", name)
    work = corpus.WORK / name
    if not prepared:
        raise NotRun(f"{name} cannot be prepared:\n{output}")
    store_mended(name)
    before = {path.name for path in (work / "corpus").iterdir()}
    outcome = Outcome(name)
    began = time.monotonic()
    for _ in range(MOST_RESTARTS):
        left = seconds - (time.monotonic() - began)
        if left < 1:
            break
        run_engine(outcome, left)
    outcome.seconds = time.monotonic() - began
    outcome.new = len({path.name for path in (work / "corpus").iterdir()} - before)
    outcome.findings = tuple(sorted((work / "findings").iterdir()))
    return outcome


def store_mended(name: str) -> None:
    """Findings of earlier runs that fail no more are stored, so that they stay mended."""
    for path in sorted((corpus.WORK / name / "findings").iterdir()):
        if python("fuzz", "repeat", name, str(path), seconds=REPEAT_SECONDS)[0]:
            corpus.write(corpus.STORED / name, [path.read_bytes()])
            path.unlink()
            print(f"  {path.name} is mended, its input is stored")


def run_engine(outcome: Outcome, seconds: float) -> None:
    log = corpus.WORK / outcome.name / "log"
    _, text = python("fuzz.engine", outcome.name, f"-max_total_time={max(1, int(seconds))}")
    log.write_text(text)
    found = {what: pattern.findall(text) for what, pattern in FIGURES.items()}
    if not found["executions"]:
        raise NotRun(f"{outcome.name} did not run:\n{text[-2000:]}")
    outcome.executions += int(found["executions"][-1])
    outcome.coverage = max([outcome.coverage, *map(int, found["coverage"])])


def python(module: str, *arguments: str, seconds: float | None = None) -> tuple[bool, str]:
    """Run one of our modules; returns whether it succeeded, and what it printed."""
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
            check=False, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, "it takes too long"
    return done.returncode == 0, done.stdout


def table(outcomes: list[Outcome]) -> str:
    lines = [f"{'target':12} {'executions':>11} {'exec/s':>7} {'coverage':>8} {'new':>5} findings"]
    lines += [
        f"{o.name:12} {o.executions:11} {o.executions / max(o.seconds, 1):7.0f} "
        f"{o.coverage:8} {o.new:5} {len(o.findings)}"
        for o in outcomes
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
