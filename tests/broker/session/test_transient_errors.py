"""The code of each refusal: ServiceNotReady for transient errors, and not for those of storage."""

from collections.abc import Callable
from typing import Any

import pytest

from fakes.sessions import Client, SessionWorld, produce, subscribe
from magnetar_broker.base.errors import MetadataError, UnknownError
from magnetar_broker.session.refusals import refusal_of
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_storage.errors import (
    BadVersion,
    Corrupt,
    DiskFull,
    Fenced,
    LogClosed,
    NoSegment,
    ProcessUnavailable,
    StorageError,
    Unavailable,
    WriterFailed,
)
from raw_client import refused, send_frame

TRANSIENT = [LogClosed("t was closed"), ProcessUnavailable("the link to worker-1 has ended")]
TROUBLE = [
    BadVersion("old"),
    Corrupt("journal-3", 17, "why"),
    DiskFull("no room"),
    Fenced("another owner"),
    NoSegment("gone"),
    Unavailable("the disk is gone"),
    WriterFailed("an append failed"),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_a_transient_error_is_to_be_tried_again(error: StorageError) -> None:
    for refusal in (refusal_of(error), refusal_of(error.again(), UnknownError)):
        assert (refusal.code, str(refusal)) == (pb.ServiceNotReady, str(error))


@pytest.mark.parametrize("error", TROUBLE, ids=lambda error: type(error).__name__)
def test_trouble_of_storage_has_the_code_of_the_request(error: StorageError) -> None:
    assert refusal_of(error).code == pb.PersistenceError
    assert refusal_of(error, MetadataError).code == pb.MetadataError


def acknowledge(world: SessionWorld, client: Client) -> Any:
    ledger, entry = world.topic().log.position(0)
    client.send_bytes(encode_ack(1, pb.CommandAck.Individual, [(ledger, entry, ())], 9))
    return next(one for one in client.received() if isinstance(one, pb.CommandAckResponse))


def unsubscribe(world: SessionWorld, client: Client) -> Any:
    client.send(pb.CommandUnsubscribe(consumer_id=1, request_id=9))
    return next(one for one in client.received() if isinstance(one, pb.CommandError))


def seek(world: SessionWorld, client: Client) -> Any:
    client.send(pb.CommandSeek(consumer_id=1, message_publish_time=1, request_id=9))
    return next(one for one in client.received() if isinstance(one, pb.CommandError))


@pytest.mark.parametrize("ask", [acknowledge, unsubscribe, seek])
@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_a_change_that_was_not_stored_because_a_process_ended(
    ask: Callable[[SessionWorld, Client], Any], error: StorageError
) -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(subscribe(1))
    client.ask(produce(2))
    client.send_bytes(send_frame(0, b"a"))
    client.received()
    world.store.break_writers(error)
    answer = ask(world, client)
    assert (answer.error, answer.message) == (pb.ServiceNotReady, str(error))


def test_a_request_that_comes_to_a_topic_that_was_closed_meanwhile() -> None:
    world = SessionWorld()
    client = world.client()
    client.ask(subscribe(1))
    world.do(world.topic().log.close())
    refused(unsubscribe(world, client), pb.ServiceNotReady, "was closed")
