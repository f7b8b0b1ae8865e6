"""Sends the acknowledgements of one partition, in groups, until the broker has confirmed them."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from magnetar.acks import Ack, AckTracker
from magnetar.attachment import Attachment
from magnetar.connection import Connection
from magnetar.errors import MagnetarError, OperationTimeout
from magnetar.messages import Message
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.ids import MessageId

logger = logging.getLogger(__name__)

MAX_ACKS = 1000
"""Entries acknowledged by one command; as many waiting are sent at once."""


class Acknowledging:
    """Collects acknowledgements and sends them `delay_s` after the first, or when they are many.

    Those whose answer was lost with a connection are sent again on the next one.
    `confirmed(acks, is_cumulative)` is called when the broker has answered.
    """

    def __init__(
        self,
        attachment: Attachment,
        consumer_id: int,
        delay_s: float,
        tracker: AckTracker,
        confirmed: Callable[[list[Ack], bool], None],
    ) -> None:
        self._attachment = attachment
        self._id = consumer_id
        self._delay_s = delay_s
        self._tracker = tracker
        self._confirmed = confirmed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._unconfirmed: set[asyncio.Future[Any]] = set()
        self._error: MagnetarError | None = None

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages."""
        self._tracker.ack(messages)
        self._schedule()

    def ack_entries(self, positions: Iterable[tuple[int, int]]) -> None:
        """Acknowledge whole entries, whatever they hold."""
        for position in positions:
            self._tracker.ack_entry(position)
        self._schedule()

    def ack_id(self, message_id: MessageId) -> None:
        """Acknowledge the message of this id."""
        self._tracker.ack_id(message_id)
        self._schedule()

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge everything up to the message, itself included."""
        self._tracker.ack_up_to(message)
        self._schedule()

    def ack_up_to_id(self, message_id: MessageId) -> None:
        """Acknowledge everything up to the message of this id, itself included."""
        self._tracker.ack_up_to_id(message_id)
        self._schedule()

    def ack_up_to_entry(self, position: tuple[int, int]) -> None:
        """Acknowledge everything up to the entry, itself included."""
        self._tracker.ack_up_to_entry(position)
        self._schedule()

    async def flush(self, timeout_s: float) -> None:
        """Wait until the broker confirmed every acknowledgement; raises if it refused one."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._tracker or self._unconfirmed:
                    await self._attachment.ready()
                    self.send()
                    if self._unconfirmed:
                        await asyncio.wait(self._unconfirmed)
        except TimeoutError:
            raise OperationTimeout(
                f"{self._attachment.topic}: acknowledgements were not confirmed within "
                f"{timeout_s:g} s; their messages may be delivered again"
            ) from None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def send(self) -> None:
        """Send what has been collected, if there is a connection."""
        self.stop()
        if self._attachment.connection is not None:
            self.send_on(self._attachment.connection)

    def stop(self) -> None:
        """Send nothing by itself until the next acknowledgement."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def detached(self) -> None:
        """A broker answers no ACK for a consumer that it has closed: they are sent again."""
        for answer in list(self._unconfirmed):
            answer.cancel()

    def begin_anew(self) -> None:
        """The broker will deliver again what is not acknowledged."""
        self._tracker.begin_anew()

    def _schedule(self) -> None:
        if len(self._tracker) >= MAX_ACKS:
            self.send()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._delay_s, self.send)

    def send_on(self, connection: Connection) -> None:
        """Send what has been collected on this connection."""
        if not connection.is_open:
            return
        cumulative = self._tracker.take_cumulative()
        if cumulative is not None:
            self._send(connection, pb.CommandAck.Cumulative, [cumulative])
        acks = self._tracker.take()
        for first in range(0, len(acks), MAX_ACKS):
            self._send(connection, pb.CommandAck.Individual, acks[first : first + MAX_ACKS])

    def _send(self, connection: Connection, kind: int, acks: list[Ack]) -> None:
        request_id, answer = connection.expect()
        self._unconfirmed.add(answer)
        answer.add_done_callback(lambda done: self._answered(connection, kind, acks, done))
        connection.write(encode_ack(self._id, kind, acks, request_id))

    def _answered(
        self, connection: Connection, kind: int, acks: list[Ack], answer: asyncio.Future[Any]
    ) -> None:
        self._unconfirmed.discard(answer)
        is_cumulative = kind == pb.CommandAck.Cumulative
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or (error is not None and not connection.is_open):
            self._tracker.restore(acks, is_cumulative=is_cumulative)
        elif error is None:
            self._confirmed(acks, is_cumulative)
        else:
            logger.warning("%s refused an acknowledgement: %s", self._attachment.topic, error)
            if isinstance(error, MagnetarError):
                self._error = error
