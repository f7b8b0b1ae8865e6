"""SUBSCRIBE and the requests of consumers, on a client's connection."""

from typing import Any

import pytest

from fakes.sessions import (
    TOPIC,
    Client,
    SessionWorld,
    by_request,
    close_consumer,
    produce,
    subscribe,
)
from fakes.topics import EXCLUSIVE, SHARED, TYPES
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import NO_REQUEST
from magnetar_proto.deliveries import encode_flow
from magnetar_proto.ids import MessageId
from magnetar_storage.errors import DiskFull, Unavailable
from raw_client import refused, send_frame


def published(world: SessionWorld, *payloads: bytes, topic: str = TOPIC) -> None:
    """Publish messages through another client."""
    client = world.client()
    client.ask(produce(1, topic=topic))
    for sequence_id, payload in enumerate(payloads):
        client.send_bytes(send_frame(sequence_id, payload))
    assert len(client.received()) == len(payloads)


def messages(client: Client, consumer_id: int = 1, permits: int = 10) -> int:
    """Return the number of messages that a consumer receives for its permits."""
    client.send_bytes(encode_flow(consumer_id, permits))
    received = client.received()
    return sum(isinstance(one, pb.CommandMessage) for one in received)


# Opening --------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES, ids=pb.CommandSubscribe.SubType.Name)
def test_a_consumer_closed_while_it_was_created_leaves_its_id_to_the_next(sub_type: Any) -> None:
    world = SessionWorld()
    client = world.client()
    client.send(subscribe(1, subType=sub_type), close_consumer(2), subscribe(3, subType=sub_type))
    answers = by_request([a for a in client.received() if hasattr(a, "request_id")])
    refused(answers[1], pb.ServiceNotReady, "closed")
    assert isinstance(answers[2], pb.CommandSuccess)
    assert isinstance(answers[3], pb.CommandSuccess)
    published(world, b"a")
    world.clock.advance(1)  # a Failover consumer is sent nothing before
    assert messages(client) == 1
    assert len(world.topic().subscriptions["sub"].consumers) == 1


def test_a_consumer_closed_while_it_was_created_is_gone() -> None:
    world = SessionWorld()
    client = world.client()
    client.send(subscribe(1), close_consumer(2))
    answers = by_request(client.received())
    refused(answers[1], pb.ServiceNotReady, "closed")
    assert isinstance(answers[2], pb.CommandSuccess)
    assert isinstance(world.client().ask(subscribe(1)), pb.CommandSuccess)


def test_a_consumer_whose_connection_went_while_it_was_created_is_gone() -> None:
    world = SessionWorld()
    client = world.client()
    client.send(subscribe(1))
    world.clock.step()
    client.session.lost()
    world.clock.pump()
    assert isinstance(world.client().ask(subscribe(1)), pb.CommandSuccess)


def test_asking_again_for_a_consumer() -> None:
    client = SessionWorld().client()
    client.send(subscribe(1), subscribe(2))
    answers = by_request(client.received())
    refused(answers[2], pb.ServiceNotReady, "wait")
    assert isinstance(answers[1], pb.CommandSuccess)
    assert isinstance(client.ask(subscribe(3)), pb.CommandSuccess)


def test_an_id_that_was_refused_is_free() -> None:
    world = SessionWorld()
    holder, client = world.client(), world.client()
    holder.ask(subscribe(1, subType=SHARED))
    refused(client.ask(subscribe(1, subType=EXCLUSIVE)), pb.ConsumerBusy)
    assert isinstance(client.ask(subscribe(2, subType=SHARED)), pb.CommandSuccess)


# Unsubscribing --------------------------------------------------------------------------


def unsubscribe(request_id: int, **fields: Any) -> pb.CommandUnsubscribe:
    return pb.CommandUnsubscribe(consumer_id=1, request_id=request_id, **fields)


