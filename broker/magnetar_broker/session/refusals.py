"""Commands of features that are not built: each gets the answer of a Pulsar without them."""

from typing import Any

from magnetar_broker.errors import NotAllowed
from magnetar_broker.session.session import Session


async def on_transaction(session: Session, command: Any) -> None:
    """As with transactionCoordinatorEnabled=false."""
    raise NotAllowed(
        "transactions are not supported on this broker (transactionCoordinatorEnabled)"
    )
