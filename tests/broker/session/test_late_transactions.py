"""Messages of transactions that come too late, are delayed, or grow too old."""

import pytest

from fakes.sessions import SessionWorld
from fakes.transactions import ABORT, COMMIT, Publishing, Reading
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.expiry.quotas import enforce_quotas
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.errors import DiskFull
from raw_client import metadata, send_frame

A = TxnId(1, 7)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_the_first_message_of_a_transaction_is_refused_after_its_end(outcome: Outcome) -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world)
    producer.end(A, outcome)
    answer = producer.send(b"late", A)
    assert isinstance(answer, pb.CommandSendError)
    assert answer.error == pb.NotAllowedError
    producer.send(b"plain")
    assert reader.payloads() == [b"plain"]


@pytest.mark.parametrize("by", ["size", "age"])
def test_eviction_passes_over_nothing_that_an_open_transaction_holds_back(by: str) -> None:
    world = SessionWorld(
        backlog_quota_default_retention_policy=QuotaAction.CONSUMER_BACKLOG_EVICTION,
        backlog_quota_default_limit_bytes=1 if by == "size" else -1,
        backlog_quota_default_limit_second=4 if by == "age" else -1,
        precise_time_based_backlog_quota_check=True,
    )
    producer = Publishing(world)
    assert Reading(world, permits=1).payloads() == []
    producer.send(b"plain")
    producer.send(b"in A", A)
    world.clock.advance(6)
    world.do(enforce_quotas(world.topic()))
    producer.end(A, COMMIT)
    assert world.topic().subscriptions["sub"].cursor.mark_delete == 0
    assert Reading(world, subscription="sub2").payloads() == [b"plain", b"in A"]


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
@pytest.mark.parametrize("sub_type", [pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared])
def test_delayed_messages_wait_for_their_time_and_for_their_transaction(
    sub_type: int, outcome: Outcome, is_lost: bool
) -> None:
    world = SessionWorld()
    producer, reader = Publishing(world), Reading(world, subType=sub_type)
    for number, seconds in enumerate((2, 8)):
        own = metadata(number)
        own.publish_time = world.clock.now_ms()
        own.deliver_at_time = own.publish_time + seconds * 1000
        own.txnid_most_bits, own.txnid_least_bits = A
        bits = {"txnid_most_bits": A.most, "txnid_least_bits": A.least}
        producer.client.send_bytes(send_frame(number, b"%d" % seconds, 1, own, **bits))
    assert len(producer.client.received()) == 2
    world.clock.advance(4)
    if is_lost:
        world.topic().drop(DiskFull("no room"))
        producer, reader = Publishing(world), Reading(world, subType=sub_type)
    assert reader.payloads() == []
    producer.end(A, outcome)
    assert reader.payloads() == ([b"2"] if outcome is COMMIT else [])
    world.clock.advance(5)
    assert reader.payloads() == ([b"8"] if outcome is COMMIT else [])
