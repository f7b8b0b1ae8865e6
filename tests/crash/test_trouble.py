"""Clients of a daemon that lacks room or file descriptors, or waits for a dead client."""

import http.client
import resource
import select
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count

import psutil
import pulsar
import pytest

from fakes.waiting import HANGS_SECONDS, LOOK_SECONDS
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from official import TIMEOUT_MS, connect
from raw_client import Closed, Kind, RawClient, send_frame
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]

TOPIC = "persistent://public/default/trouble"
MEGABYTE = 1 << 20
CLIENTS = 80


@contextmanager
def limited(broker: RunningBroker, what: int, least: int) -> Iterator[None]:
    """Lower a resource limit of the daemon within the block."""
    soft, hard = resource.prlimit(broker.pid, what)
    resource.prlimit(broker.pid, what, (least, hard))
    try:
        yield
    finally:
        resource.prlimit(broker.pid, what, (soft, hard))


def publish(client: RawClient, numbers: Iterator[int], messages: int, size: int) -> list[int]:
    """Publish one by one; return the numbers confirmed before the broker gave up."""
    confirmed: list[int] = []
    for number in (next(numbers) for _ in range(messages)):
        client.send_bytes(send_frame(number, b"x" * size))
        answer = client.await_frame(
            lambda frame: frame.kind in (Kind.SEND_RECEIPT, Kind.CLOSE_PRODUCER)
        )
        if answer.kind == Kind.CLOSE_PRODUCER:
            return confirmed
        assert answer.command.sequence_id == number
        confirmed.append(number)
    return confirmed


def stored(broker: RunningBroker) -> list[int]:
    """Return the numbers of the messages in the topic."""
    with RawClient(broker.port) as client:
        client.subscribe(TOPIC, "reading", durable=False)
        last = client.request(pb.CommandGetLastMessageId(consumer_id=1, request_id=0))
        client.flow(1_000_000)
        numbers = []
        while True:
            received = client.next_message()
            numbers.append(parse_metadata(received.entry)[0].sequence_id)
            place = received.command.message_id
            if (place.ledgerId, place.entryId) == (
                last.last_message_id.ledgerId, last.last_message_id.entryId,
            ):  # fmt: skip
                return numbers


def test_no_room_for_a_while(make_broker: Make) -> None:
    """Only stored messages are confirmed, and publishing resumes when there is room again."""
    broker, numbers = make_broker(), count()
    with RawClient(broker.port) as client:
        client.produce(TOPIC)
        confirmed = publish(client, numbers, 4, MEGABYTE)
        with limited(broker, resource.RLIMIT_FSIZE, 2 * MEGABYTE):
            assert publish(client, numbers, 4, MEGABYTE) == []
            client.ping()
            assert "no room to write" in broker.log
            refused = client.produce(TOPIC, producer_id=2)
            assert isinstance(refused, pb.CommandError)
            assert refused.error == pb.ProducerBlockedQuotaExceededException
            assert "no room to write" in refused.message
        await_health(broker)
        assert isinstance(client.produce(TOPIC, producer_id=1), pb.CommandProducerSuccess)
        confirmed += publish(client, numbers, 4, MEGABYTE)
    assert len(confirmed) == 8
    assert stored(broker) == confirmed
    broker.kill()
    broker.start()
    assert stored(broker) == confirmed
    assert "Traceback" not in broker.log


def test_the_health_check_shows_that_there_is_no_room(make_broker: Make) -> None:
    broker = make_broker()
    assert health(broker) == (200, "ok")
    with limited(broker, resource.RLIMIT_FSIZE, 1):
        status, reason = health(broker)
        assert status == 503 and "no room to write" in reason
        assert health(broker, "ready") == (200, "ok")
    await_health(broker)
    assert "Traceback" not in broker.log


def await_health(broker: RunningBroker) -> None:
    """Wait until the broker has noticed that there is room again."""
    give_up_at = time.monotonic() + HANGS_SECONDS
    while health(broker) != (200, "ok"):
        assert time.monotonic() < give_up_at, health(broker)
        time.sleep(LOOK_SECONDS)


def health(broker: RunningBroker, what: str = "health") -> tuple[int, str]:
    """Return status and text of the daemon's health, or of its readiness."""
    with closing(http.client.HTTPConnection("127.0.0.1", broker.http_port)) as web:
        web.request("GET", f"/admin/v2/brokers/{what}")
        answer = web.getresponse()
        return answer.status, answer.read().decode()


