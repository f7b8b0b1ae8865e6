"""SEND: what is refused, when the refusal is sent, and when reading pauses."""

from typing import Any

import pytest

from fakes.sessions import TOPIC, Client, SessionWorld, by_request, close_producer, produce
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.broker_metadata import encode_broker_metadata
from magnetar_proto.entries import encode_entry
from magnetar_storage.errors import DiskFull
from raw_client import metadata, send_frame, send_frame_of

UNSUPPORTED = {
    "a message id": {"message_id": pb.MessageIdData(ledgerId=1, entryId=2)},
    "a marker": {"marker": True},
}


def damaged(sequence_id: int, producer_id: int = 1) -> bytes:
    """A SEND whose payload does not match its checksum."""
    entry = encode_entry(metadata(sequence_id), b"right")
    return send_frame_of(entry[:-1] + b"?", sequence_id, producer_id)


def client_with_producers(world: SessionWorld, *producer_ids: int) -> Client:
    client = world.client()
    for producer_id in producer_ids:
        client.ask(produce(1, producer_id))
    return client


def outcomes(received: list[Any]) -> list[tuple[str, int, int]]:
    """Receipts and refusals: what, of which producer, of which message."""
    kinds = {pb.CommandSendReceipt: "stored", pb.CommandSendError: "refused"}
    return [(kinds[type(one)], one.producer_id, one.sequence_id) for one in received]


# What is refused ------------------------------------------------------------------------


@pytest.mark.parametrize("fields", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_is_not_supported_is_refused_message_by_message(fields: dict[str, Any]) -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1)
    unsupported = send_frame(1, b"x", highest_sequence_id=5, **fields)
    client.send_bytes(send_frame(0, b"a") + unsupported + send_frame(6, b"b"))
    received = client.received()
    assert outcomes(received) == [("stored", 1, 0), ("refused", 1, 5), ("stored", 1, 6)]
    assert received[1].error == pb.NotAllowedError
    assert "support" in received[1].message
    assert not client.closed


@pytest.mark.parametrize("fields", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_is_not_supported_by_a_producer_that_is_not_open(fields: dict[str, Any]) -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1)
    world.topic().drop(DiskFull("no room"))
    assert [type(one) for one in client.received()] == [pb.CommandCloseProducer]
    client.send_bytes(send_frame(0, b"x", **fields))
    assert (client.received(), client.closed) == ([], False)
    client.send_bytes(send_frame(0, b"x", producer_id=9, **fields))
    assert (client.received(), client.closed) == ([], True)


def test_what_only_brokers_add_is_refused() -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1)
    [added] = encode_broker_metadata(5, [7])
    entry = added + encode_entry(metadata(0), b"x")
    client.send_bytes(send_frame_of(entry, 0) + send_frame(1, b"b"))
    received = client.received()
    assert outcomes(received) == [("refused", 1, 0), ("stored", 1, 1)]
    assert received[0].error == pb.NotAllowedError
    assert not client.closed


# When it is sent ------------------------------------------------------------------------


def test_a_refusal_waits_for_the_receipts_before_it_and_those_behind_wait_for_it() -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1, 2)
    client.send_bytes(
        send_frame(0, b"a")
        + send_frame(0, b"x", producer_id=2)
        + damaged(1)
        + damaged(2)
        + send_frame(3, b"b")
        + damaged(4)
    )
    assert client.received_so_far() == []
    client.send_bytes(send_frame(5, b"c") + damaged(6))
    of = [outcome for outcome in outcomes(client.received()) if outcome[1] == 1]
    assert [(kind, number) for kind, _, number in of] == [
        ("stored", 0),
        ("refused", 1),
        ("refused", 2),
        ("stored", 3),
        ("refused", 4),
        ("stored", 5),
        ("refused", 6),
    ]


def test_a_refusal_that_waits_for_nothing_is_sent_at_once() -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1, 2)
    client.send_bytes(send_frame(0, b"x", producer_id=2) + damaged(0))
    assert outcomes(client.received_so_far()) == [("refused", 1, 0)]


def test_a_producer_is_closed_behind_its_refusals() -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1)
    client.send_bytes(send_frame(0, b"a") + damaged(1))
    client.send(close_producer(2))
    received = client.received()
    assert outcomes(received[:2]) == [("stored", 1, 0), ("refused", 1, 1)]
    assert by_request(received[2:])[2] == pb.CommandSuccess(request_id=2)


def test_a_producer_that_the_broker_closed_gets_no_refusal() -> None:
    world = SessionWorld()
    client = client_with_producers(world, 1)
    world.do(world.topic(TOPIC).log.rollover.start_writing())
    client.send_bytes(send_frame(0, b"a") + damaged(1))
    world.store.break_writers(DiskFull("no room"))
    assert [type(one) for one in client.received()] == [pb.CommandCloseProducer]
    assert client.session.publishing.pending_entries == 0
    client.ask(produce(2))
    client.send_bytes(send_frame(0, b"a"))
    assert outcomes(client.received()) == [("stored", 1, 0)]


def test_refusals_that_wait_count_as_pending() -> None:
    world = SessionWorld(max_pending_publish_requests_per_connection=4)
    client = client_with_producers(world, 1)
    client.send_bytes(send_frame(0, b"a") + damaged(1) + damaged(2))
    assert client.reading
    client.send_bytes(damaged(3))
    assert not client.reading
    assert len(client.received()) == 4
    assert client.reading
    assert client.session.publishing.pending_entries == 0
    assert world.topic(TOPIC).log.end == 1
