"""Passes the commands of transactions to their coordinators.

A refusal is a field of the answer to the command, unless transactions are off.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from magnetar_broker.base.errors import (
    NotAllowed,
    NotReady,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from magnetar_broker.base.transaction_ids import NO_TRANSACTIONS, Outcome
from magnetar_broker.session.refusals import refusal_of
from magnetar_broker.session.session import Session
from magnetar_broker.transactions.coordinator import Coordinator
from magnetar_broker.transactions.records import Participant
from magnetar_proto import PulsarApi_pb2 as pb


async def on_connect_coordinator(
    session: Session, command: pb.CommandTcClientConnectRequest
) -> None:
    """Load a coordinator in this process; `NotReady` if another process serves it."""
    _check_on(session)
    answer = pb.CommandTcClientConnectResponse(request_id=command.request_id)
    try:
        await session.broker.coordinators.of(command.tc_id)
    except Exception as error:
        refusal = refusal_of(error)
        answer.error, answer.message = refusal.code, str(refusal)
    session.reply(answer)


async def on_new_transaction(session: Session, command: pb.CommandNewTxn) -> None:
    """Begin a transaction."""
    _check_on(session)
    answer = pb.CommandNewTxnResponse(request_id=command.request_id, txnid_most_bits=command.tc_id)

    async def begin() -> None:
        coordinator = await session.broker.coordinators.of(command.tc_id)
        session.check_open()  # promise: no transaction begins for a client that has left
        limit = session.broker.settings.max_active_transactions_per_coordinator
        txn = await coordinator.begin(command.txn_ttl_millis, session.app_id or "", limit)
        answer.txnid_least_bits = txn.least

    await _answered(session, answer, begin())


async def on_add_partitions(session: Session, command: pb.CommandAddPartitionToTxn) -> None:
    """Add topics to a transaction, which will publish messages to them."""
    parts = [Participant(topic) for topic in command.partitions]
    await _of_transaction(
        session,
        command,
        pb.CommandAddPartitionToTxnResponse,
        lambda coordinator: coordinator.add(command.txnid_least_bits, parts),
    )


async def on_add_subscriptions(session: Session, command: pb.CommandAddSubscriptionToTxn) -> None:
    """Add subscriptions to a transaction, which will acknowledge messages of them."""
    parts = [Participant(one.topic, one.subscription) for one in command.subscription]
    await _of_transaction(
        session,
        command,
        pb.CommandAddSubscriptionToTxnResponse,
        lambda coordinator: coordinator.add(command.txnid_least_bits, parts),
    )


def refuse_add_partitions(
    session: Session, command: pb.CommandAddPartitionToTxn, error: Exception
) -> None:
    """Answer with the refusal for an error; a defect is raised again."""
    _refuse(session, command, pb.CommandAddPartitionToTxnResponse, error)


def refuse_add_subscriptions(
    session: Session, command: pb.CommandAddSubscriptionToTxn, error: Exception
) -> None:
    """Answer with the refusal for an error; a defect is raised again."""
    _refuse(session, command, pb.CommandAddSubscriptionToTxnResponse, error)


def _refuse(session: Session, command: Any, response: Callable[..., Any], error: Exception) -> None:
    refusal = refusal_of(error)
    session.reply(
        response(
            request_id=command.request_id,
            txnid_least_bits=command.txnid_least_bits,
            txnid_most_bits=command.txnid_most_bits,
            error=refusal.code,
            message=str(refusal),
        )
    )


async def on_end_transaction(session: Session, command: pb.CommandEndTxn) -> None:
    """Commit or abort a transaction; answered when it has ended everywhere."""
    outcome = Outcome(command.txn_action)
    await _of_transaction(
        session,
        command,
        pb.CommandEndTxnResponse,
        lambda coordinator: coordinator.end(command.txnid_least_bits, outcome),
    )


async def _of_transaction(
    session: Session,
    command: Any,
    response: Callable[..., Any],
    work: Callable[[Coordinator], Awaitable[None]],
) -> None:
    """Do what a command asks for with a transaction that its role may use."""
    _check_on(session)
    most, least = command.txnid_most_bits, command.txnid_least_bits
    answer = response(request_id=command.request_id, txnid_least_bits=least, txnid_most_bits=most)

    async def authorized() -> None:
        coordinator = await session.broker.coordinators.of(most)
        _check_owner(session, coordinator, least)
        await work(coordinator)

    await _answered(session, answer, authorized())


def _check_owner(session: Session, coordinator: Coordinator, least: int) -> None:
    """Raise `TransactionNotFound` unless the client's role began it, or is a super-user."""
    rules = session.broker.access.rules
    if rules is None or session.roles is None or rules.are_super_users(session.roles.all):
        return
    # promise[coordinator.owner_of(least) not in (None, session.app_id) -> least < 0]: only its
    #   owner ends a transaction
    if coordinator.owner_of(least) not in (None, session.app_id):
        raise TransactionNotFound(
            f"role {session.app_id} is neither the owner of transaction "
            f"({coordinator.number},{least}) nor a super-user"
        )


async def _answered(session: Session, answer: Any, work: Awaitable[object]) -> None:
    """Answer when the work is done, or with the refusal for its error."""
    try:
        await work
    except Exception as error:
        refusal = refusal_of(error, TransactionCoordinatorNotFound)
        # promise[isinstance(refusal, NotReady) -> not refusal.args]: clients look up a coordinator
        #   that has moved
        if isinstance(refusal, NotReady):  # clients look a coordinator up again only after this:
            refusal = TransactionCoordinatorNotFound(str(refusal))
        answer.error, answer.message = refusal.code, str(refusal)
    session.reply(answer)


def _check_on(session: Session) -> None:
    if not session.broker.settings.transaction_coordinator_enabled:
        raise NotAllowed(NO_TRANSACTIONS)
