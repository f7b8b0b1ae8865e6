"""Bundles move from a busy worker to an idle one while official clients use them."""

from collections.abc import Callable
from itertools import count

import pulsar
import pytest

from effort import part_of
from moving import bundle_of, move, owner_of
from official import TIMEOUT_MS, connect
from running_broker import RunningBroker

BUNDLES = 2
ROUND = 1000
IS_COMPLETE = part_of(100) == 100


@pytest.mark.skipif(not IS_COMPLETE, reason="takes three minutes: with --effort all")
def test_a_busy_worker_gives_a_bundle_away(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(
        magnetarWorkers="2",
        defaultNumberOfNamespaceBundles=str(BUNDLES),
        loadBalancerBrokerThresholdShedderPercentage="1",
        statsUpdateFrequencyInSecs="1",
    )
    topics = topics_of_bundles(broker)
    for topic in topics:
        move(broker, topic, 0)
    client = connect(broker.service_url)
    try:
        producers = [client.create_producer(topic, block_if_queue_full=True) for topic in topics]
        consumers = [client.subscribe(topic, "sub") for topic in topics]
        for sent in count(0, ROUND):
            for producer in producers:
                for number in range(sent, sent + ROUND):
                    producer.send_async(str(number).encode(), received)
                producer.flush()
            for consumer in consumers:
                for number in range(sent, sent + ROUND):
                    message = consumer.receive(timeout_millis=TIMEOUT_MS)
                    assert message.data() == str(number).encode()
                    consumer.acknowledge(message)
            owners = [owner_of(broker.port, topic) for topic in topics]
            if 1 in owners:
                break
    finally:
        client.close()
    assert owners.count(1) == 1
    assert "moves from worker-0" in broker.log


def received(result: pulsar.Result, message_id: object) -> None:
    assert result == pulsar.Result.Ok


def topics_of_bundles(broker: RunningBroker) -> list[str]:
    """One topic of each bundle."""
    found: dict[str, str] = {}
    for number in count():
        topic = f"persistent://public/default/balanced-{number}"
        found.setdefault(bundle_of(broker, topic), topic)
        if len(found) == BUNDLES:
            return list(found.values())
    raise AssertionError
