"""ACK commands, and the answers to those that ask for one.

Apart from `Session`, whose coroutines handle exceptions, so that it can be compiled.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from magnetar_broker.base.errors import BrokerError, PersistenceError, as_refusal
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.session.handle_table import HandleTable
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import Ack, decode_ack
from magnetar_proto.commands import NO_REQUEST

logger = logging.getLogger(__name__)


class Acks:
    """The acknowledgements of one connection."""

    __slots__ = ("_address", "_consumers", "_reply")

    def __init__(
        self, address: str, consumers: HandleTable[Consumer], reply: Callable[[Any], None]
    ) -> None:
        """`reply` queues one command."""
        self._address = address
        self._consumers = consumers
        self._reply = reply

    def receive(self, buf: bytes, start: int, mid: int) -> None:
        """Handle one ACK.  For a consumer that is not open it has no effect, as in Pulsar."""
        ack = decode_ack(buf, start, mid)
        consumer = self._consumers.get(ack.consumer_id)
        if consumer is None:
            return
        if ack.validation_error is not None:
            why = pb.CommandAck.ValidationError.Name(
                pb.CommandAck.ValidationError.ValueType(ack.validation_error)
            )
            logger.warning("%s could not read %s: %s", self._address, ack.message_ids, why)
        if ack.txn is not None:
            self._acknowledge_in(TxnId(*ack.txn), consumer, ack)
        elif ack.request_id is None:
            consumer.subscription.acks.acknowledge(consumer, ack, None)
        else:
            consumer.subscription.acks.acknowledge(consumer, ack, partial(self._answer, ack))

    def _acknowledge_in(self, txn: TxnId, consumer: Consumer, ack: Ack) -> None:
        done = None if ack.request_id is None else partial(self._answer, ack)
        try:
            consumer.subscription.acks.acknowledge_in(txn, consumer, ack, done)
        except BrokerError as refusal:
            self._refuse(ack, refusal)

    def _refuse(self, ack: Ack, refusal: BrokerError) -> None:
        """Tell the client that nothing is acknowledged.

        Without a request id no answer can be matched to the ACK.  It gets an ERROR that answers no
        request, which clients log.
        """
        if ack.request_id is not None:
            self._answer(ack, refusal)
        else:
            error = pb.CommandError(request_id=NO_REQUEST, error=refusal.code, message=str(refusal))
            self._reply(error)

    def _answer(self, ack: Ack, error: BaseException | None) -> None:
        answer = pb.CommandAckResponse(consumer_id=ack.consumer_id, request_id=ack.request_id)
        if error is not None:
            # promise[without as_refusal(error) or]: an acknowledgement that a process ended is
            #   refused as transient
            refusal = as_refusal(error) or PersistenceError(str(error))
            answer.error, answer.message = refusal.code, str(refusal)
        self._reply(answer)
