"""Access modes of producers, as the official client meets them."""

from collections.abc import Callable

import pulsar
import pytest

from official import connect, publish
from running_broker import RunningBroker

MODE = pulsar.ProducerAccessMode
TOPIC = "persistent://public/default/mine"


def test_an_exclusive_producer_has_the_topic_for_itself(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    client, other = connect(broker.service_url), connect(broker.service_url)
    mine = client.create_producer(TOPIC, access_mode=MODE.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        other.create_producer(TOPIC, access_mode=MODE.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(TOPIC)
    publish(mine, "a")
    mine.close()
    publish(other.create_producer(TOPIC), "b")
    client.close()
    other.close()


def test_an_exclusive_producer_keeps_the_topic_through_a_kill(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    client, other = connect(broker.service_url), connect(broker.service_url)
    mine = client.create_producer(TOPIC, access_mode=MODE.Exclusive)
    publish(mine, "a")
    broker.kill()
    broker.start()
    publish(mine, "b")  # it came back with its epoch
    with pytest.raises(pulsar.ProducerFenced):
        other.create_producer(TOPIC, access_mode=MODE.Exclusive)
    client.close()
    other.close()


def test_a_fenced_producer_has_ended_for_good(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    client, other = connect(broker.service_url), connect(broker.service_url)
    fenced = client.create_producer(TOPIC, access_mode=MODE.Exclusive)
    publish(fenced, "a")
    fencing = other.create_producer(TOPIC, access_mode=MODE.ExclusiveWithFencing)
    publish(fencing, "b")
    with pytest.raises(pulsar.PulsarException):
        publish(fenced, "c")
    publish(fencing, "d")
    client.close()
    other.close()