def test_a_subscription_that_cannot_be_deleted_is_refused_and_stays() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(subscribe(1))
    world.store.break_writers(DiskFull("no room"))
    client.send(unsubscribe(2), unsubscribe(3))
    received = client.received()
    assert [type(one) for one in received].count(pb.CommandCloseConsumer) == 1
    for one in received:
        if isinstance(one, pb.CommandError):
            refused(one, pb.PersistenceError, "no room")
    assert isinstance(received[0], pb.CommandError), "the answer comes before CLOSE_CONSUMER"
    assert sorted(a.request_id for a in received if isinstance(a, pb.CommandError)) == [2, 3]
    assert isinstance(client.ask(subscribe(4)), pb.CommandSuccess)
    assert list(world.topic().subscriptions) == ["sub"]
    assert isinstance(client.ask(unsubscribe(5)), pb.CommandSuccess)
    assert world.topic().cursors.cursors == {}


def test_an_id_can_be_used_anew_while_its_subscription_is_deleted() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(subscribe(1))
    client.send(unsubscribe(2), subscribe(3, subscription="other", durable=False))
    answers = by_request(client.received())
    assert [type(answers[n]) for n in (2, 3)] == [pb.CommandSuccess] * 2
    published(world, b"a")
    assert messages(client) == 1


def test_a_refused_unsubscribe_leaves_the_consumer_where_it_is() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(subscribe(1, subType=SHARED))
    world.client().ask(subscribe(1, subType=SHARED))
    refused(client.ask(unsubscribe(2)), pb.MetadataError, "1 other")
    assert client.session.consumers[1].closed is False
    assert isinstance(client.ask(unsubscribe(3, force=True)), pb.CommandSuccess)
    assert 1 not in client.session.consumers


# Errors of the disk ---------------------------------------------------------------------


def acked(world: SessionWorld, client: Client) -> None:
    """Let a consumer acknowledge the first of three entries that are not in memory."""
    client.ask(subscribe(1))
    published(world, b"a", b"b", b"c")
    ledger, entry = world.topic().log.position(0)
    client.send_bytes(encode_ack(1, pb.CommandAck.Individual, [(ledger, entry, ())]))
    assert client.received() == []


@pytest.fixture
def unreadable() -> Client:
    """Return the client of a consumer on a topic that cannot be read."""
    world = SessionWorld(cache_bytes=0)
    client = world.client()
    acked(world, client)
    world.store.open_failure = Unavailable("the disk is gone")
    return client


def test_a_last_message_that_cannot_be_read(unreadable: Client) -> None:
    answer = unreadable.ask(pb.CommandGetLastMessageId(consumer_id=1, request_id=2))
    refused(answer, pb.MetadataError, "the disk is gone")


def test_a_seek_that_cannot_read(unreadable: Client) -> None:
    seek = pb.CommandSeek(consumer_id=1, request_id=2, message_publish_time=5)
    refused(unreadable.ask(seek), pb.UnknownError, "the disk is gone")
    assert not unreadable.session.consumers[1].closed


def test_numbers_that_cannot_be_read(unreadable: Client) -> None:
    answer = unreadable.ask(pb.CommandConsumerStats(consumer_id=1, request_id=2))
    assert isinstance(answer, pb.CommandConsumerStatsResponse)
    assert answer.error_code == pb.PersistenceError
    assert "the disk is gone" in answer.error_message


def test_stats_of_an_unknown_consumer() -> None:
    answer = SessionWorld().client().ask(pb.CommandConsumerStats(consumer_id=1, request_id=2))
    assert isinstance(answer, pb.CommandConsumerStatsResponse)
    assert answer.error_code == pb.ConsumerNotFound


def test_numbers() -> None:
    world = SessionWorld()
    client = world.client()
    acked(world, client)
    answer = client.ask(pb.CommandConsumerStats(consumer_id=1, request_id=2))
    assert not answer.HasField("error_code")
    assert (answer.msgBacklog, answer.type, answer.address) == (2, "Exclusive", client.address)


def test_a_consumer_whose_acknowledgements_cannot_be_kept() -> None:
    world = SessionWorld()
    client = world.client()
    acked(world, client)
    world.store.break_writers(DiskFull("no room"))
    ledger, entry = world.topic().log.position(1)
    client.send_bytes(encode_ack(1, pb.CommandAck.Individual, [(ledger, entry, ())]))
    answer = client.ask(close_consumer(2))
    refused(answer, pb.MetadataError, "no room")
    assert isinstance(client.ask(subscribe(3)), pb.CommandSuccess)


