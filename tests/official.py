"""Shorthand for tests that drive the official client."""

import os
from collections.abc import Callable

import pulsar
import pytest

from running_broker import RunningBroker

TIMEOUT_MS = 60_000
"""Far more than anything takes on a machine that does other work at the same time."""
QUIET_MS = 300
"""How long a test listens before it believes that nothing more comes."""


def connect(service_url: str, **options: object) -> pulsar.Client:
    """A client that keeps its log to itself."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(service_url, logger=logger, **options)


def take(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    """The next `count` messages."""
    return [consumer.receive(timeout_millis=TIMEOUT_MS) for _ in range(count)]


def texts(messages: list[pulsar.Message]) -> list[str]:
    """Their payloads."""
    return [message.data().decode() for message in messages]


def publish(producer: pulsar.Producer, *payloads: str) -> list[pulsar.MessageId]:
    """Send one after the other and return the receipts."""
    return [producer.send(payload.encode()) for payload in payloads]


def publish_batch(producer: pulsar.Producer, *payloads: str) -> list[pulsar.MessageId]:
    """Send all as one batch of a producer that batches, and return the receipts."""
    receipts: list[tuple[pulsar.Result, pulsar.MessageId]] = []
    for payload in payloads:
        producer.send_async(payload.encode(), lambda *receipt: receipts.append(receipt))
    producer.flush()
    assert [result for result, _ in receipts] == [pulsar.Result.Ok] * len(payloads)
    return [message_id for _, message_id in receipts]


def batching(client: pulsar.Client, topic: str, **options: object) -> pulsar.Producer:
    """A producer whose batches end when it is flushed."""
    return client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, **options
    )


def expect_silence(consumer: pulsar.Consumer) -> None:
    """Nothing is delivered for a while."""
    with pytest.raises(pulsar.Timeout):
        consumer.receive(timeout_millis=QUIET_MS)


Again = Callable[[RunningBroker], RunningBroker]
"""How a broker is ended and started."""


def restart(broker: RunningBroker) -> RunningBroker:
    return broker.restart()


def kill_and_start(broker: RunningBroker) -> RunningBroker:
    broker.kill()
    return broker.start()


either_way = pytest.mark.parametrize("again", [restart, kill_and_start])
"""For tests of what is the same after a graceful stop and after a kill."""
