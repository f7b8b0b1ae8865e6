"""The official client for Python subscribes to patterns, and asks now and then for new topics."""

import re
from uuid import uuid4

import pulsar

from official import publish, take, texts

EARLIEST = pulsar.InitialPosition.Earliest


def test_topics_of_a_pattern_come_and_come_later(client: pulsar.Client) -> None:
    prefix = f"persistent://public/default/{uuid4().hex}"
    publish(client.create_producer(f"{prefix}-one"), "first")
    publish(client.create_producer(f"{prefix}x"), "of another name")
    consumer = client.subscribe(
        re.compile(f"{prefix}-.*"),
        "sub",
        initial_position=EARLIEST,
        pattern_auto_discovery_period=1,
    )
    assert texts(take(consumer, 1)) == ["first"]
    publish(client.create_producer(f"{prefix}-two"), "second")
    assert texts(take(consumer, 1)) == ["second"]
