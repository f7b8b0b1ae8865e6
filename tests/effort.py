"""How long a test without a natural end runs: examples of Hypothesis, seeds, kills.

Tests state the numbers of `make test-nightly`; `pytest --effort` takes a part of them:

    fast     a twentieth: `make test-fast` and `make test`
    default  a third: `make test-all`
    all      all of them: `make test-nightly`

What a test enumerates completely (every operation of a history, every byte of a file) is complete
with `default` and `all`; `fast` may take every n-th only.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PARTS: Final = {"fast": 20, "default": 3, "all": 1}
"""What the stated numbers are divided by."""

FEW: Final = 5
"""Examples and seeds that are always tried."""

_level = "default"


def choose(level: str) -> None:
    """Set the effort of this process; called once, before tests are collected."""
    global _level  # noqa: PLW0603  (decorators of tests read it while their modules are imported)
    if level not in PARTS:
        raise ValueError(f"effort {level!r}: expected one of {', '.join(PARTS)}")
    _level = level


def part_of(full: int, least: int = FEW) -> int:
    """A part of `full` by the chosen effort, at least `least` where `full` is that many."""
    return max(full // PARTS[_level], min(full, least))


def examples(full: int) -> int:
    """Examples of Hypothesis: `@settings(max_examples=examples(300))`."""
    return part_of(full)


def seeds(full: int, least: int = FEW) -> range:
    """Seeds to be parametrized over, so that the name of a failed test has its seed."""
    return range(part_of(full, least))


def parts(full: int) -> range:
    """Parts of an enumeration, one a test case: all of them, but the first one alone if fast."""
    return range(1 if _level == "fast" else full)


def some(enumerated: Sequence[T], nth: int = 4) -> Sequence[T]:
    """Return what a test enumerates: all of it, but every `nth` one if fast."""
    return enumerated[:: nth if _level == "fast" else 1]
