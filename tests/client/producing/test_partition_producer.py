"""A producer of one partition, and what its broker may answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fakes.client_clock import ManualClock
from fakes.client_wire import Wire
from magnetar.base.errors import (
    Closed,
    MagnetarError,
    NotAllowed,
    OperationTimeout,
    QueueFull,
    TopicTerminated,
)
from magnetar.base.settings import Address, Settings
from magnetar.connections.connection import Connection
from magnetar.connections.pool import Pool
from magnetar.producing.batching import UNBATCHED, BatchLimits
from magnetar.producing.options import ProducerOptions
from magnetar.producing.partition_producer import PartitionProducer
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.ids import MessageId

PRODUCER_ID = 7


class Scene:
    """A registered producer, its connection, and the broker's side of the wire."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.settings = Settings(clock=self.clock)
        self.producer = PartitionProducer(
            Pool("pulsar://broker", self.settings),
            self.settings,
            PRODUCER_ID,
            "topic",
            -1,
            ProducerOptions(**{"batching": UNBATCHED, **options}),
        )
        self.connection, self.wire = self.connect()

    def connect(self) -> tuple[Connection, Wire]:
        connection = Connection(Address("broker", 1), self.settings)
        wire = Wire(connection)
        connection.connection_made(wire)
        connection._connected.set_result(pb.CommandConnected(server_version="x"))
        return connection, wire

    async def register(self, last_sequence_id: int = -1) -> pb.CommandProducer:
        registering = asyncio.create_task(self.producer._register(self.connection))
        await asyncio.sleep(0)
        asked = self.wire.take()[0].producer
        self.connection.data_received(
            encode(
                pb.CommandProducerSuccess(
                    request_id=asked.request_id,
                    producer_name="named",
                    last_sequence_id=last_sequence_id,
                )
            )
        )
        await registering
        self.producer._registration.connection = self.connection
        return asked

    def sent(self) -> list[int]:
        """The sequence ids of the SENDs since the last call."""
        commands = self.wire.take()
        assert all(command.type == pb.BaseCommand.SEND for command in commands)
        return [command.send.sequence_id for command in commands]

    def receipt(self, sequence_id: int, entry: int) -> None:
        answer = pb.CommandSendReceipt(producer_id=PRODUCER_ID, sequence_id=sequence_id)
        answer.message_id.CopyFrom(MessageId(1, entry).to_pb())
        self.connection.data_received(encode(answer))

    def refuse(self, sequence_id: int, code: "pb.ServerError") -> None:
        self.connection.data_received(
            encode(
                pb.CommandSendError(
                    producer_id=PRODUCER_ID, sequence_id=sequence_id, error=code, message="no"
                )
            )
        )


@asynccontextmanager
async def play(**options: Any) -> AsyncIterator[Scene]:
    """A scene with a registered producer, which is closed at the end."""
    scene = Scene(**options)
    await scene.register()
    try:
        yield scene
    finally:
        scene.producer._end(Closed("the scene is over"))
        await scene.producer._registration.close()


async def test_receipts_come_in_order_and_repeated_ones_are_harmless() -> None:
    async with play() as scene:
        receipts = [scene.producer.add(b"x") for _ in range(3)]
        assert scene.sent() == [0, 1, 2]
        scene.receipt(0, entry=10)
        scene.receipt(0, entry=99)
        scene.receipt(1, entry=11)
        assert [receipt.done() for receipt in receipts] == [True, True, False]
        assert [await receipt for receipt in receipts[:2]] == [MessageId(1, 10), MessageId(1, 11)]
        assert scene.connection.is_open


async def test_a_receipt_out_of_turn_ends_the_connection_and_nothing_is_believed() -> None:
    async with play() as scene:
        receipt = scene.producer.add(b"x")
        scene.producer.add(b"y")
        scene.receipt(1, entry=10)
        assert not scene.connection.is_open
        assert not receipt.done()


async def test_unanswered_messages_are_sent_again_under_the_same_name_and_numbers() -> None:
    async with play() as scene:
        for _ in range(3):
            scene.producer.add(b"x")
        scene.receipt(0, entry=10)
        scene.connection.close()
        waiting = scene.producer.add(b"while disconnected")
        scene.connection, scene.wire = scene.connect()
        registering = asyncio.create_task(scene.register(last_sequence_id=100))
        asked = await registering
        assert (asked.producer_name, asked.epoch) == ("named", 1)
        assert scene.sent() == [1, 2, 3]
        for sequence_id in (1, 2, 3):
            scene.receipt(sequence_id, entry=sequence_id)
        assert await waiting == MessageId(1, 3)


