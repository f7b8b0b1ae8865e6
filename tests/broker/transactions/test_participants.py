"""Ends of transactions at topics that exist, do not exist, or may be deleted."""

import pytest

from fakes.sessions import TOPIC, SessionWorld
from fakes.transactions import COMMIT, Publishing, Reading
from magnetar_broker.base.errors import NamespaceClosed
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.transactions.records import Participant
from magnetar_proto.names import TopicName

A = TxnId(1, 7)


def test_what_does_not_exist_needs_no_end() -> None:
    world = SessionWorld()
    ending = world.broker.local_ending
    missing = "persistent://public/default/missing"
    for part in (
        Participant(missing),
        Participant(missing, "sub"),
        Participant("persistent://no/such/topic"),
    ):
        world.do(ending.end(part, A, COMMIT, -1))


def test_a_namespace_whose_deletion_may_be_refused_is_not_taken_for_a_deleted_one() -> None:
    world = SessionWorld()
    Publishing(world).send(b"in A", A)
    world.do(world.directory.opening.unload(TopicName.parse(TOPIC)))
    namespaces, end = world.directory.namespaces, world.broker.local_ending.end
    namespaces.close("public/default")  # as a deletion does before it looks for topics
    with pytest.raises(NamespaceClosed):
        world.do(end(Participant(TOPIC), A, COMMIT, -1))
    namespaces.reopen("public/default")
    world.do(end(Participant(TOPIC), A, COMMIT, -1))
    assert Reading(world).payloads() == [b"in A"]
