"""Tenants, namespaces, partitions, policies, delays and producers' numbers of an earlier release.

`samples/names.tar.xz` was written by `write_sample`, by the last build whose tenants and
namespaces came with their first topic only:
`python tests/broker/upgrade/test_upgrade_names.py FILE.tar.xz`,
with that build and `tests` on the path.  It is never changed.
"""

import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from admin_http import Admin
from fakes.archives import unpack
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from raw_client import RawClient, Received, metadata, send_frame
from running_broker import RunningBroker

SAMPLE = Path(__file__).parent / "samples" / "names.tar.xz"
PLAIN, PARTED = "public/default/orders", "public/default/parted"
EUROPE, SECRET = "shop/europe", "shop/secret"
LATER, NUMBERED = f"{EUROPE}/later", f"{EUROPE}/numbered"
SHARED = pb.CommandSubscribe.Shared
MESSAGES, PARTITIONS = 20, 3
FAR_MS = 1 << 42
"""A time in the distant future."""
TOPIC_DELAYS = {"active": True, "tickTime": 250, "maxDeliveryDelayInMillis": 0}
NAMESPACE_DELAYS = {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 0}


def write_sample(directory: Path) -> None:
    """Fill a new data directory; a kill ends it."""
    broker = RunningBroker(directory).start()
    try:
        with RawClient(broker.port) as client:
            _write_topics(client, broker)
            _write_policies(client, broker)
            _write_delays(client)
    finally:
        broker.kill()


def _write_topics(client: RawClient, broker: RunningBroker) -> None:
    _fill(client, PLAIN)
    client.subscribe(f"persistent://{PLAIN}", "workers", SHARED)
    found = _received(client, 1, MESSAGES)
    client.ack([(*one, ()) for one in list(found)[1::2]])
    client.subscribe(f"persistent://{PLAIN}", "untouched", consumer_id=2)
    _ask(broker, "PUT", f"persistent/{PARTED}/partitions", PARTITIONS)
    for partition in range(PARTITIONS):
        _fill(client, f"{PARTED}-partition-{partition}", MESSAGES + partition)


def _write_policies(client: RawClient, broker: RunningBroker) -> None:
    client.produce(f"persistent://{LATER}", 50)
    client.produce(f"persistent://{SECRET}/topic", 51)
    for path, body in (
        (f"namespaces/{EUROPE}/deduplication", True),
        (f"namespaces/{EUROPE}/delayedDelivery", NAMESPACE_DELAYS),
        (f"namespaces/{SECRET}/encryptionRequired", True),
        (f"persistent/{PLAIN}/deduplicationEnabled", False),
        (f"persistent/{LATER}/delayedDelivery", TOPIC_DELAYS),
    ):
        _ask(broker, "POST", path, body)
    _fill(client, NUMBERED, producer_name="raw")


def _write_delays(client: RawClient) -> None:
    client.subscribe(f"persistent://{LATER}", "workers", SHARED, consumer_id=3)
    for number in range(MESSAGES):
        delay = {"deliver_at_time": FAR_MS} if number % 2 else {}
        body = metadata(number, **delay)
        client.send_bytes(send_frame(number, b"%d" % number, 50, body))
        client.expect(pb.BaseCommand.SEND_RECEIPT)


def _fill(client: RawClient, name: str, count: int = MESSAGES, **fields: Any) -> None:
    producer = client.next_request()
    client.produce(f"persistent://{name}", producer, **fields)
    for number in range(count):
        client.publish(number, b"%d" % number, producer)


def _received(client: RawClient, consumer: int, count: int) -> dict[tuple[int, int], Received]:
    """So many messages by their ids; not one more comes."""
    client.flow(2 * MESSAGES, consumer)
    found = {}
    for _ in range(count):
        message = client.next_message()
        position = message.command.message_id
        found[position.ledgerId, position.entryId] = message
    client.ping()
    assert not client.has_message()
    return found


