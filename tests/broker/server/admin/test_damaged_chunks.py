"""A chunked message of which a damaged chunk was set aside, and what clients get of the rest."""

from collections.abc import Callable

import pulsar
import pytest

import magnetar
from admin_command import done
from admin_http import Admin
from broker.server.admin.test_damage import PATH, TIMEOUT_S, TOPIC, rot
from magnetar_proto import PulsarApi_pb2 as pb
from official import connect, take
from raw_client import RawClient, metadata, send_frame
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]
PARTS = 3
REST = ["plain", "whole", "end"]
LOST = pytest.mark.parametrize("lost", range(PARTS), ids=["first", "middle", "last"])


def part(name: str, number: int) -> bytes:
    return b"<%s %d>" % (name.encode(), number)


def publish(running: RunningBroker) -> None:
    """Publish two chunked messages and two others, each entry with a receipt before the next."""
    with RawClient.of_topic(running.port, TOPIC) as client:
        client.produce(TOPIC)
        for at, name in enumerate(["broken", *REST]):
            if name in ("plain", "end"):
                client.publish(at, name.encode())
                continue
            size = sum(len(part(name, number)) for number in range(PARTS))
            for number in range(PARTS):
                chunk = metadata(
                    at,
                    uuid=name,
                    chunk_id=number,
                    num_chunks_from_msg=PARTS,
                    total_chunk_msg_size=size,
                )
                client.send_bytes(send_frame(at, part(name, number), own_metadata=chunk))
                client.expect(pb.BaseCommand.SEND_RECEIPT)


def name_of(value: bytes) -> str:
    """Return the name of a message, all parts of which must be there in order."""
    name = value.decode().lstrip("<").split(" ")[0]
    whole = b"".join(part(name, number) for number in range(PARTS))
    assert value in (name.encode(), whole)
    return name


def broken(make_broker: Make, lost: int) -> RunningBroker:
    """Start a broker with a chunked message that lacks a part, and other messages behind it."""
    running = make_broker()
    publish(running)
    assert running.stop() == 0
    rot(running.data_dir, part("broken", lost))
    running.start()
    done(running, "topics", "skip-damaged", TOPIC, "--scan")
    return running


def backlog(running: RunningBroker) -> int:
    stats = Admin(running).get(f"{PATH}/stats").json
    return int(stats["subscriptions"]["s"]["msgBacklog"])


@LOST
@pytest.mark.parametrize(
    "kind", pulsar.ConsumerType.__members__.values(), ids=pulsar.ConsumerType.__members__
)
def test_official_clients_get_what_is_whole(
    make_broker: Make, lost: int, kind: pulsar.ConsumerType
) -> None:
    running = broken(make_broker, lost)
    client = connect(running.service_url)
    earliest = pulsar.InitialPosition.Earliest
    consumer = client.subscribe(TOPIC, "s", kind, initial_position=earliest)
    found = take(consumer, len(REST))
    assert [name_of(message.data()) for message in found] == REST
    for message in found:
        consumer.acknowledge(message)
    client.close()
    assert backlog(running) == PARTS - 1, "chunks that no message needs are left"


@LOST
@pytest.mark.parametrize("kind", ["exclusive", "failover", "shared", "key_shared"])
async def test_our_client_gets_what_is_whole_and_can_leave_out_the_rest(
    make_broker: Make, lost: int, kind: str
) -> None:
    running = broken(make_broker, lost)
    async with magnetar.connect(running.service_url) as client:
        consumer = await client.subscribe(
            TOPIC, "s", type=kind, initial_position="earliest", on_unreadable="discard"
        )
        found = [await consumer.receive(TIMEOUT_S) for _ in REST]
        assert [name_of(message.data) for message in found] == REST
        for message in found:
            consumer.ack(message)
        await consumer.flush()
    # Without its last chunk a message is waited for until `chunk_expiry_s`.
    assert backlog(running) == (PARTS - 1 if lost == PARTS - 1 else 0)
