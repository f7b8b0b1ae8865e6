"""Commands of transactions, which this broker does not support."""

from typing import Any

from magnetar_broker.base.errors import NotAllowed
from magnetar_broker.session.refusals import NO_TRANSACTIONS
from magnetar_broker.session.session import Session


async def on_transaction(session: Session, command: Any) -> None:
    """Refuse, as a Pulsar broker does with transactionCoordinatorEnabled=false."""
    raise NotAllowed(NO_TRANSACTIONS)
