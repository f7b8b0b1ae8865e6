"""Steps of a trace in which a client uses transactions.

They need brokers that are started with `SETTINGS`; `prepare` waits until coordinator 0 is served.
"""

from typing import Final, NamedTuple

from conformance.trace import ATTEMPTS, INDIVIDUAL, Ids, Kind, Peer, Target, Trace
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import metadata

SETTINGS: Final = {"transactionCoordinatorEnabled": "true", "systemTopicEnabled": "true"}
COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
TTL_MS: Final = 60_000


class Txn(NamedTuple):
    """The id of a transaction, with the names that commands have for its parts."""

    txnid_most_bits: int
    txnid_least_bits: int


NOBODYS: Final = Txn(0, 1 << 40)
"""Of a coordinator that exists, and has never begun it."""
OF_NO_COORDINATOR: Final = Txn(98, 1)


def prepare(target: Target) -> None:
    """Have coordinator 0 served; it may take a broker that has just started some attempts."""
    trace = Trace(target)
    peer = trace.connects()
    for _ in range(ATTEMPTS):
        peer.looks_up(f"{COORDINATORS}-partition-0")
        peer.asks(pb.CommandTcClientConnectRequest(request_id=0, tc_id=0))
        begun = peer.asks(pb.CommandNewTxn(request_id=0, txn_ttl_millis=1))
        if isinstance(begun, pb.CommandNewTxnResponse) and not begun.HasField("error"):
            trace.breaks_off()
            return
    raise AssertionError("coordinator 0 is not served:\n" + "\n".join(trace.lines))


def begins(peer: Peer, ttl_ms: int = TTL_MS) -> Txn:
    """NEW_TXN."""
    begun = peer.asks(pb.CommandNewTxn(request_id=0, txn_ttl_millis=ttl_ms))
    return Txn(begun.txnid_most_bits, begun.txnid_least_bits)


def adds_topics(peer: Peer, txn: Txn, *topics: str) -> None:
    """ADD_PARTITION_TO_TXN, of the trace's topic by default."""
    partitions = topics or (peer.topic,)
    peer.asks(pb.CommandAddPartitionToTxn(request_id=0, **txn._asdict(), partitions=partitions))


def adds_subscription(peer: Peer, txn: Txn, subscription: str = "sub", topic: str = "") -> None:
    """ADD_SUBSCRIPTION_TO_TXN, of the trace's topic by default."""
    joined = pb.Subscription(topic=topic or peer.topic, subscription=subscription)
    peer.asks(pb.CommandAddSubscriptionToTxn(request_id=0, **txn._asdict(), subscription=[joined]))


def sends(peer: Peer, txn: Txn, sequence_id: int, producer_id: int = 1, messages: int = 1) -> None:
    """SEND in a transaction, which the metadata name as well, as clients do it.

    With several messages it is a batch, of which brokers read the metadata only.
    """
    batch = {"num_messages_in_batch": messages} if messages > 1 else {}
    entry = encode_entry(metadata(sequence_id, **batch, **txn._asdict()), b"t%d" % sequence_id)
    peer.sends_entry(sequence_id, entry, producer_id, num_messages=messages, **txn._asdict())


def publishes(peer: Peer, txn: Txn, *sequence_ids: int) -> list[pb.MessageIdData]:
    """SEND messages in a transaction, each after the receipt of the one before; their ids."""
    ids = []
    for sequence_id in sequence_ids:
        sends(peer, txn, sequence_id)
        [receipt] = peer.awaits(Kind.SEND_RECEIPT)
        ids.append(receipt.message_id)
    return ids


def acks(peer: Peer, txn: Txn, ids: Ids, ack_type: pb.CommandAck.AckType = INDIVIDUAL) -> None:
    """ACK in a transaction."""
    peer.asks(
        pb.CommandAck(
            request_id=0, consumer_id=1, ack_type=ack_type, message_id=ids, **txn._asdict()
        )
    )


def commits(peer: Peer, txn: Txn) -> None:
    """END_TXN with COMMIT."""
    _ends(peer, txn, pb.COMMIT)


def aborts(peer: Peer, txn: Txn) -> None:
    """END_TXN with ABORT."""
    _ends(peer, txn, pb.ABORT)


def _ends(peer: Peer, txn: Txn, action: pb.TxnAction) -> None:
    peer.asks(pb.CommandEndTxn(request_id=0, **txn._asdict(), txn_action=action))
