"""What comes for a transaction after its end, when its topic does not remember it any more."""

import pytest

from fakes.sessions import TOPIC, Client, SessionWorld, produce, subscribe
from magnetar_broker.base.errors import NotReady
from magnetar_broker.topic.topic import Topic
from magnetar_broker.transactions.leftovers import LOOK_SECONDS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName
from raw_client import metadata, send_frame


def send_in(client: Client, sequence_id: int, least: int, most: int = 0) -> None:
    """A message in a transaction."""
    ids = {"txnid_least_bits": least, "txnid_most_bits": most}
    own = metadata(sequence_id, **ids)
    client.send_bytes(send_frame(sequence_id, b"late", 1, own, **ids))
    (receipt,) = client.received()
    assert isinstance(receipt, pb.CommandSendReceipt)


def new(client: Client) -> int:
    answer = client.ask(pb.CommandNewTxn(request_id=1, txn_ttl_millis=500_000))
    return int(answer.txnid_least_bits)


def reload(world: SessionWorld) -> None:
    """The topic forgets what has ended there."""
    world.do(world.directory.opening.unload(TopicName.parse(TOPIC)))


def loaded(world: SessionWorld) -> Topic:
    topic = world.broker.topics.get(TopicName.parse(TOPIC))
    assert isinstance(topic, Topic)
    return topic


def test_a_message_that_comes_after_the_end_holds_nobody_back() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    least = new(client)
    client.ask(pb.CommandEndTxn(request_id=2, txnid_least_bits=least, txn_action=pb.ABORT))
    reload(world)
    client = world.client()
    client.ask(produce(1))
    send_in(client, 0, least)
    living = new(client)
    send_in(client, 1, living)
    assert len(loaded(world).transactions.open) == 2 and loaded(world).log.visible_end == 0
    world.clock.advance(LOOK_SECONDS)
    assert list(loaded(world).transactions.open) == [(0, living)]
    assert loaded(world).log.visible_end == 1  # up to the one that lives


def test_an_acknowledgement_that_comes_after_the_end_is_given_up() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    client.send_bytes(send_frame(0, b"a"))
    (receipt,) = client.received()
    least = new(client)
    client.ask(pb.CommandEndTxn(request_id=2, txnid_least_bits=least, txn_action=pb.COMMIT))
    client.ask(subscribe(3, subType=pb.CommandSubscribe.Shared))
    ack = pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Individual,
        message_id=[receipt.message_id],
        txnid_least_bits=least,
        txnid_most_bits=0,
        request_id=4,
    )
    assert not client.ask(ack).message
    subscription = loaded(world).subscriptions["sub"]
    assert list(subscription.open_transactions) == [(0, least)]
    world.clock.advance(LOOK_SECONDS)
    assert not subscription.open_transactions
    assert subscription.cursor.mark_delete == -1


@pytest.mark.parametrize("most", [16, (1 << 40)])
def test_a_transaction_of_no_coordinator_is_aborted(most: int) -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    send_in(client, 0, 3, most)
    world.clock.advance(LOOK_SECONDS)
    assert not loaded(world).transactions.open


def test_nothing_is_aborted_while_the_coordinator_cannot_be_asked() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    send_in(client, 0, 3)
    ended = world.broker.leftovers.ended

    async def moving(most: int, leasts: list[int]) -> list[int]:
        raise NotReady("it moves")

    world.broker.leftovers.ended = moving
    world.clock.advance(LOOK_SECONDS)
    assert loaded(world).transactions.open
    world.broker.leftovers.ended = ended
    world.clock.advance(LOOK_SECONDS)
    assert not loaded(world).transactions.open


@pytest.mark.parametrize("least", [0, 1000, (1 << 64) - 1])
def test_a_number_that_a_client_made_up_is_not_given_to_a_transaction(least: int) -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(produce(1))
    send_in(client, 0, least)
    world.clock.advance(LOOK_SECONDS)
    assert not loaded(world).transactions.open
    for number in range(3):
        given = new(client)
        assert given > least or least > 1 << 63
        send_in(client, 1 + number, given)
        ended = client.ask(
            pb.CommandEndTxnOnPartition(
                request_id=5, topic=TOPIC, txnid_least_bits=given, txn_action=pb.COMMIT
            )
        )
        assert not ended.message
