"""The decorator of classes that declare a section of the settings."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def section(declarations: type[T]) -> type[T]:
    """Make fields for `Settings` to inherit; without methods, whose creation slows every start."""
    make = dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False, match_args=False)
    return make(declarations)
