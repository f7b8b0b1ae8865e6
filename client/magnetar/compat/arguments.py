"""Checks of arguments by the annotations of their function, as the official client makes them."""

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from magnetar.compat.checks import check


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Check the types of arguments; ValueError names the first argument of a wrong type.

    Functions, and values of any type, are not checked.
    """
    for name, kinds in _kinds_of(function).items():
        check(kinds, given[name], name)


@cache
def _kinds_of(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    found = {}
    for name, annotation in get_type_hints(function).items():
        is_union = get_origin(annotation) in (Union, UnionType)
        parts = get_args(annotation) if is_union else (annotation,)
        kinds = tuple(get_origin(part) or part for part in parts)
        if name != "return" and not any(kind in _UNCHECKED for kind in kinds):
            found[name] = kinds
    return found


_UNCHECKED: Final[tuple[object, ...]] = (Any, Callable)
