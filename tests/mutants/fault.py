"""What a fault is."""

from dataclasses import dataclass

MODEL = ("tests/broker/dispatch/test_dispatch_model.py",)


@dataclass(frozen=True)
class Fault:
    """A text that is right, and a wrong one; `file` and `tests` are paths in the repository."""

    file: str
    what: str
    old: str
    new: str
    tests: tuple[str, ...] = MODEL