def test_an_official_producer_lives_through_a_time_without_room(make_broker: Make) -> None:
    """Messages sent meanwhile fail with the reason; then the same producer continues by itself."""
    broker = make_broker()
    client = connect(broker.service_url)
    client.subscribe(TOPIC, "kept").close()
    producer = client.create_producer(TOPIC, send_timeout_millis=0, block_if_queue_full=True)
    results: list[tuple[int, pulsar.Result]] = []

    def publish_some(size: int) -> None:
        for _ in range(4):
            producer.send_async(bytes(size), lambda result, _: results.append((size, result)))
        with suppress(pulsar.ProducerBlockedQuotaExceededException):
            producer.flush()

    publish_some(MEGABYTE)
    with limited(broker, resource.RLIMIT_FSIZE, 2 * MEGABYTE):
        publish_some(MEGABYTE)
        with pytest.raises(pulsar.ProducerBlockedQuotaExceededException):
            producer.send(b"refused")
    await_health(broker)
    while results[-1] != (10, pulsar.Result.Ok):
        publish_some(10)
    refused = pulsar.Result.ProducerBlockedQuotaExceededException
    assert {result for _, result in results} == {pulsar.Result.Ok, refused}
    assert results[:4] == [(MEGABYTE, pulsar.Result.Ok)] * 4
    consumer = client.subscribe(TOPIC, "kept")
    stored = [size for size, result in results if result == pulsar.Result.Ok]
    received = [len(consumer.receive(timeout_millis=TIMEOUT_MS).data()) for _ in stored]
    assert received == stored
    client.close()
    assert broker.log.count("nothing can be published") == 1
    assert broker.log.count("messages are taken again") == 1


def test_too_many_clients_leave_descriptors_for_files(make_broker: Make) -> None:
    """Connections above the limit are closed; the others and the storage are served."""
    broker, numbers = make_broker(), count()
    daemon = psutil.Process(broker.pid)
    with RawClient(broker.port) as client:
        client.produce(TOPIC)
        confirmed = publish(client, numbers, 1, 10)
        limit = 2 * (daemon.num_fds() + 10)
        with limited(broker, resource.RLIMIT_NOFILE, limit):
            others = [RawClient(broker.port, handshake=False) for _ in range(CLIENTS)]
            served = [other for other in others if is_served(other)]
            assert 0 < len(served) < CLIENTS
            assert daemon.num_fds() < limit
            # More than the current journal file and the memory can hold.
            confirmed += publish(client, numbers, 100, MEGABYTE)
            assert len(confirmed) == 101
            for other in served:
                other.ping()
            assert broker.log.count("new connections are closed") == 1
            served[0].close()
            client.ping()
            with RawClient(broker.port) as late:
                late.ping()
        for other in others:
            other.close()
    assert stored(broker) == confirmed


def is_served(client: RawClient) -> bool:
    """Tell whether the handshake succeeds."""
    try:
        client.send(pb.CommandConnect(client_version="raw", protocol_version=21))
        client.expect(Kind.CONNECTED)
    except Closed:
        return False
    return True


def test_a_client_that_reads_nothing_is_cut_off_in_the_end(make_broker: Make) -> None:
    """A client that was given up and does not even read that: its connection is cut off."""
    broker, numbers = make_broker(keepAliveIntervalSeconds="10"), count()
    with RawClient(broker.port) as client:
        client.produce(TOPIC)
        publish(client, numbers, 24, MEGABYTE)
    deaf, heir = RawClient(broker.port), RawClient(broker.port)
    for number, one in enumerate((deaf, heir)):
        one.subscribe(TOPIC, "sub", pb.CommandSubscribe.Failover, consumer_name=f"{number}")
    deaf.flow(1000)
    heir.await_frame(  # the other one was given up
        lambda frame: frame.kind == Kind.ACTIVE_CONSUMER_CHANGE and frame.command.is_active
    )
    # Data sent now is not read: the end of the socket then becomes an error, which is reported
    # immediately, instead of an end behind all unread data.
    deaf.send(pb.CommandPing())
    poll = select.poll()
    poll.register(deaf, select.POLLERR)
    assert poll.poll(60_000), "the connection is still there"
    deaf.close()
    heir.close()
    assert "Traceback" not in broker.log
