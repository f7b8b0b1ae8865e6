"""The official client for Python subscribes to a pattern; it matches names by itself."""

import re
from uuid import uuid4

import pulsar

from official import expect_no_more, publish, take, texts


def test_a_consumer_of_a_pattern_has_the_topics_that_match(client: pulsar.Client) -> None:
    prefix = f"persistent://public/default/{uuid4().hex}"
    for name in ("-one", "-two", "x"):
        publish(client.create_producer(prefix + name), name)
    earliest = pulsar.InitialPosition.Earliest
    consumer = client.subscribe(re.compile(f"{prefix}-.*"), "sub", initial_position=earliest)
    assert sorted(texts(take(consumer, 2))) == ["-one", "-two"]
    expect_no_more(client, consumer, f"{prefix}-two")
