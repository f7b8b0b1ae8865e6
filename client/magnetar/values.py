"""The type of the values that producers, consumers and messages have: bytes without a schema."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers know it everywhere; the module itself is not needed at run time.
    from typing_extensions import TypeVar

    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    V = TypeVar("V")