def _numbers(client: RawClient, consumer: int, count: int) -> list[int]:
    entries = [one.entry for one in _received(client, consumer, count).values()]
    return [int(entry[parse_metadata(entry)[1] :]) for entry in entries]


def _ask(broker: RunningBroker, method: str, path: str, body: object = None) -> Any:
    answer = Admin(broker).ask(method, path, body)
    assert answer.status < 300, answer.body
    return answer.json if answer.body else None


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """This release on the data of the earlier one."""
    directory = tmp_path_factory.mktemp("upgrade") / "data"
    unpack(SAMPLE, directory)
    running = RunningBroker(directory).start()
    yield running
    running.close()


def test_messages_are_served_to_the_message(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        client.subscribe(f"persistent://{PLAIN}", "workers", SHARED)
        assert _numbers(client, 1, MESSAGES // 2) == list(range(0, MESSAGES, 2))
        client.subscribe(f"persistent://{PLAIN}", "untouched", consumer_id=2)
        assert _numbers(client, 2, MESSAGES) == list(range(MESSAGES))


def test_partitions_are_those_that_were(broker: RunningBroker) -> None:
    assert _ask(broker, "GET", f"persistent/{PARTED}/partitions")["partitions"] == PARTITIONS
    with RawClient(broker.port) as client:
        for partition in range(PARTITIONS):
            topic = f"persistent://{PARTED}-partition-{partition}"
            client.subscribe(topic, "late", consumer_id=partition)
            count = MESSAGES + partition
            assert _numbers(client, partition, count) == list(range(count))


def test_tenants_are_made_up_for_the_namespaces_there_are(broker: RunningBroker) -> None:
    assert set(_ask(broker, "GET", "tenants")) >= {"public", "pulsar", "shop"}
    assert _ask(broker, "GET", "tenants/shop")["allowedClusters"] == ["standalone"]
    assert _ask(broker, "GET", "namespaces/shop") == [EUROPE, SECRET]
    listed = _ask(broker, "GET", f"namespaces/{EUROPE}/topics")
    assert listed == [f"persistent://{LATER}", f"persistent://{NUMBERED}"]


def test_policies_are_kept(broker: RunningBroker) -> None:
    for path, body in (
        (f"namespaces/{EUROPE}/deduplication", True),
        (f"namespaces/{EUROPE}/delayedDelivery", NAMESPACE_DELAYS),
        (f"namespaces/{SECRET}/encryptionRequired", True),
        (f"persistent/{PLAIN}/deduplicationEnabled", False),
        (f"persistent/{LATER}/delayedDelivery", TOPIC_DELAYS),
        (f"persistent/{NUMBERED}/deduplicationEnabled?applied=true", True),
    ):
        assert _ask(broker, "GET", path) == body, path
    read = _ask(broker, "GET", f"namespaces/{EUROPE}")
    assert read["deduplicationEnabled"] is True
    assert read["delayed_delivery_policies"] == NAMESPACE_DELAYS


def test_policies_are_enforced(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        answer = client.produce(f"persistent://{SECRET}/topic")
        assert isinstance(answer, pb.CommandError), answer


def test_numbers_of_producers_are_known(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        answer = client.produce(f"persistent://{NUMBERED}", producer_name="raw")
        assert answer.last_sequence_id == MESSAGES - 1
        again, new = client.publish(MESSAGES - 1, b"again"), client.publish(MESSAGES, b"new")
        assert again.ledgerId == again.entryId == 2**64 - 1
        assert new.ledgerId != 2**64 - 1


def test_what_is_delayed_waits_on(broker: RunningBroker) -> None:
    with RawClient(broker.port) as client:
        client.subscribe(f"persistent://{LATER}", "workers", SHARED)
        assert _numbers(client, 1, MESSAGES // 2) == list(range(0, MESSAGES, 2))
        stats = client.request(pb.CommandConsumerStats(consumer_id=1, request_id=0))
        assert stats.msgBacklog == MESSAGES


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        write_sample(Path(made, "data"))
        with tarfile.open(sys.argv[1], "x:xz") as archive:
            archive.add(Path(made, "data"), ".")
