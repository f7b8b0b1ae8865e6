"""A connection driven by hand: answers, refusals, silence, and violations of the protocol."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fakes.client_clock import ManualClock
from fakes.client_entries import stored
from fakes.client_wire import Wire
from magnetar.auth import Authentication, Token
from magnetar.base.errors import (
    BrokerError,
    ConnectionLost,
    MagnetarError,
    NotFound,
    NotReady,
    OperationTimeout,
)
from magnetar.base.settings import Address, Settings
from magnetar.connections.connection import Connection
from magnetar.security.authentication import Bearer
from magnetar.security.security import Security
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import PROTOCOL_VERSION, encode
from magnetar_proto.deliveries import DeliveryRun, encode_message
from magnetar_proto.ids import MessageId

NO_REQUEST = 2**64 - 1


class End:
    """A producer and consumer that records its callbacks."""

    def __init__(self) -> None:
        self.reported: list[Any] = []

    def receipt_rcvd(self, _: Connection, sequence_id: int, ledger: int, entry: int) -> None:
        self.reported.append(("receipt", sequence_id, ledger, entry))

    def send_error_rcvd(self, _: Connection, error: pb.CommandSendError) -> None:
        self.reported.append(("refused", error.sequence_id, error.message))

    def entries_rcvd(self, run: DeliveryRun) -> None:
        for number, entry in zip(run.entries, run.payloads, strict=True):
            self.reported.append(("entry", run.head.ledger, number, entry))

    def damaged(self, first: MessageId, entries: int, why: str) -> None:
        self.reported.append(("damaged", first, entries, why))

    def active_changed(self, is_active: bool) -> None:
        self.reported.append(("active", is_active))

    def end_reached(self) -> None:
        self.reported.append(("end",))

    def detached(self, _: Connection, error: MagnetarError, new_owner: str = "") -> None:
        self.reported.append(("detached", type(error), new_owner))


@asynccontextmanager
async def connected(**settings: Any) -> AsyncIterator[tuple[Connection, Wire]]:
    """Yield a connection before its handshake; it is closed at the end."""
    connection = Connection(Address("broker", 1), Settings(**settings))
    wire = Wire(connection)
    connection.connection_made(wire)
    try:
        yield connection, wire
    finally:
        connection.close()


async def test_a_peer_that_did_not_accept_the_connection_is_not_waited_for() -> None:
    """It may not answer the end of TLS, and the socket would be open until its time limit."""
    async with connected() as (_, wire):
        pass
    assert wire.is_aborted
    async with connected() as (connection, wire):
        connection.data_received(b"HTTP/1.1 400 Bad Request")
    assert wire.is_aborted
    async with connected() as (connection, wire):
        connection._connected.set_result(pb.CommandConnected(server_version="x"))
    assert wire.is_closed and not wire.is_aborted


async def test_answers_find_their_requests_in_any_order() -> None:
    async with connected() as (connection, wire):
        first, second = (
            asyncio.create_task(connection.request(pb.CommandLookupTopic(topic=topic)))
            for topic in ("a", "b")
        )
        await asyncio.sleep(0)
        asked = [command.lookupTopic for command in wire.take()]
        for question in reversed(asked):
            answer = pb.CommandLookupTopicResponse(
                request_id=question.request_id,
                response=pb.CommandLookupTopicResponse.Connect,
                brokerServiceUrl=f"pulsar://{question.topic}",
            )
            connection.data_received(encode(answer))
        assert (await first).brokerServiceUrl == "pulsar://a"
        assert (await second).brokerServiceUrl == "pulsar://b"


async def test_a_refusal_reaches_only_its_request() -> None:
    async with connected() as (connection, wire):
        connection._connected.set_result(pb.CommandConnected(server_version="x"))
        asked = asyncio.create_task(connection.request(pb.CommandUnsubscribe(consumer_id=1)))
        await asyncio.sleep(0)
        request_id = wire.take()[0].unsubscribe.request_id
        connection.data_received(
            encode(pb.CommandError(request_id=999, error=pb.UnknownError, message="not ours"))
        )
        connection.data_received(
            encode(
                pb.CommandError(request_id=request_id, error=pb.TopicNotFound, message="no such")
            )
        )
        with pytest.raises(NotFound, match="no such"):
            await asked
        assert connection.is_open


async def test_an_error_about_the_connection_ends_it() -> None:
    async with connected() as (connection, wire):
        connection._connected.set_result(pb.CommandConnected(server_version="x"))
        asked = asyncio.create_task(connection.request(pb.CommandUnsubscribe(consumer_id=1)))
        await asyncio.sleep(0)
        connection.data_received(
            encode(
                pb.CommandError(request_id=NO_REQUEST, error=pb.ServiceNotReady, message="later")
            )
        )
        with pytest.raises(NotReady, match="later"):
            await asked
        assert wire.is_closed


async def test_no_answer_is_a_timeout_that_names_the_request(clock: ManualClock) -> None:
    async with connected(operation_timeout_s=2, clock=clock) as (connection, _):
        asked = asyncio.create_task(connection.request(pb.CommandSeek(consumer_id=1)))
        await asyncio.sleep(0)
        clock.advance(1.9)
        await asyncio.sleep(0)
        assert not asked.done()
        clock.advance(0.1)
        with pytest.raises(
            OperationTimeout, match=r"broker:1 did not answer CommandSeek within 2 s"
        ):
            await asked
        await asyncio.sleep(0)
        assert not connection._answers, "the request is forgotten"


async def test_ping_is_answered() -> None:
    async with connected() as (connection, wire):
        connection.data_received(encode(pb.CommandPing()))
        assert [command.type for command in wire.take()] == [pb.BaseCommand.PONG]


async def test_a_silent_peer_is_probed_and_then_left(clock: ManualClock) -> None:
    async with connected(keepalive_s=30, clock=clock) as (connection, wire):
        end = End()
        connection.add_consumer(1, end)
        shaking_hands = asyncio.create_task(connection._shake_hands("", None))
        await asyncio.sleep(0)
        connection.data_received(encode(pb.CommandConnected(server_version="x")))
        await shaking_hands
        wire.take()
        clock.advance(30)
        assert wire.take() == [], "a frame came since the last probe"
        clock.advance(30)
        assert [command.type for command in wire.take()] == [pb.BaseCommand.PING]
        connection.data_received(encode(pb.CommandPong()))
        clock.advance(60)
        assert [command.type for command in wire.take()] == [pb.BaseCommand.PING]
        clock.advance(29.9)
        assert connection.is_open
        clock.advance(0.1)
        assert wire.is_closed
        assert not connection.is_open
        assert end.reported == [("detached", ConnectionLost, "")]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x00\x00\x01\x00\x00\x00\x09",
        b"\x7f\xff\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x07",
    ],
)
async def test_a_peer_that_breaks_the_rules_is_left(garbage: bytes) -> None:
    async with connected() as (connection, wire):
        end = End()
        connection.add_producer(1, end)
        good = pb.CommandSendReceipt(producer_id=1, sequence_id=5)
        good.message_id.CopyFrom(MessageId(3, 4).to_pb())
        connection.data_received(encode(good) + garbage)
        assert end.reported == [("receipt", 5, 3, 4), ("detached", ConnectionLost, "")]
        assert wire.is_closed
        with pytest.raises(ConnectionLost, match="is closed"):
            connection.write(b"")
        with pytest.raises(ConnectionLost, match="is closed"):
            connection.expect()


async def test_frames_reach_their_ends_even_in_pieces() -> None:
    async with connected() as (connection, _):
        producer, consumer = End(), End()
        connection.add_producer(1, producer)
        connection.add_consumer(2, consumer)
        payload = stored([b"value"])
        head = encode_message(2, 7, 8, -1, payload)
        refusal = pb.CommandSendError(
            producer_id=1, sequence_id=9, error=pb.NotAllowedError, message="no"
        )
        stranger = pb.CommandSendReceipt(producer_id=77, sequence_id=1)
        stranger.message_id.CopyFrom(MessageId(1, 1).to_pb())
        change = pb.CommandActiveConsumerChange(consumer_id=2, is_active=True)
        damage = pb.CommandActiveConsumerChange(
            consumer_id=2, is_active=True, magnetar_damaged_entries=3, magnetar_damage="rot"
        )
        damage.magnetar_damaged.CopyFrom(MessageId(7, 9, partition=4).to_pb())
        data = head + payload + encode(refusal) + encode(stranger) + encode(change)
        data += encode(damage)
        for index in range(len(data)):
            connection.data_received(data[index : index + 1])
        assert consumer.reported == [
            ("entry", 7, 8, payload),
            ("active", True),
            ("damaged", MessageId(7, 9, partition=4), 3, "rot"),
        ]
        assert producer.reported == [("refused", 9, "no")]


async def test_what_the_broker_closes_is_notified_once() -> None:
    async with connected() as (connection, _):
        producer, consumer = End(), End()
        connection.add_producer(1, producer)
        connection.add_consumer(2, consumer)
        connection.data_received(
            encode(pb.CommandCloseProducer(producer_id=1, request_id=NO_REQUEST))
            + encode(pb.CommandCloseConsumer(consumer_id=2, request_id=NO_REQUEST))
        )
        connection.close()
        assert producer.reported == consumer.reported == [("detached", ConnectionLost, "")]


async def test_what_the_broker_moves_is_notified_with_the_new_owner() -> None:
    async with connected() as (connection, _):
        producer, consumer = End(), End()
        connection.add_producer(1, producer)
        connection.add_consumer(2, consumer)
        moved: dict[str, Any] = {
            "request_id": NO_REQUEST,
            "assignedBrokerServiceUrl": "pulsar://two:1",
        }
        connection.data_received(
            encode(pb.CommandCloseProducer(producer_id=1, **moved))
            + encode(pb.CommandCloseConsumer(consumer_id=2, **moved))
        )
        connection.close()
        expected = [("detached", ConnectionLost, "pulsar://two:1")]
        assert producer.reported == consumer.reported == expected


async def test_a_refused_ack_is_an_error() -> None:
    async with connected() as (connection, _):
        request_id, answer = connection.expect()
        connection.data_received(
            encode(
                pb.CommandAckResponse(
                    consumer_id=1, request_id=request_id, error=pb.NotAllowedError, message="no"
                )
            )
        )
        with pytest.raises(BrokerError, match="NotAllowedError: no"):
            await answer


class Counting(Bearer):
    """Returns a new token for each call, which says whether the broker asked for it."""

    def __init__(self) -> None:
        self.calls = 0

    def token(self, *, renewed: bool = False) -> str:
        self.calls += 1
        return f"{'renewed' if renewed else 'first'}-{self.calls}"


async def challenged(security: Security) -> tuple[Connection, Wire]:
    """Return a connection on which the broker has asked for new credentials."""
    connection = Connection(Address("broker", 1), Settings(), security)
    wire = Wire(connection)
    connection.connection_made(wire)
    connection._connected.set_result(pb.CommandConnected(server_version="x"))
    challenge = pb.CommandAuthChallenge()
    challenge.challenge.auth_data = b"PulsarAuthRefresh"
    connection.data_received(encode(challenge) * 2)
    assert connection._renewing is not None
    await asyncio.gather(connection._renewing, return_exceptions=True)
    return connection, wire


async def test_new_credentials_are_shown_when_the_broker_asks() -> None:
    connection, wire = await challenged(Security(Counting()))
    (answer,) = [command.authResponse for command in wire.take()]
    assert answer.response.auth_method_name == "token"
    assert answer.response.auth_data == b"renewed-1"
    assert answer.protocol_version == PROTOCOL_VERSION
    connection.close()


@pytest.mark.parametrize("auth", [None, Token(Path("/does/not/exist"))])
async def test_what_cannot_be_renewed_ends_the_connection(auth: Authentication | None) -> None:
    connection, _ = await challenged(Security(auth))
    with pytest.raises(ConnectionLost):
        connection.write(b"")
    assert not connection.is_open


async def test_a_refused_renewal_is_a_lost_connection_to_those_that_wait() -> None:
    async with connected() as (connection, _):
        connection._connected.set_result(pb.CommandConnected(server_version="x"))
        asked = asyncio.create_task(connection.request(pb.CommandUnsubscribe(consumer_id=1)))
        await asyncio.sleep(0)
        error = pb.CommandError(
            request_id=NO_REQUEST, error=pb.AuthenticationError, message="Failed to authenticate"
        )
        connection.data_received(encode(error))
        with pytest.raises(ConnectionLost, match="Failed to authenticate"):
            await asked