async def test_sequence_ids_continue_where_the_broker_answers() -> None:
    scene = Scene()
    asked = await scene.register(last_sequence_id=41)
    assert not asked.HasField("producer_name")
    assert not asked.user_provided_producer_name
    scene.producer.add(b"x")
    assert scene.sent() == [42]
    await scene.producer._registration.close()


async def test_what_is_not_allowed_fails_alone() -> None:
    async with play() as scene:
        refused, other = scene.producer.add(b"x"), scene.producer.add(b"y")
        scene.refuse(0, pb.NotAllowedError)
        scene.receipt(1, entry=3)
        with pytest.raises(NotAllowed, match="no"):
            await refused
        assert await other == MessageId(1, 3)
        await scene.producer.flush()


async def test_flush_raises_failures_that_were_not_retrieved() -> None:
    async with play() as scene:
        seen = scene.producer.add(b"x")
        scene.producer.add(b"y")
        scene.refuse(0, pb.NotAllowedError)
        scene.refuse(1, pb.NotAllowedError)
        with pytest.raises(NotAllowed):
            await seen
        with pytest.raises(NotAllowed):
            await scene.producer.flush()
        await scene.producer.flush()


async def test_a_terminated_topic_ends_the_producer() -> None:
    async with play() as scene:
        receipts = [scene.producer.add(b"x") for _ in range(2)]
        scene.refuse(0, pb.TopicTerminatedError)
        for receipt in receipts:
            with pytest.raises(TopicTerminated):
                await receipt
        with pytest.raises(TopicTerminated):
            scene.producer.add(b"y")


@pytest.mark.parametrize("code", [pb.ChecksumError, pb.PersistenceError, pb.UnknownError])
async def test_other_refusals_begin_anew(code: "pb.ServerError") -> None:
    async with play() as scene:
        receipt = scene.producer.add(b"x")
        scene.refuse(0, code)
        assert not scene.connection.is_open
        assert not receipt.done()


async def test_room_is_counted_in_messages_and_bytes() -> None:
    async with play(max_pending_bytes=1000) as scene:
        scene.producer.add(bytes(500))
        scene.producer.add(bytes(500))
        with pytest.raises(QueueFull, match="2 messages to topic have no receipt"):
            scene.producer.add(b"")
        waiting = asyncio.create_task(scene.producer.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        scene.receipt(0, entry=0)
        await waiting
        assert scene.producer.has_room()


async def test_no_receipt_in_time() -> None:
    async with play(send_timeout_s=2) as scene:
        receipt = scene.producer.add(b"x")
        await asyncio.sleep(0)
        scene.clock.advance(1)
        later = scene.producer.add(b"y")
        await asyncio.sleep(0)
        scene.clock.advance(1)
        with pytest.raises(OperationTimeout, match=r"within 2 s; whether .* is unknown"):
            await receipt
        assert not later.done()
        scene.clock.advance(1)
        assert later.done()
        scene.receipt(0, entry=9)
        assert scene.connection.is_open, "a late receipt is no offence"


async def test_messages_wait_for_company_only_while_others_are_on_the_way() -> None:
    async with play(batching=BatchLimits(max_delay_ms=10)) as scene:
        scene.producer.add(b"first")
        scene.producer.add(b"same turn")
        assert scene.sent() == []
        await asyncio.sleep(0)
        assert scene.sent() == [0]
        scene.producer.add(b"waits")
        await asyncio.sleep(0)
        assert scene.sent() == []
        scene.receipt(0, entry=0)
        assert scene.sent() == [2], "nothing is on the way any more"
        scene.producer.add(b"waits in vain")
        await asyncio.sleep(0)
        scene.clock.advance(0.009)
        await asyncio.sleep(0)
        assert scene.sent() == []
        scene.clock.advance(0.001)
        await asyncio.sleep(0)
        assert scene.sent() == [3], "but not longer than that"


async def test_a_registration_that_fails_is_taken_back() -> None:
    scene = Scene()
    registering = asyncio.create_task(scene.producer._register(scene.connection))
    await asyncio.sleep(0)
    asked = scene.wire.take()[0].producer
    scene.connection.data_received(
        encode(
            pb.CommandError(request_id=asked.request_id, error=pb.ServiceNotReady, message="later")
        )
    )
    with pytest.raises(MagnetarError, match="later"):
        await registering
    assert [command.type for command in scene.wire.take()] == [pb.BaseCommand.CLOSE_PRODUCER]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"compression": "rar"}, "known are none, lz4"),
        ({"max_pending_messages": 0}, "must be at least 1"),
        ({"max_pending_bytes": 0}, "must be at least 1"),
        ({"send_timeout_s": 0}, "must be above 0, but is 0"),
    ],
)
def test_options_that_cannot_be(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ProducerOptions(**wrong)
