"""Commands of transactions: what they answer, and whom."""

from typing import Any

import pytest

from fakes.sessions import Client, SessionWorld
from magnetar_broker.authentication.identity import Roles
from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_storage.errors import DiskFull

ORDERS = "persistent://public/default/orders"


def new(tc_id: int = 0, ttl_ms: int = 60_000) -> pb.CommandNewTxn:
    return pb.CommandNewTxn(request_id=1, txn_ttl_millis=ttl_ms, tc_id=tc_id)


def of(kind: type[Any], least: int, most: int = 0, **fields: Any) -> Any:
    return kind(request_id=2, txnid_least_bits=least, txnid_most_bits=most, **fields)


def end(least: int, action: pb.TxnAction = pb.COMMIT, most: int = 0) -> Any:
    return of(pb.CommandEndTxn, least, most, txn_action=action)


def refused(answer: Any, code: int, words: str = "") -> None:
    assert pb.ServerError.Name(answer.error) == pb.ServerError.Name(code), answer
    assert words in answer.message


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    world = SessionWorld()
    client = world.client()
    assert client.ask(
        pb.CommandTcClientConnectRequest(request_id=7, tc_id=3)
    ) == pb.CommandTcClientConnectResponse(request_id=7)
    for least in range(2):
        begun = client.ask(new(tc_id=3))
        assert begun == pb.CommandNewTxnResponse(
            request_id=1, txnid_least_bits=least, txnid_most_bits=3
        )
    answers = {
        pb.CommandAddPartitionToTxnResponse: of(
            pb.CommandAddPartitionToTxn, 1, 3, partitions=[ORDERS]
        ),
        pb.CommandAddSubscriptionToTxnResponse: of(
            pb.CommandAddSubscriptionToTxn,
            1,
            3,
            subscription=[pb.Subscription(topic=ORDERS, subscription="sub")],
        ),
        pb.CommandEndTxnResponse: end(1, most=3),
    }
    for kind, command in answers.items():
        assert client.ask(command) == of(kind, 1, 3)
    assert client.ask(end(0, pb.ABORT, most=3)) == of(pb.CommandEndTxnResponse, 0, 3)


def test_refusals_travel_in_the_answers() -> None:
    client = SessionWorld(max_active_transactions_per_coordinator=1).client()
    refused(
        client.ask(pb.CommandTcClientConnectRequest(request_id=7, tc_id=16)),
        pb.TransactionCoordinatorNotFound,
        "no coordinator 16",
    )
    refused(client.ask(new(16)), pb.TransactionCoordinatorNotFound, "no coordinator 16")
    refused(client.ask(new(ttl_ms=0)), pb.NotAllowedError, "timeout")
    client.ask(new())
    answer = client.ask(new())
    assert isinstance(answer, pb.CommandNewTxnResponse)
    refused(answer, pb.NotAllowedError, "maxActiveTransactionsPerCoordinator")
    refused(client.ask(end(5)), pb.TransactionNotFound)
    refused(client.ask(end(0, most=1)), pb.TransactionNotFound)
    bad = of(pb.CommandAddPartitionToTxn, 0, partitions=["a/b"])
    refused(client.ask(bad), pb.InvalidTopicName)
    client.ask(end(0))
    refused(client.ask(end(0, pb.ABORT)), pb.TransactionNotFound, "COMMITTED")
    refused(client.ask(of(pb.CommandAddPartitionToTxn, 0)), pb.TransactionNotFound)


def test_clients_are_sent_to_look_a_coordinator_up_again_when_it_fails() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(new())
    topic = world.broker.topics.get(COORDINATORS.with_partition(0))
    assert topic is not None
    client.send(new())
    world.store.break_writers(DiskFull("no room"))
    (answer,) = client.received()
    assert isinstance(answer, pb.CommandNewTxnResponse)
    refused(answer, pb.TransactionCoordinatorNotFound)
    assert client.ask(new()).txnid_least_bits == 1


def test_clients_are_sent_to_look_a_coordinator_up_again_while_it_is_not_served_here() -> None:
    world = SessionWorld()
    client = world.client()
    world.directory.opening.serving = False  # as where another process has it
    for command in (new(), end(0)):
        refused(client.ask(command), pb.TransactionCoordinatorNotFound, "try again")
    connect = pb.CommandTcClientConnectRequest(request_id=7, tc_id=0)
    refused(client.ask(connect), pb.ServiceNotReady, "try again")


def test_the_coordinators_are_found_by_their_topic() -> None:
    client = SessionWorld().client()
    metadata = client.ask(pb.CommandPartitionedTopicMetadata(request_id=1, topic=str(COORDINATORS)))
    assert metadata.partitions == 16
    found = client.ask(
        pb.CommandLookupTopic(request_id=1, topic=str(COORDINATORS.with_partition(15)))
    )
    assert found.response == pb.CommandLookupTopicResponse.Connect


@pytest.mark.parametrize(
    "command",
    [pb.CommandTcClientConnectRequest(request_id=2, tc_id=0), new(), end(0)],
    ids=lambda command: type(command).__name__,
)
def test_transactions_that_are_off(command: Any) -> None:
    world = SessionWorld(transaction_coordinator_enabled=False)
    client = world.client()
    answer = client.ask(command)
    assert isinstance(answer, pb.CommandError)
    refused(answer, pb.NotAllowedError, "transactionCoordinatorEnabled")
    assert not world.do(world.directory.catalogue.partitions(COORDINATORS))


def as_role(client: Client, role: str) -> Client:
    client.session.roles = Roles(role)
    return client


def test_only_its_owner_and_super_users_use_a_transaction() -> None:
    world = SessionWorld(
        authentication_enabled=True, authorization_enabled=True, super_user_roles=("root",)
    )
    for role in ("shop", "thief"):
        world.do(world.directory.permissions.grant("public/default", role, ["produce"]))
    owner, other, root = (as_role(world.client(), role) for role in ("shop", "thief", "root"))
    owner.ask(new())
    add = of(pb.CommandAddPartitionToTxn, 0, partitions=[ORDERS])
    elsewhere = of(pb.CommandAddPartitionToTxn, 0, partitions=["persistent://public/other/a"])
    joined = pb.Subscription(topic=ORDERS, subscription="sub")
    subscribed = of(pb.CommandAddSubscriptionToTxn, 0, subscription=[joined])
    for command in (elsewhere, subscribed):
        refused(owner.ask(command), pb.AuthorizationError, "role shop may not")
    for command in (add, end(0)):
        refused(other.ask(command), pb.TransactionNotFound, "neither the owner")
    assert not owner.ask(add).message
    assert not root.ask(end(0)).message
    # It has ended: who asks again is told so.
    assert not owner.ask(end(0)).message
