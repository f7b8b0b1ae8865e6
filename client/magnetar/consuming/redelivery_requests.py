"""The requests to redeliver messages of one partition."""

from collections.abc import Sequence
from typing import Any

from magnetar.connections.connection import Connection
from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.due_entries import Position
from magnetar.consuming.epochs import Epochs
from magnetar.consuming.queued_messages import QueuedMessages
from magnetar.consuming.subscriber import Subscriber
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

MAX_IDS = 1000
"""The most entries in one command."""


class RedeliveryRequests:
    """Asks the broker for messages again; without a connection it will redeliver all anyway."""

    def __init__(
        self,
        subscriber: Subscriber[Any],
        ack_sender: AckSender,
        epochs: Epochs,
        queued: QueuedMessages[Any],
    ) -> None:
        self._id = subscriber.id
        self._partition = subscriber.partition
        self._registration = subscriber.registration
        self._ack_sender = ack_sender
        self._epochs = epochs
        self._queued = queued

    def entries(self, positions: Sequence[Position]) -> None:
        """Request the redelivery of these entries."""
        for first in range(0, len(positions), MAX_IDS):
            connection = self._open_connection()
            if connection is None:
                return
            command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
            for ledger, entry in positions[first : first + MAX_IDS]:
                command.message_ids.add(ledgerId=ledger, entryId=entry, partition=self._partition)
            connection.write(encode(command))

    def all(self) -> None:
        """Request the redelivery of all unacknowledged messages, and drop the queued ones."""
        connection = self._open_connection()
        if connection is None:
            return
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=self._id)
        # promise[raise_epoch() -> epoch]: a redelivery raises the epoch
        epoch = self._epochs.raise_epoch()
        if epoch is not None:
            command.consumer_epoch = epoch
        dropped = self._queued.drop()
        connection.write(encode(command))
        self._queued.permits.left_out(dropped)

    def _open_connection(self) -> Connection | None:
        """Return the connection, after the acknowledgements: their messages are not redelivered."""
        connection = self._registration.connection
        if connection is None or not connection.is_open:
            return None
        # promise: acknowledgements go before the request to deliver again
        self._ack_sender.send_again()
        return connection