# Order of checks ------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "schema": {"schema": pb.Schema(name="s", type=pb.Schema.Avro, schema_data=b"text")},
    "type": {"subType": SHARED, "read_compacted": True},
    "name": {"subscription": "pulsar.dedup"},
}
NON_PERSISTENT = TOPIC.replace("persistent", "non-persistent")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("topic", [TOPIC, NON_PERSISTENT])
def test_a_full_topic_refuses_whatever_else_is_wrong(topic: str, wrong: dict[str, Any]) -> None:
    world = SessionWorld(max_consumers_per_topic=1, allow_auto_subscription_creation=True)
    world.client().ask(subscribe(1, topic=topic))
    refused(world.client().ask(subscribe(1, topic=topic, **wrong)), pb.ConsumerBusy, "maxConsumers")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_missing_subscription_is_missed_whatever_else_is_wrong(wrong: dict[str, Any]) -> None:
    world = SessionWorld(allow_auto_subscription_creation=False)
    client = world.client()
    answer = client.ask(subscribe(1, **wrong))
    refused(answer, pb.SubscriptionNotFound, "allowAutoSubscriptionCreation")
    assert isinstance(client.ask(subscribe(2, durable=False)), pb.CommandSuccess)


def test_a_missing_subscription_is_missed_where_there_could_be_no_more() -> None:
    world = SessionWorld(max_subscriptions_per_topic=1, allow_auto_subscription_creation=False)
    assert isinstance(world.client().ask(subscribe(1, durable=False)), pb.CommandSuccess)
    answer = world.client().ask(subscribe(1, subscription="new"))
    refused(answer, pb.SubscriptionNotFound, "allowAutoSubscriptionCreation")


def test_the_schema_is_looked_at_before_the_type_and_the_name() -> None:
    client = SessionWorld().client()
    everything = {name: value for fields in WRONG.values() for name, value in fields.items()}
    refused(client.ask(subscribe(1, **everything)), pb.IncompatibleSchema, "schema")


# Acknowledging --------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", [None, 7])
def test_an_ack_in_a_transaction_where_they_are_off_with_and_without_a_request_id(
    request_id: int | None,
) -> None:
    world = SessionWorld(transaction_coordinator_enabled=False)
    client = world.client()
    client.ask(subscribe(1))
    published(world, b"a")
    assert messages(client) == 1
    ledger, entry = world.topic().log.position(0)
    ack = pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Individual,
        message_id=[pb.MessageIdData(ledgerId=ledger, entryId=entry)],
        txnid_least_bits=1,
        txnid_most_bits=0,
        request_id=request_id,
    )
    answer = client.ask(ack)
    assert answer.error == pb.NotAllowedError and "transactions" in answer.message
    kind = pb.CommandError if request_id is None else pb.CommandAckResponse
    assert isinstance(answer, kind)
    assert answer.request_id == (NO_REQUEST if request_id is None else request_id)
    assert not client.closed and world.topic().subscriptions["sub"].cursor.mark_delete == -1


# Damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "told"),
    [("Magnetar-Python-1.0", 1), ("Pulsar-CPP-v3.7.0", 0), ("Pulsar-Java-4.0.6", 0), ("raw", 0)],
)
def test_only_magnetars_own_clients_are_told_of_damage(version: str, told: int) -> None:
    world = SessionWorld(cache_bytes=0)
    published(world, b"a", b"b")
    segment = world.topic().log.segments[0].id
    world.store.rotten.add(segment)
    client = world.client(client_version=version)
    client.ask(subscribe(1))
    client.send_bytes(encode_flow(1, 10))
    received = client.received()
    assert len(received) == told
    for one in received:
        assert isinstance(one, pb.CommandActiveConsumerChange)
        assert (one.consumer_id, one.is_active) == (1, True)
        first = MessageId.from_pb(one.magnetar_damaged)
        assert (first.ledger, first.entry, first.partition) == (segment, 0, -1)
        assert (one.magnetar_damaged_entries, one.magnetar_damage) == (1, "rot")
