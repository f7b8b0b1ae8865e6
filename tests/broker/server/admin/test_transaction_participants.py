"""The REST API of topics and subscriptions in transactions, over real sockets, and kill -9."""

from collections.abc import Callable

from admin_http import Admin
from fakes.transactions import end_on_partition, end_on_subscription, in_transaction
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

PATH = "/admin/v3/transactions"
COORDINATOR = 3
Kind = pb.BaseCommand


def begun(raw: RawClient) -> TxnId:
    """Begin a transaction at a coordinator, so that it is not aborted as unknown."""
    answer = raw.request(pb.CommandNewTxn(request_id=0, txn_ttl_millis=600_000, tc_id=COORDINATOR))
    return TxnId(answer.txnid_most_bits, answer.txnid_least_bits)


def publish(raw: RawClient, sequence_id: int, payload: bytes, txn: TxnId) -> pb.MessageIdData:
    raw.send_bytes(in_transaction(txn, sequence_id, payload))
    found: pb.MessageIdData = raw.expect(Kind.SEND_RECEIPT).message_id
    return found


def ack_in(raw: RawClient, position: pb.MessageIdData, txn: TxnId) -> int | None:
    answer = raw.request(
        pb.CommandAck(
            consumer_id=1,
            ack_type="Individual",
            request_id=0,
            message_id=[position],
            txnid_most_bits=txn.most,
            txnid_least_bits=txn.least,
        )
    )
    return int(answer.error) if answer.HasField("error") else None


def test_statistics_of_a_topic_and_a_subscription(broker: RunningBroker) -> None:
    admin, name = Admin(broker), "public/default/participates"
    topic = f"persistent://{name}"
    with RawClient.of_topic(broker.port, topic) as raw:
        _, a, b = begun(raw), begun(raw), begun(raw)
        raw.produce(topic)
        raw.subscribe(topic)
        raw.flow(10)
        stats = admin.get(f"{PATH}/transactionBufferStats/{name}").json
        assert (stats["state"], stats["ongoingTxnSize"]) == ("NoSnapshot", 0)
        first = publish(raw, 0, b"a", a)
        at = f"{first.ledgerId}:{first.entryId}"
        stats = admin.get(f"{PATH}/transactionBufferStats/{name}?lowWaterMarks=true").json
        assert (stats["state"], stats["ongoingTxnSize"]) == ("Ready", 1)
        assert stats["maxReadPosition"] != at and stats["lowWaterMarks"] == {}
        found = admin.get(f"{PATH}/transactionInBufferStats/{name}/{a.most}/{a.least}").json
        assert found == {"startPosition": at, "aborted": False}
        why = admin.get(f"/admin/v2/{topic.replace('://', '/')}/subscription/sub/whyNotDelivering")
        assert why.json["blocker"] == "transaction"
        assert why.json["openTransaction"]["txnID"] == str(a)
        assert why.json["openTransaction"]["firstPosition"] == at
        raw.request(
            end_on_partition(
                0, a, Outcome.COMMIT, topic, txnid_least_bits_of_low_watermark=a.least - 1
            )
        )
        stats = admin.get(f"{PATH}/transactionBufferStats/{name}?lowWaterMarks=true").json
        assert (stats["ongoingTxnSize"], stats["lowWaterMarks"]) == (0, {"3": a.least - 1})
        assert stats["maxReadPosition"] != at and stats["hiddenEntries"] == 1
        topics = admin.get(f"/admin/v2/{topic.replace('://', '/')}/stats").json
        counts = ("ongoingTxnCount", "committedTxnCount", "abortedTxnCount")
        assert [topics[count] for count in counts] == [0, 1, 0]

        message = raw.expect(Kind.MESSAGE)
        of_sub, position = f"{name}/sub", f"{first.ledgerId}/{first.entryId}"
        state = f"{PATH}/positionStatsInPendingAck/{of_sub}/{position}"
        assert admin.get(state).json == {"state": "NotInPendingAck"}
        assert ack_in(raw, message.message_id, b) is None
        assert admin.get(state).json == {"state": "PendingAck"}
        assert admin.get(f"{PATH}/pendingAckStats/{of_sub}").json["ongoingTxnSize"] == 1
        found = admin.get(f"{PATH}/transactionInPendingAckStats/{of_sub}/{b.most}/{b.least}").json
        assert found == {"cumulativeAckPosition": None, "individualAckEntries": 1}
        raw.request(end_on_subscription(0, b, Outcome.COMMIT, topic=topic))
        assert admin.get(state).json == {"state": "MarkDelete"}
        for path in (
            f"transactionBufferInternalStats/{name}",
            f"pendingAckInternalStats/{of_sub}?metadata=true",
        ):
            assert "managedLedgerInternalStats" in str(admin.get(f"{PATH}/{path}").json)
        assert admin.get(f"{PATH}/pendingAckStats/{name}/missing").status == 404
        assert admin.get(f"{state}?batchIndex=x").status == 400


def test_transactions_survive_kill_9(make_broker: Callable[..., RunningBroker]) -> None:
    broker, topic = make_broker(), "persistent://public/default/killed"
    with RawClient.of_topic(broker.port, topic) as raw:
        a, b = begun(raw), begun(raw)
        raw.produce(topic)
        raw.subscribe(topic)
        raw.flow(10)
        publish(raw, 0, b"a", a)
        publish(raw, 1, b"b", b)
        raw.request(end_on_partition(0, b, Outcome.ABORT, topic))
    broker.kill()
    broker.start()
    with RawClient.of_topic(broker.port, topic) as raw:
        raw.subscribe(topic)
        raw.flow(10)
        raw.request(end_on_partition(0, a, Outcome.COMMIT, topic))
        message = raw.expect(Kind.MESSAGE)
        assert ack_in(raw, message.message_id, b) is None
    broker.kill()
    broker.start()
    with RawClient.of_topic(broker.port, topic) as raw:
        raw.subscribe(topic)
        raw.flow(10)
        assert ack_in(raw, message.message_id, a) == pb.TransactionConflict
        raw.request(end_on_subscription(0, b, Outcome.ABORT, topic=topic))
        again = raw.expect(Kind.MESSAGE)
        assert again.message_id.entryId == message.message_id.entryId
