"""Data of earlier releases is served by this one, to the message.

The data in `samples` was written by `write_sample`, by the build that each is named after or
that first wrote what it is named after: `python tests/broker/upgrade/test_upgrade.py FILE.tar.xz`,
with `tests` on the path.  A build that writes anything differently adds one; none is ever changed.
"""

import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakes.archives import unpack
from fakes.world import InlineWorker, InlineWorkers, ManualClock, ManualTasks, run
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.local.store import LocalStore
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk
from raw_client import RawClient, Received, metadata, send_frame
from running_broker import RunningBroker

SAMPLES = Path(__file__).parent / "samples"
PLAIN, HOLES, BATCHES, DENSE = (
    f"persistent://public/default/{name}" for name in ("plain", "holes", "b", "dense")
)
SHARED = pb.CommandSubscribe.Shared
PROPERTIES = [pb.KeyValue(key="team", value="night")]
MESSAGES = 30
MANY = 600
BATCH = 8


def write_sample(directory: Path) -> None:
    """Fill a new data directory, with a stop in good order on the way and a kill at the end."""
    broker = RunningBroker(directory).start()
    try:
        write_acks(broker)
        write_counts(broker)
    finally:
        broker.kill()


def write_acks(broker: RunningBroker) -> None:
    """Of all kinds, before a restart and behind it."""
    with RawClient(broker.port) as client:
        fill(client, PLAIN, MESSAGES)
        fill(client, HOLES, MESSAGES)
        fill(client, BATCHES, 6, BATCH)
        subscribe(client)
        plain, holes, batches = (
            list(receive(client, consumer, last))
            for consumer, last in ((1, MESSAGES), (2, MESSAGES), (3, 6))
        )
        client.ack([(*plain[9], ())], pb.CommandAck.Cumulative, 1)
        client.ack([(*one, ()) for one in holes[1::2]], consumer_id=2)
        client.ack([(*batches[1], [0b11110000])], consumer_id=3)
    broker.restart()
    with RawClient(broker.port) as client:
        subscribe(client)
        client.ack([(*one, ()) for one in (holes[0], holes[10], holes[12])], consumer_id=2)
        client.ack([(*batches[1], [0b01110111]), (*batches[3], ())], consumer_id=3)
        client.ack([(*batches[4], [0b1])], consumer_id=3)
        client.produce(HOLES, 9)
        client.publish(MESSAGES, b"%d" % MESSAGES, 9)


def write_counts(broker: RunningBroker) -> None:
    """What is new in the sample `counts`: those of redeliveries, and very many ack holes."""
    with RawClient(broker.port) as client:
        fill(client, DENSE, MANY)
        client.subscribe(DENSE, "workers", SHARED)
        dense = list(receive(client, 1, MANY))
        client.ack([(*one, ()) for one in dense[1::2]])
        nack(client, dense[0], dense[2])
    broker.restart()
    with RawClient(broker.port) as client:
        client.subscribe(DENSE, "workers", SHARED)
        dense = list(receive(client, 1, MANY - 1))
        nack(client, dense[0], dense[2])
        client.ack([(*dense[-1], ())])


def nack(client: RawClient, *ids: tuple[int, int]) -> None:
    """Let messages come again."""
    positions = [pb.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in ids]
    client.send(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=positions))
    for _ in ids:
        client.next_message()


def fill(client: RawClient, topic: str, count: int, batch: int = 1) -> None:
    producer = client.next_request()
    client.produce(topic, producer)
    for number in range(count):
        own_metadata = metadata(number, num_messages_in_batch=batch)
        frame = send_frame(number, b"%d" % number, producer, own_metadata, num_messages=batch)
        client.send_bytes(frame)
        client.expect(pb.BaseCommand.SEND_RECEIPT)


def subscribe(client: RawClient) -> None:
    """Consumer 1 on the plain topic, 2 and 3 on those with Shared subscriptions."""
    client.subscribe(PLAIN, "untouched", consumer_id=5)
    client.subscribe(PLAIN, "reader", consumer_id=1)
    client.subscribe(HOLES, "workers", SHARED, 2, subscription_properties=PROPERTIES)
    client.subscribe(BATCHES, "workers", SHARED, 3)


def receive(client: RawClient, consumer: int, end: int) -> dict[tuple[int, int], Received]:
    """What comes, up to the message with the number `end - 1`, by its id."""
    client.flow(2 * MANY, consumer)
    found = {}
    while True:
        message = client.next_message()
        position = message.command.message_id
        found[position.ledgerId, position.entryId] = message
        if number_of(message) == end - 1:
            return found


def number_of(message: Received) -> int:
    """What `fill` counted."""
    _, payload_at = parse_metadata(message.entry)
    return int(message.entry[payload_at:])


def left(client: RawClient, consumer: int, end: int) -> list[tuple[int, list[int], int]]:
    """All that a consumer gets: number, ack set, redelivery count."""
    found = receive(client, consumer, end)
    client.ping()
    assert not client.has_message()
    return [
        (number_of(one), list(one.command.ack_set), one.command.redelivery_count)
        for one in found.values()
    ]


def check_acks(client: RawClient) -> None:
    """What `write_acks` left."""
    acked = {*range(1, MESSAGES, 2), 0, 10, 12}
    assert left(client, 1, MESSAGES) == [(n, [], 0) for n in range(10, MESSAGES)]
    assert left(client, 5, MESSAGES) == [(n, [], 0) for n in range(MESSAGES)]
    assert left(client, 2, MESSAGES + 1) == [
        (n, [], 0) for n in range(MESSAGES + 1) if n not in acked
    ]
    assert left(client, 3, 6) == [
        (0, [], 0), (1, [0b01110000], 0), (2, [], 0), (4, [0b1], 0), (5, [], 0),
    ]  # fmt: skip


def check_counts(client: RawClient) -> None:
    """What `write_counts` left."""
    client.subscribe(DENSE, "workers", SHARED, 4)
    counts = {0: 2, 2: 1, 4: 1}
    assert left(client, 4, MANY - 3) == [(n, [], counts.get(n, 0)) for n in range(0, MANY - 3, 2)]


CHECKS = {"26de619": (check_acks,), "counts": (check_acks, check_counts)}


@pytest.mark.parametrize("sample", CHECKS)
def test_what_was_not_acknowledged_is_served_and_nothing_else(sample: str, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    unpack(SAMPLES / f"{sample}.tar.xz", directory)
    broker = RunningBroker(directory).start()
    try:
        with RawClient(broker.port) as client:
            subscribe(client)
            for check in CHECKS[sample]:
                check(client)
    finally:
        broker.close()
    assert properties_of(directory, HOLES) == {"workers": {"team": "night"}}


def properties_of(directory: Path, topic: str) -> dict[str, dict[str, str]]:
    """The properties of each subscription, from the files."""
    clock, disk = ManualClock(), LocalDisk(str(directory))
    store = run(LocalStore.open(disk, InlineWorkers(clock), clock), clock)
    metadata = run(SqliteMetadata.open(disk, InlineWorker(clock), clock), clock)
    engine = Engine(store, metadata, EntryCache(0), clock, ManualTasks(clock))
    log = run(Log.open(topic_key(TopicName.parse(topic)), engine, create=False), clock)
    assert log is not None
    cursors = run(CursorLog.open(log), clock)
    run(store.close(), clock)
    run(metadata.close(), clock)
    return {name: cursor.properties for name, cursor in cursors.cursors.items()}


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        write_sample(Path(made, "data"))
        with tarfile.open(sys.argv[1], "x:xz") as archive:
            archive.add(Path(made, "data"), ".")
