"""The transaction coordinators of a cluster: their brokers, and requests to them."""

import itertools
from typing import Any

from magnetar.base.errors import (
    ConnectionLost,
    MagnetarError,
    NotAllowed,
    NotFound,
    NotReady,
    OperationTimeout,
    TransactionOver,
    broker_error,
)
from magnetar.base.settings import Settings
from magnetar.connections.connection import Connection
from magnetar.connections.lookup import find_broker
from magnetar.connections.pool import Pool
from magnetar.connections.retry import Retry
from magnetar_proto import PulsarApi_pb2 as pb

ASSIGNMENT = "persistent://pulsar/system/transaction_coordinator_assign"
"""The topic whose owners are coordinators: each broker for the partitions that it owns."""


class Coordinators:
    """Sends the requests of a client's transactions; new transactions rotate over coordinators."""

    def __init__(self, pool: Pool, settings: Settings) -> None:
        self._pool = pool
        self._settings = settings
        self._turns = itertools.count()
        self._number = 0
        self._connected: dict[int, Connection] = {}

    async def ask_next(self, command: pb.CommandNewTxn) -> pb.CommandNewTxnResponse:
        """Ask the next coordinator in turn; NotAllowed if the cluster has no coordinators."""

        async def attempt() -> pb.CommandNewTxnResponse:
            if not self._number:
                self._number = await self._count()
            command.tc_id = next(self._turns) % self._number
            return await self._attempt(command.tc_id, command)  # type: ignore[no-any-return]

        return await Retry(self._settings).in_time(attempt, "beginning a transaction")

    async def ask(self, coordinator: int, command: Any, what: str) -> Any:
        """Return the answer of this coordinator to a repeatable command; may raise BrokerError."""
        return await Retry(self._settings).in_time(
            lambda: self._attempt(coordinator, command), what
        )

    async def end(self, coordinator: int, command: pb.CommandEndTxn, what: str) -> None:
        """Commit or abort a transaction.

        TransactionOver if it has ended before; OperationTimeout if the outcome is unknown.
        """
        lost: MagnetarError | None = None

        async def attempt() -> None:
            nonlocal lost
            try:
                await self._attempt(coordinator, command)
            except (ConnectionLost, OperationTimeout) as error:
                lost = error
                raise

        try:
            await Retry(self._settings).in_time(attempt, what)
        except TransactionOver as error:
            if lost is None:
                raise
            raise OperationTimeout(
                f"{what}: the first answer was lost ({lost}), and the coordinator no longer "
                "knows the transaction; whether it was committed is unknown"
            ) from error

    async def _attempt(self, coordinator: int, command: Any) -> Any:
        connection = await self._connection(coordinator)
        try:
            return _checked(await connection.request(command))
        except NotReady:
            self._connected.pop(coordinator, None)  # the coordinator has moved, or is being opened
            raise

    async def _connection(self, coordinator: int) -> Connection:
        """Return a connection to the coordinator's broker after the coordinator was loaded."""
        known = self._connected.get(coordinator)
        if known is not None and known.is_open:
            return known
        connection = await find_broker(self._pool, f"{ASSIGNMENT}-partition-{coordinator}")
        _checked(await connection.request(pb.CommandTcClientConnectRequest(tc_id=coordinator)))
        self._connected[coordinator] = connection
        return connection

    async def _count(self) -> int:
        connection = await self._pool.service()
        reply: pb.CommandPartitionedTopicMetadataResponse = await connection.request(
            pb.CommandPartitionedTopicMetadata(
                topic=ASSIGNMENT, metadata_auto_creation_enabled=False
            )
        )
        if reply.response == pb.CommandPartitionedTopicMetadataResponse.Failed:
            error = broker_error(reply.error, reply.message)
            if not isinstance(error, NotFound):
                raise error
        if not reply.partitions:
            raise NotAllowed(
                pb.NotAllowedError,
                f"{connection.address} has no transaction coordinators: set "
                "transactionCoordinatorEnabled=true in the configuration of the broker",
            )
        return reply.partitions


def _checked(reply: Any) -> Any:
    """Return the answer of a coordinator; raise an error if it is a refusal."""
    if reply.HasField("error"):
        raise broker_error(reply.error, reply.message)
    return reply
