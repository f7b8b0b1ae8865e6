"""Messages and ends of transactions, as clients and coordinators send them to a fake broker."""

from typing import Any

from fakes.sessions import TOPIC, Client, SessionWorld, produce, subscribe
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import metadata, send_frame

COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT


def in_transaction(
    txn: TxnId, sequence_id: int, payload: bytes, producer_id: int = 1, **fields: Any
) -> bytes:
    """Return a SEND of a message of a transaction."""
    own = metadata(sequence_id)
    own.txnid_most_bits, own.txnid_least_bits = txn
    bits = {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
    return send_frame(sequence_id, payload, producer_id, own, **bits, **fields)


def end_on_partition(
    request_id: int, txn: TxnId, outcome: Outcome, topic: str = TOPIC, **fields: Any
) -> pb.CommandEndTxnOnPartition:
    """Return an END_TXN_ON_PARTITION."""
    return pb.CommandEndTxnOnPartition(
        request_id=request_id,
        txnid_most_bits=txn.most,
        txnid_least_bits=txn.least,
        topic=topic,
        txn_action=outcome.name,
        **fields,
    )


def end_on_subscription(
    request_id: int,
    txn: TxnId,
    outcome: Outcome,
    subscription: str = "sub",
    topic: str = TOPIC,
    **fields: Any,
) -> pb.CommandEndTxnOnSubscription:
    """Return an END_TXN_ON_SUBSCRIPTION."""
    return pb.CommandEndTxnOnSubscription(
        request_id=request_id,
        txnid_most_bits=txn.most,
        txnid_least_bits=txn.least,
        subscription=pb.Subscription(topic=topic, subscription=subscription),
        txn_action=outcome.name,
        **fields,
    )


async def none_has_ended(most: int, leasts: list[int]) -> list[int]:
    """Answer as coordinators that have all transactions of the test."""
    return []


class Publishing:
    """A producer of a topic."""

    def __init__(self, world: SessionWorld) -> None:
        self.world = world
        self.client = world.client()
        self.client.ask(produce(1))
        self._next = 0
        self._requests = 100

    def send(self, payload: bytes, txn: TxnId | None = None) -> Any:
        """Send one message, and return the answer."""
        number = self._next
        self._next += 1
        frame = send_frame(number, payload) if txn is None else in_transaction(txn, number, payload)
        self.client.send_bytes(frame)
        (answer,) = self.client.received()
        return answer

    def end(self, txn: TxnId, outcome: Outcome, **fields: Any) -> None:
        """End a transaction on this topic; it must succeed."""
        self._requests += 1
        self.client.send(end_on_partition(self._requests, txn, outcome, **fields))
        (answer,) = [
            one
            for one in self.client.received()
            if isinstance(one, pb.CommandEndTxnOnPartitionResponse)
        ]
        assert not answer.HasField("error"), answer
        assert (answer.txnid_most_bits, answer.txnid_least_bits) == txn


class Reading:
    """A consumer with many permits."""

    def __init__(self, world: SessionWorld, permits: int = 1000, **fields: Any) -> None:
        self.client: Client = world.client()
        self.client.send(subscribe(1, **fields))
        assert any(isinstance(one, pb.CommandSuccess) for one in self.client.received())
        self.client.send(pb.CommandFlow(consumer_id=1, messagePermits=permits))

    def payloads(self) -> list[bytes]:
        """Return the payloads received since the last call."""
        return [payload for _, payload in self.client.delivered()]

    def last_id(self) -> tuple[int, int]:
        """Return the answer to GET_LAST_MESSAGE_ID."""
        self.client.send(pb.CommandGetLastMessageId(consumer_id=1, request_id=99))
        (answer,) = [
            one
            for one in self.client.received()
            if isinstance(one, pb.CommandGetLastMessageIdResponse)
        ]
        return answer.last_message_id.ledgerId, answer.last_message_id.entryId
