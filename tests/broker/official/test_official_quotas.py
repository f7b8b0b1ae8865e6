"""What the official client sees of backlog quotas and expiry."""

from collections.abc import Callable

import pulsar
import pytest

import official
from admin_http import Admin
from running_broker import RunningBroker

Ask = Callable[..., None]
PAYLOAD = b"x" * 1000


@pytest.fixture
def ask(broker: RunningBroker, topic: str) -> Ask:
    """Asks something of the topic, or of the broker; it must be granted."""

    def asking(method: str, path: str, body: object = None) -> None:
        place = topic.replace("://", "/")
        target = path if path.startswith("brokers/") else f"{place}/{path}"
        answer = Admin(broker).ask(method, target, body)
        assert answer.status == 204, answer.body

    return asking


def filled(
    client: pulsar.Client, topic: str, ask: Ask, policy: str
) -> tuple[pulsar.Consumer, pulsar.Producer]:
    """A consumer that has taken nothing, and a producer that has filled the quota."""
    consumer = client.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
    ask("POST", "backlogQuota", {"limitSize": 2000, "policy": policy})
    producer = client.create_producer(topic, send_timeout_millis=60_000)
    for _ in range(3):
        producer.send(PAYLOAD)
    ask("GET", "brokers/backlog-quota-check")
    return consumer, producer


@pytest.mark.parametrize(
    ("policy", "refusal"),
    [
        ("producer_request_hold", pulsar.ProducerBlockedQuotaExceededError),
        ("producer_exception", pulsar.ProducerBlockedQuotaExceededException),
    ],
)
def test_new_producers_are_refused_until_there_is_room(
    client: pulsar.Client, topic: str, ask: Ask, policy: str, refusal: type[Exception]
) -> None:
    consumer, _ = filled(client, topic, ask, policy)
    with pytest.raises(refusal):
        client.create_producer(topic)
    for message in official.take(consumer, 3):
        consumer.acknowledge(message)
    consumer.close()
    ask("POST", "subscription/sub/skip_all")  # every acknowledgement has arrived
    client.create_producer(topic).send(b"there is room")


def test_a_producer_that_was_closed_reconnects_by_itself(
    client: pulsar.Client, topic: str, ask: Ask
) -> None:
    consumer, producer = filled(client, topic, ask, "producer_request_hold")
    for message in official.take(consumer, 3):
        consumer.acknowledge(message)
    producer.send(b"there is room")
    assert consumer.receive(60_000).data() == b"there is room"


def test_consumers_come_and_go_while_a_quota_is_full(
    client: pulsar.Client, topic: str, ask: Ask
) -> None:
    consumer, _ = filled(client, topic, ask, "producer_request_hold")
    assert len(official.take(consumer, 3)) == 3
    consumer.close()
    again = client.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.KeyShared)
    assert len(official.take(again, 3)) == 3
    other = client.subscribe(topic, "other", initial_position=pulsar.InitialPosition.Earliest)
    assert len(official.take(other, 3)) == 3


def test_eviction_leaves_the_latest_messages(client: pulsar.Client, topic: str, ask: Ask) -> None:
    consumer = client.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
    consumer.close()
    policy = {"limitSize": 5000, "policy": "consumer_backlog_eviction"}
    ask("POST", "backlogQuota", policy)
    producer = client.create_producer(topic)
    official.publish(producer, *(f"{number:04}" + "x" * 1000 for number in range(10)))
    ask("GET", "brokers/backlog-quota-check")
    consumer = client.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
    left = [text[:4] for text in official.texts(official.take(consumer, 4))]
    assert left == ["0006", "0007", "0008", "0009"]
    official.expect_no_more(client, consumer)


def test_a_ttl_that_is_set_holds_at_once_for_what_is_there(
    client: pulsar.Client, topic: str, ask: Ask
) -> None:
    consumer = client.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
    consumer.close()
    producer = client.create_producer(topic)
    producer.send(b"a year ago", event_timestamp=1)
    ask("POST", "messageTTL?messageTTL=31536000")
    consumer = client.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
    assert consumer.receive(60_000).data() == b"a year ago", "its publish time counts"
