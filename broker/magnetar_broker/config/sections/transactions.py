"""Transactions."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Key


@section
class Transactions:
    """Settings for clients that publish and acknowledge in transactions."""

    transaction_coordinator_enabled: Annotated[
        bool,
        Key(
            "transactionCoordinatorEnabled",
            FLAG,
            "Serve transactions. If false, their commands are refused. Pulsar's default is false.",
        ),
    ] = True
    max_active_transactions_per_coordinator: Annotated[
        int,
        Key(
            "maxActiveTransactionsPerCoordinator",
            COUNT,
            "Maximum number of transactions of a coordinator that have not ended; a further one "
            "is refused. 0 means no limit.",
            dynamic=True,
        ),
    ] = 10_000
