"""Messages of transactions that come too late, or are too old: nobody waits for, or loses them."""

import pytest

from fakes.sessions import SessionWorld
from fakes.transactions import ABORT, COMMIT, Publishing, Reading
from magnetar_broker.base.transactions import Outcome, TxnId
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.lifetime.quotas import enforce_quotas
from magnetar_proto import PulsarApi_pb2 as pb

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
        backlog_quota_default_limit_second=10 if by == "age" else -1,
        precise_time_based_backlog_quota_check=True,
    )
    producer = Publishing(world)
    assert Reading(world, permits=1).payloads() == []
    producer.send(b"plain")
    producer.send(b"in A", A)
    world.clock.advance(60)
    world.do(enforce_quotas(world.topic()))
    producer.end(A, COMMIT)
    assert world.topic().subscriptions["sub"].cursor.mark_delete == 0
    assert Reading(world, subscription="sub2").payloads() == [b"plain", b"in A"]
