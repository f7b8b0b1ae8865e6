"""The identity and the outcome of a transaction, as every layer names them."""

import enum
from typing import NamedTuple


class TxnId(NamedTuple):
    """A transaction: `most` is the number of its coordinator, `least` counts up there (PIP-31)."""

    most: int
    least: int

    def __str__(self) -> str:
        return f"({self.most},{self.least})"


class Outcome(enum.Enum):
    """How a transaction ends; the values are those of TxnAction in the protocol."""

    COMMIT = 0
    ABORT = 1
