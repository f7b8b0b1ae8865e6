"""The form of the modules in this process: compiled (`make compiled`, wheels) or pure Python."""

from importlib.util import find_spec
from typing import Final


def _is_compiled() -> bool:
    """Return whether Python finds extension modules instead of sources; imports none of them."""
    spec = find_spec(f"{__package__}.frames")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


COMPILED: Final = _is_compiled()
KIND: Final = "compiled" if COMPILED else "pure Python"
