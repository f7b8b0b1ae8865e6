"""Checks for Avro definitions whose data would be dangerous to decode."""

from typing import Any


def check(parsed: Any) -> bool:
    """Tell whether a type contains itself; ValueError for arrays whose items have no bytes.

    A few bytes could announce such an array with more items than fit into memory.
    """
    walk = _Walk()
    walk.may_be_empty(parsed)
    return walk.is_recursive


class _Walk:
    """Traverses a definition parsed by fastavro, in which all names are full names."""

    def __init__(self) -> None:
        self.is_recursive = False
        self._empty: dict[str, bool] = {}
        """Whether values of a type may have no bytes, by the name of the type."""
        self._open: set[str] = set()

    def may_be_empty(self, kind: Any) -> bool:
        """Tell whether values of a type may have no bytes."""
        if isinstance(kind, list):
            for branch in kind:
                self.may_be_empty(branch)
            return False
        if isinstance(kind, dict):
            return self._complex(kind)
        self.is_recursive = self.is_recursive or kind in self._open
        return kind == "null" or self._empty.get(kind, False)

    def _complex(self, kind: dict[str, Any]) -> bool:
        name = kind["type"]
        if name in ("record", "error"):
            self._open.add(kind["name"])
            sized = [self.may_be_empty(field["type"]) for field in kind["fields"]]
            empty = all(sized)
            self._open.remove(kind["name"])
            self._empty[kind["name"]] = empty
            return empty
        if name == "array":
            if self.may_be_empty(kind["items"]):
                raise ValueError("arrays of items without bytes cannot be decoded safely")
            return False
        if name == "map":
            self.may_be_empty(kind["values"])
            return False
        if name == "enum":
            return False
        if name == "fixed":
            self._empty[kind["name"]] = not kind["size"]
            return not kind["size"]
        return self.may_be_empty(name)
