"""Messages that come too late for their transaction: nobody waits for them."""

import pytest

from fakes.sessions import SessionWorld
from fakes.transactions import ABORT, COMMIT, Publishing, Reading
from magnetar_broker.base.transactions import Outcome, TxnId
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
