"""The type of the values of producers, consumers and messages: bytes without a schema."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers know the module everywhere; it is not needed at run time.
    from typing_extensions import TypeVar

    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    V = TypeVar("V")
