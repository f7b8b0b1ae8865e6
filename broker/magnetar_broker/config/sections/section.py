"""The decorator of classes that declare a section of the settings, and their fields."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from magnetar_broker.config.values import Key, ValueKind

T = TypeVar("T")


def setting(kind: ValueKind, meaning: str, *, default: T, name: str = "", **more: Any) -> T:
    """Declare a setting; the other arguments are those of `Key`.

    Its name in a file is `name`, or that of the field in camel case.
    """
    declared: T = field(default=default, metadata={"key": Key(name, kind, meaning, **more)})
    return declared


TITLES: dict[type, str] = {}
"""The title of each section."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def section(title: str) -> Callable[[type[T]], type[T]]:
    """Make fields for `Settings` to inherit; without methods, whose creation slows every start."""
    make = dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False, match_args=False)

    def made(declarations: type[T]) -> type[T]:
        TITLES[declarations] = title
        return make(declarations)

    return made
