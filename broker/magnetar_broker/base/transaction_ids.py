"""The identity and the outcome of a transaction, as every layer names them."""

import enum
from typing import Final, NamedTuple

from magnetar_proto.names import TopicName

COORDINATORS: Final = TopicName.parse("persistent://pulsar/system/transaction_coordinator_assign")
"""The topic of coordinators: the process that serves a partition of it runs that coordinator."""
FIRST_COORDINATORS: Final = 16
"""The number of coordinators of a new cluster."""


NO_TRANSACTIONS: Final = (
    "transactions are not supported on this broker (transactionCoordinatorEnabled=false)"
)


class TxnId(NamedTuple):
    """A transaction: `most` is the number of its coordinator, `least` counts up there (PIP-31)."""

    most: int
    least: int

    def __str__(self) -> str:
        return f"({self.most},{self.least})"


class Outcome(enum.Enum):
    """The ways in which a transaction ends, with the values of TxnAction in the protocol."""

    COMMIT = 0
    ABORT = 1
