"""What a section of the settings is."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def section(declarations: type[T]) -> type[T]:
    """Fields for `Settings` to inherit; without methods, which would be made at every start."""
    make = dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False, match_args=False)
    return make(declarations)
