"""Rates, limits and ends of topics as official clients and operators meet them."""

from collections.abc import Iterator
from threading import Event

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

from admin_http import Admin
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import NO_REQUEST
from magnetar_proto.names import TopicName
from official import TIMEOUT_MS, connect, expect_silence, publish, take, texts
from raw_client import Kind, RawClient, send_frame
from running_broker import RunningBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path_factory.mktemp("rates") / "data").start()
    yield running
    running.close()


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[pulsar.Client]:
    connected = connect(broker.service_url)
    yield connected
    connected.close()


def path_of(topic: str) -> str:
    return f"persistent/public/default/{TopicName.parse(topic).local}"


def set_policy(broker: RunningBroker, topic: str, policy: str, value: object) -> None:
    answer = Admin(broker).post(f"{path_of(topic)}/{policy}", value)
    assert answer.status == 204, answer.body


def metric(broker: RunningBroker, name: str, topic: str) -> float:
    for family in text_string_to_metric_families(broker.metrics):
        for sample in family.samples:
            if sample.name == name and sample.labels.get("topic") == topic:
                return sample.value
    raise AssertionError(f"{name} of {topic} is not there")


# Rates ----------------------------------------------------------------------------------------


def test_a_publish_rate_holds_up_and_everything_arrives(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub")
    set_policy(broker, topic, "publishRate", {"publishThrottlingRateInMsg": 40})
    producers = [client.create_producer(topic), connect(broker.service_url).create_producer(topic)]
    results, done = list[pulsar.Result](), Event()

    def receipt(result: pulsar.Result, _: object) -> None:
        results.append(result)
        if len(results) == 120:
            done.set()

    for number in range(60):
        for producer in producers:
            producer.send_async(b"%d" % number, receipt)
    assert done.wait(TIMEOUT_MS / 1000)
    assert set(results) == {pulsar.Result.Ok}
    found = texts(take(consumer, 120))
    assert sorted(found, key=int) == [str(n) for n in range(60) for _ in range(2)]
    assert metric(broker, "pulsar_publish_rate_limit_times", topic) >= 2
    set_policy(broker, topic, "publishRate", {"publishThrottlingRateInMsg": 0})
    publish(producers[0], "free")


def test_a_dispatch_rate_holds_up_and_everything_arrives(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    rate = {"dispatchThrottlingRateInMsg": 100, "ratePeriodInSecond": 3600}
    set_policy(broker, topic, "dispatchRate", rate)
    for number in range(400):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    found = texts(take(consumer, 100))
    while 'blocker="rate"' not in broker.metrics:
        pass
    set_policy(broker, topic, "dispatchRate", {"dispatchThrottlingRateInMsg": 0})
    found += texts(take(consumer, 300))
    assert sorted(map(int, found)) == list(range(400))


def test_a_consumer_that_subscribes_too_often(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    client.create_producer(topic)
    set_policy(
        broker, topic, "subscribeRate",
        {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 3600},
    )  # fmt: skip
    with RawClient(broker.port) as raw:
        for request_id, kind in ((1, Kind.SUCCESS), (2, Kind.ERROR)):
            raw.send(
                pb.CommandSubscribe(
                    topic=topic, subscription="sub", subType=pb.CommandSubscribe.Shared,
                    consumer_id=7, request_id=request_id, consumer_name="c",
                )
            )  # fmt: skip
            answer = raw.expect(kind)
            if kind == Kind.SUCCESS:
                raw.send(pb.CommandCloseConsumer(consumer_id=7, request_id=9))
                raw.expect(Kind.SUCCESS)
        assert answer.error == pb.NotAllowedError
        assert "subscribeThrottlingRatePerConsumer" in answer.message


# Limits ---------------------------------------------------------------------------------------


def test_limits_are_raised_and_lowered_while_clients_are_there(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    set_policy(broker, topic, "maxProducers", 1)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    set_policy(broker, topic, "maxProducers", 2)
    second = client.create_producer(topic)
    set_policy(broker, topic, "maxProducers", 1)
    publish(producer, "a")
    publish(second, "b")

    client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    set_policy(broker, topic, "maxConsumersPerSubscription", 1)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    set_policy(broker, topic, "maxConsumersPerSubscription", 0)
    client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    set_policy(broker, topic, "maxSubscriptionsPerTopic", 1)
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(topic, "other")


def test_types_that_are_not_enabled_are_refused_and_existing_consumers_stay(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Exclusive)
    set_policy(broker, topic, "subscriptionTypesEnabled", ["Shared"])
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(topic, "other", pulsar.ConsumerType.Failover)
    client.subscribe(topic, "third", pulsar.ConsumerType.Shared)
    publish(producer, "a")
    assert texts(take(consumer, 1)) == ["a"]


# Ends -----------------------------------------------------------------------------------------


def test_a_terminated_topic_is_read_to_its_end_and_takes_nothing(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    consumer = client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
    ids = publish(producer, "a", "b")
    answer = Admin(broker).post(f"{path_of(topic)}/terminate")
    assert answer.status == 200
    assert answer.json == {
        "ledgerId": ids[-1].ledger_id(), "entryId": ids[-1].entry_id(),
        "partitionIndex": -1, "batchIndex": -1, "batchSize": 0,
    }  # fmt: skip
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    with pytest.raises((pulsar.TopicTerminated, pulsar.AlreadyClosed)):
        producer.send(b"c")
    messages = take(consumer, 2)
    assert texts(messages) == ["a", "b"]
    for message in messages:
        consumer.acknowledge(message)
    expect_silence(consumer)
    assert consumer.is_connected(), "it was not sent a command that it does not understand"
    broker.kill()
    broker.start()
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(TIMEOUT_MS).data() for _ in range(2)] == [b"a", b"b"]


def test_messages_that_are_under_way_when_a_topic_ends_are_all_answered(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    consumer = client.subscribe(topic, "sub")
    results, done = list[pulsar.Result](), Event()

    def receipt(result: pulsar.Result, _: object) -> None:
        results.append(result)
        if len(results) == 500:
            done.set()

    for number in range(500):
        producer.send_async(b"%d" % number, receipt)
        if number == 250:
            assert Admin(broker).post(f"{path_of(topic)}/terminate").status == 200
    assert done.wait(TIMEOUT_MS / 1000)
    stored = results.count(pulsar.Result.Ok)
    assert [int(text) for text in texts(take(consumer, stored))] == list(range(stored))
    expect_silence(consumer)


def test_only_clients_that_understand_it_are_notified_of_the_end(
    broker: RunningBroker, topic: str
) -> None:
    with RawClient(broker.port, handshake=False) as java, RawClient(broker.port) as other:
        java.send(pb.CommandConnect(client_version="Pulsar-Java-v4.0.0", protocol_version=21))
        java.expect(Kind.CONNECTED)
        for raw in (java, other):
            raw.send(
                pb.CommandSubscribe(
                    topic=topic, subscription="sub", subType=pb.CommandSubscribe.Shared,
                    consumer_id=3, request_id=1,
                )
            )  # fmt: skip
            raw.expect(Kind.SUCCESS)
        assert Admin(broker).post(f"{path_of(topic)}/terminate").status == 200
        assert java.expect(Kind.REACHED_END_OF_TOPIC).consumer_id == 3
        other.send(pb.CommandPing())
        other.expect(Kind.PONG)


def test_producers_are_closed_at_the_end(broker: RunningBroker, topic: str) -> None:
    with RawClient(broker.port) as raw:
        raw.send(pb.CommandProducer(topic=topic, producer_id=4, request_id=1))
        raw.expect(Kind.PRODUCER_SUCCESS)
        assert Admin(broker).post(f"{path_of(topic)}/terminate").status == 200
        closed = raw.expect(Kind.CLOSE_PRODUCER)
        assert (closed.producer_id, closed.request_id) == (4, NO_REQUEST)
        raw.send(pb.CommandProducer(topic=topic, producer_id=4, request_id=2))
        refused = raw.expect(Kind.ERROR)
        assert refused.error == pb.TopicTerminatedError
        assert "takes no more messages" in refused.message


def test_ends_over_http(broker: RunningBroker, topic: str) -> None:
    path = path_of(topic)
    assert Admin(broker).put(f"{path}/partitions", 2).status == 204
    parent = Admin(broker).post(f"{path}/terminate")
    assert (parent.status, "terminate/partitions" in parent.json["reason"]) == (405, True)
    nothing = {
        "ledgerId": -1,
        "entryId": -1,
        "partitionIndex": -1,
        "batchIndex": -1,
        "batchSize": 0,
    }
    assert Admin(broker).post(f"{path}-partition-0/terminate").json == nothing
    every = Admin(broker).post(f"{path}/terminate/partitions")
    assert (every.status, every.json) == (200, {"0": nothing, "1": nothing})
    assert Admin(broker).post(f"{path}-partition-2/terminate").status == 404
    assert Admin(broker).post(f"{path}-missing/terminate").status == 404
    assert Admin(broker).post(f"{path}-missing/terminate/partitions").status == 405
    volatile = path.replace("persistent", "non-persistent")
    assert Admin(broker).post(f"{volatile}/terminate").status == 406


def test_messages_that_are_larger_than_their_topic_takes(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    chunked = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    consumer = client.subscribe(topic, "sub")
    set_policy(broker, topic, "maxMessageSize", 2000)
    publish(producer, "small")
    with pytest.raises(pulsar.PulsarException):
        producer.send(bytes(3000))
    chunked.send(bytes(6 << 20))
    assert [len(message.data()) for message in take(consumer, 2)] == [5, 6 << 20]
    set_policy(broker, topic, "maxMessageSize", 0)
    client.create_producer(topic).send(bytes(3000))
    assert len(take(consumer, 1)[0].data()) == 3000


def test_a_message_that_is_too_large_is_refused_behind_those_before_it(
    broker: RunningBroker, topic: str
) -> None:
    Admin(broker).put(path_of(topic))
    with RawClient(broker.port) as raw:
        raw.send(pb.CommandProducer(topic=topic, producer_id=4, request_id=1))
        raw.expect(Kind.PRODUCER_SUCCESS)
        set_policy(broker, topic, "maxMessageSize", 200)
        frames = [send_frame(number, bytes(size), 4) for number, size in enumerate((10, 300, 20))]
        raw.send_bytes(b"".join(frames))
        assert raw.expect(Kind.SEND_RECEIPT).sequence_id == 0
        refused = raw.expect(Kind.SEND_ERROR)
        assert (refused.sequence_id, refused.error) == (1, pb.NotAllowedError)
        assert "maxMessageSize of 200" in refused.message
        assert raw.expect(Kind.SEND_RECEIPT).sequence_id == 2
