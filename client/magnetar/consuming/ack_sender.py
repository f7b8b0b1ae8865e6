"""Sends the acknowledgements of one partition in groups, until the broker has confirmed them."""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from magnetar.base.errors import MagnetarError, OperationTimeout
from magnetar.base.log_fields import about
from magnetar.clock import Timer
from magnetar.connections.connection import Connection
from magnetar.consuming.ack_tracker import Ack, AckEnd
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.transaction_acks import MAX_ACKS
from magnetar.consuming.unconfirmed_acks import SentAcks, UnconfirmedAcks
from magnetar.messages import Message
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.ids import MessageId

logger = logging.getLogger(__name__)


class AckSender:
    """Collects acknowledgements, and sends them `ack_delay_ms` after the first, or when many wait.

    An acknowledgement that the broker does not answer is sent again: after `ack_resend_s` on the
    same connection, and on the next connection after a loss.
    """

    def __init__(
        self, subscriber: Subscriber[Any], unconfirmed: UnconfirmedAcks, end: AckEnd
    ) -> None:
        self._registration = subscriber.registration
        self._id = subscriber.id
        self._delay_s = subscriber.options.ack_delay_ms / 1000
        self._resend_s = subscriber.options.ack_resend_s
        self._clock = subscriber.clock
        self._unconfirmed = unconfirmed
        self._tracker = unconfirmed.tracker
        self._unanswered = unconfirmed.unanswered
        self._end = end
        self._timer: Timer | None = None
        self._resend_timer: Timer | None = None
        self._error: MagnetarError | None = None

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages."""
        self._tracker.ack(messages)
        self._schedule()

    def ack_entries(self, positions: Iterable[tuple[int, int]]) -> None:
        """Acknowledge whole entries, with all messages in them."""
        for position in positions:
            self._tracker.ack_entry(position)
        self._schedule()

    def ack_id(self, message_id: MessageId) -> None:
        """Acknowledge the message of this id."""
        self._tracker.ack_id(message_id)
        self._schedule()

    def ack_up_to(self, message: Message) -> None:
        """Acknowledge all messages of the partition up to and including this one."""
        self._tracker.ack_up_to(message)
        self._schedule()

    def ack_up_to_id(self, message_id: MessageId) -> None:
        """Acknowledge all messages of the partition up to and including the one with this id."""
        self._tracker.ack_up_to_id(message_id)
        self._schedule()

    def ack_up_to_entry(self, position: tuple[int, int]) -> None:
        """Acknowledge all entries up to and including this one."""
        self._tracker.ack_up_to_entry(position)
        self._schedule()

    async def flush(self, timeout_s: float) -> None:
        """Wait until the broker has confirmed every acknowledgement; raise an error if not."""
        try:
            async with self._clock.timeout(timeout_s):
                # In a loop: a lost connection returns what is unanswered to the tracker.
                while self._tracker or self._unanswered:
                    await self._registration.ready()
                    self.send()
                    if self._unanswered:
                        await asyncio.wait(self._unanswered)
        except TimeoutError:
            refusal = self._registration.refusal
            raise OperationTimeout(
                f"{self._registration.topic}: acknowledgements were not confirmed within "
                f"{timeout_s:g} s; their messages may be delivered again"
                f"{'' if refusal is None else f'; the consumer is refused: {refusal}'}"
            ) from None
        # Raised by one `flush` only: acknowledgements after the refused ones may succeed.
        error, self._error = self._error, None
        if error is not None:
            raise error

    def send(self) -> None:
        """Send the collected acknowledgements, if there is a connection."""
        self._cancel_timer()
        if self._registration.connection is not None:
            self.send_on(self._registration.connection)

    def send_again(self) -> None:
        """Send all unconfirmed acknowledgements, ahead of later commands."""
        self._send_unanswered()
        # Messages may already be on their way again that are acknowledged only now.
        self._end.possibly_lost(self._tracker.collected()[0])
        self.send()

    def stop(self) -> None:
        """Cancel the timers: from now on nothing is sent unless `send` is called."""
        self._cancel_timer()
        if self._resend_timer is not None:
            self._resend_timer.cancel()
            self._resend_timer = None

    def detached(self) -> None:
        """Stop waiting for answers: a broker answers no ACK of a consumer that it has closed."""
        for answer in list(self._unanswered):
            answer.cancel()
        for acks in self._unconfirmed.in_transactions:
            acks.detached()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        if len(self._tracker) >= MAX_ACKS:
            self.send()
        elif self._timer is None:
            self._timer = self._clock.later(self._delay_s, self.send)

    def send_on(self, connection: Connection) -> None:
        """Send the collected acknowledgements on this connection."""
        if not connection.is_open:
            return  # they stay in the tracker, and are sent after the next registration
        cumulative = self._tracker.take_cumulative()
        if cumulative is not None:
            self._send(connection, pb.CommandAck.Cumulative, [cumulative])
        acks = self._tracker.take()
        for first in range(0, len(acks), MAX_ACKS):
            self._send(connection, pb.CommandAck.Individual, acks[first : first + MAX_ACKS])

    def _send(self, connection: Connection, kind: int, acks: list[Ack]) -> None:
        request_id, answer = connection.expect()
        frame = encode_ack(self._id, kind, acks, request_id)
        is_cumulative = kind == pb.CommandAck.Cumulative
        sent = SentAcks(connection, acks, is_cumulative, frame, self._clock.now_s())
        self._unanswered[answer] = sent
        answer.add_done_callback(partial(self._answered, sent))
        connection.write(frame)
        if self._resend_timer is None:
            self._resend_timer = self._clock.later(self._resend_s, self._overdue)

    def _overdue(self) -> None:
        self._resend_timer = None
        self._send_unanswered(self._resend_s)
        # Answers that are done are about to be removed; a closed connection has no others.
        waiting = [sent.at_s for answer, sent in self._unanswered.items() if not answer.done()]
        if waiting:
            self._resend_timer = self._clock.at(min(waiting) + self._resend_s, self._overdue)

    def _send_unanswered(self, for_s: float = 0.0) -> None:
        """Send again, unchanged, each ACK that has had no answer for `for_s`: any answer counts."""
        now_s = self._clock.now_s()
        for answer, sent in self._unanswered.items():
            if sent.at_s + for_s > now_s or answer.done() or not sent.connection.is_open:
                continue
            sent.at_s = now_s
            if not sent.is_cumulative:
                # The broker may have redelivered these before it gets this copy.
                self._end.possibly_lost(sent.acks)
            # promise: an acknowledgement without answer is sent again
            sent.connection.write(sent.frame)

    def _answered(self, sent: SentAcks, answer: asyncio.Future[Any]) -> None:
        del self._unanswered[answer]
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or (error is not None and not sent.connection.is_open):
            # The broker may have stored it or not: send it over the next connection, and drop its
            # messages if they are delivered before.
            if not sent.is_cumulative:
                self._end.possibly_lost(sent.acks)
            self._tracker.restore(sent.acks, is_cumulative=sent.is_cumulative)
        elif error is None:
            self._end.acked(sent.acks, sent.is_cumulative)
        else:
            topic = self._registration.topic
            fields = about(topic=topic, subscription=self._end.subscription)
            logger.warning("%s refused an acknowledgement: %s", topic, error, extra=fields)
            self._end.refused(sent.acks, sent.is_cumulative)
            if isinstance(error, MagnetarError):
                self._error = error
