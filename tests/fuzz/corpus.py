"""The targets, their stored inputs, and choosing which inputs are worth storing."""

import sys
from collections.abc import Iterable, Iterator
from hashlib import sha1
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Protocol, cast

HERE: Final = Path(__file__).parent
STORED: Final = HERE / "corpus"
"""<target>/<hash>: in the repository, replayed by the tests."""
WORK: Final = HERE.parents[1] / ".cache" / "fuzz"
"""<target>/corpus and <target>/findings: of this checkout alone."""
PACKAGES: Final = ("magnetar_proto", "magnetar_storage", "magnetar_broker")
STORED_BYTES: Final = 64 << 10
"""Of one target."""

Arc = tuple[CodeType, int, int]
"""One line of a function after another."""


class Target(Protocol):
    """A module of `targets`: what is fed, and what must hold whatever that is."""

    LONGEST: int
    """Bytes of an input."""

    def run(self, data: bytes) -> None:
        """Any exception is a finding."""

    def seeds(self) -> Iterator[bytes]:
        """Inputs to begin with."""


def names() -> list[str]:
    return sorted(path.stem for path in (HERE / "targets").glob("*.py"))


def target(name: str) -> Target:
    return cast(Target, import_module(f"fuzz.targets.{name}"))


def stored(name: str) -> list[Path]:
    return sorted((STORED / name).glob("*"))


def file_name(data: bytes) -> str:
    return sha1(data, usedforsecurity=False).hexdigest()[:16]


def write(directory: Path, inputs: Iterable[bytes]) -> None:
    """Put inputs into a directory, named after what they are."""
    directory.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (directory / file_name(data)).write_bytes(data)


def prepare(name: str) -> None:
    """Put the seeds and what is stored to what is worked with."""
    (WORK / name / "findings").mkdir(parents=True, exist_ok=True)
    write(WORK / name / "corpus", target(name).seeds())
    write(WORK / name / "corpus", (path.read_bytes() for path in stored(name)))


def keep(name: str) -> int:
    """Store the fewest small inputs that reach all that is reached; returns how many are new.

    What is stored already stays: it may be there for a defect that was mended.
    """
    module = target(name)
    old = [path.read_bytes() for path in stored(name)]
    reached: set[Arc] = set()
    size = 0
    for data in old:
        reached |= arcs(module, data)
        size += len(data)
    found = {path.read_bytes() for path in (WORK / name / "corpus").glob("*")}
    chosen = []
    for data in sorted(found | set(module.seeds()), key=lambda data: (len(data), data)):
        if size + len(data) > STORED_BYTES or len(data) > module.LONGEST:
            continue
        new = arcs(module, data) - reached
        if new:
            reached |= new
            size += len(data)
            chosen.append(data)
    write(STORED / name, chosen)
    return len(chosen)


def arcs(module: Target, data: bytes) -> set[Arc]:
    """Which lines of ours follow each other when the input is run; none if it fails."""
    found: set[Arc] = set()

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if not frame.f_globals.get("__name__", "").startswith(PACKAGES):
            return None
        code, last = frame.f_code, 0

        def line(frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal last
            found.add((code, last, frame.f_lineno))
            last = frame.f_lineno
            return line

        return line

    sys.settrace(trace)
    try:
        module.run(data)
    except Exception:  # a finding: not one to store before it is mended
        return set()
    finally:
        sys.settrace(None)
    return found
