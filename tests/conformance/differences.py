"""Where a trace goes otherwise than in the original, and why, in one line each.

`@differs(REASON)` on a trace compares it with Magnetar's own transcript instead.  The tables in
docs/differences.md are made of these lines by `make docs`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Script = TypeVar("Script", bound=Callable[..., Any])


class Difference(NamedTuple):
    """What differs, and what each of the two does."""

    what: str
    pulsar: str
    magnetar: str
    on_purpose: bool = True
    """False: not built yet."""


def differs(difference: Difference) -> Callable[[Script], Script]:
    """Mark a trace."""

    def mark(script: Script) -> Script:
        script.__dict__["difference"] = difference
        return script

    return mark


def difference_of(script: Callable[..., Any]) -> Difference | None:
    """Why a trace differs; None if it does not."""
    return getattr(script, "difference", None)
