"""Transactions."""

from magnetar_broker.config.domains import COUNT, FLAG
from magnetar_broker.config.sections.section import section, setting


@section("Transactions")
class Transactions:
    """Settings for clients that publish and acknowledge in transactions."""

    transaction_coordinator_enabled: bool = setting(
        FLAG,
        "Serve transactions. If false, their commands are refused. Pulsar's default is false.",
        default=True,
    )
    max_active_transactions_per_coordinator: int = setting(
        COUNT,
        "Maximum number of transactions of a coordinator that have not ended; a further one "
        "is refused. 0 means no limit.",
        default=10_000,
        dynamic=True,
    )
