"""Declarations for the compiler in modules that can be compiled; without effect on source."""

from collections.abc import Callable
from typing import TypeVar

try:
    from mypy_extensions import mypyc_attr
except ImportError:  # it comes with the compiler, and compiled modules do not use it
    T = TypeVar("T")

    def mypyc_attr(  # type: ignore[misc]
        *, acyclic: bool = False, allow_interpreted_subclasses: bool = False
    ) -> Callable[[T], T]:
        """`acyclic`: instances are in no reference cycle, so the garbage collector skips them.

        `allow_interpreted_subclasses`: modules that are not compiled may have subclasses.
        """
        return lambda cls: cls


__all__ = ["mypyc_attr"]
