"""The REST API of transactions, with brokers of one process and of several."""

from collections.abc import Callable, Iterator

import pytest

from admin_http import Admin
from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

PATH = "/admin/v3/transactions"
TOPIC = "persistent://public/default/shown"
COORDINATOR = 11


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[RawClient]:
    with RawClient.of_topic(broker.port, str(COORDINATORS.with_partition(COORDINATOR))) as found:
        yield found


def begin(client: RawClient) -> int:
    """Begin a transaction with a topic and a subscription; return its least significant bits."""
    new = client.request(pb.CommandNewTxn(request_id=0, txn_ttl_millis=500_000, tc_id=COORDINATOR))
    of = {"request_id": 0, "txnid_most_bits": COORDINATOR, "txnid_least_bits": new.txnid_least_bits}
    client.request(pb.CommandAddPartitionToTxn(partitions=[TOPIC], **of))
    subscription = pb.Subscription(topic=TOPIC, subscription="sub")
    client.request(pb.CommandAddSubscriptionToTxn(subscription=[subscription], **of))
    return int(new.txnid_least_bits)


def test_the_coordinators(admin: Admin, broker: RunningBroker) -> None:
    found = admin.get(f"{PATH}/coordinators").json
    assert [one["id"] for one in found] == list(range(16))
    assert {one["brokerServiceUrl"] for one in found} == {f"pulsar://127.0.0.1:{broker.port}"}


def test_figures_of_coordinators(admin: Admin, client: RawClient) -> None:
    least = begin(client)
    one = admin.get(f"{PATH}/coordinatorStats?coordinatorId={COORDINATOR}").json
    assert one["state"] == "Ready" and one["leastSigBits"] == least
    assert one["lowWaterMark"] < least and one["ongoingTxnSize"] >= 1
    assert 0 < one["recoverStartTime"] <= one["recoverEndTime"]
    found = admin.get(f"{PATH}/coordinatorStats").json
    assert list(found) == [str(number) for number in range(16)]
    assert found[str(COORDINATOR)] == one
    internal = admin.get(f"{PATH}/coordinatorInternalStats/{COORDINATOR}?metadata=true").json
    log = internal["transactionLogStats"]
    assert log["managedLedgerName"].endswith(
        f"transaction_coordinator_assign-partition-{COORDINATOR}"
    )
    assert log["managedLedgerInternalStats"]["state"]
    admin.post(f"{PATH}/abortTransaction/{COORDINATOR}/{least}")


def test_an_open_transaction_is_shown_and_aborted(admin: Admin, client: RawClient) -> None:
    least = begin(client)
    shown = admin.get(f"{PATH}/transactionMetadata/{COORDINATOR}/{least}").json
    assert shown["txnId"] == f"({COORDINATOR},{least})" and shown["status"] == "OPEN"
    assert shown["timeoutAt"] == 500_000 and shown["owner"] is None
    assert list(shown["producedPartitions"]) == [TOPIC]
    assert list(shown["ackedPartitions"][TOPIC]) == ["sub"]
    for path in ("slowTransactions/0", f"slowTransactions/0?coordinatorId={COORDINATOR}"):
        listed = admin.get(f"{PATH}/{path}").json[shown["txnId"]]
        assert listed["openTimestamp"] == shown["openTimestamp"]
    assert admin.get(f"{PATH}/slowTransactions/10000000").json == {}
    abort = f"{PATH}/abortTransaction/{COORDINATOR}/{least}"
    assert admin.post(abort).status == 204
    assert admin.post(abort).status == 204  # it is aborted
    gone = admin.get(f"{PATH}/transactionMetadata/{COORDINATOR}/{least}")
    assert gone.status == 404 and "ABORTED" in gone.reason
    assert shown["txnId"] not in admin.get(f"{PATH}/slowTransactions/0").json


def test_what_is_not_there(admin: Admin) -> None:
    for path, words in {
        "transactionMetadata/0/123456789": "never was",
        "transactionMetadata/16/0": "there are 16",
        "transactionMetadata/-1/0": "there are 16",
        "transactionMetadata/x/0": "whole number",
        "coordinatorStats?coordinatorId=16": "there are 16",
        "coordinatorStats?coordinatorId=x": "whole number",
        "coordinatorInternalStats/99": "there are 16",
    }.items():
        answer = admin.get(f"{PATH}/{path}")
        assert answer.status == 404 and words in answer.reason, path


def test_there_can_be_more_coordinators(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    admin = Admin(broker)
    path = f"{PATH}/transactionCoordinator/replicas"
    for wrong in (16, 0, -3, 1025, "20", True):
        assert admin.post(path, wrong).status == 406
    assert admin.post(path, 20).status == 204
    assert len(admin.get(f"{PATH}/coordinators").json) == 20
    broker.restart()
    assert len(admin.get(f"{PATH}/coordinators").json) == 20
    with RawClient.of_topic(broker.port, str(COORDINATORS.with_partition(19))) as client:
        answer = client.request(pb.CommandNewTxn(request_id=0, txn_ttl_millis=1000, tc_id=19))
        assert not answer.message


def test_transactions_that_are_off(make_broker: Callable[..., RunningBroker]) -> None:
    admin = Admin(make_broker(transactionCoordinatorEnabled="false"))
    for path in (
        "coordinators",
        "coordinatorStats",
        "slowTransactions/1",
        "transactionMetadata/0/0",
    ):
        answer = admin.get(f"{PATH}/{path}")
        assert answer.status == 503 and "transactionCoordinatorEnabled" in answer.reason
