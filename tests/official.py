"""Shorthand for tests that drive the official client."""

import os
from collections.abc import Callable
from contextlib import suppress

import pulsar
import pytest

from running_broker import RunningBroker

TIMEOUT_MS = 120_000
"""Far more than anything takes on a machine that does other work at the same time."""
END = b"published last"
QUIET_MS = 300
"""How long a test listens before it believes that nothing more comes."""


class Client(pulsar.Client):
    """A client that gives up later than it does by default, and keeps its log to itself."""

    def __init__(self, service_url: str, **options: object) -> None:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        seconds = TIMEOUT_MS // 1000
        super().__init__(
            service_url, **{"logger": logger, "operation_timeout_seconds": seconds} | options
        )

    def create_producer(self, *positional: object, **options: object) -> pulsar.Producer:
        options = {"send_timeout_millis": TIMEOUT_MS} | options
        return super().create_producer(*positional, **options)


def connect(service_url: str, **options: object) -> pulsar.Client:
    """A `Client`."""
    return Client(service_url, **options)


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


def buried(consumer: pulsar.Consumer, grave: pulsar.Consumer) -> pulsar.Message:
    """The next message of a dead letter topic; its client moves there what it would receive."""
    while True:
        expect_silence(consumer)
        with suppress(pulsar.Timeout):
            return grave.receive(timeout_millis=QUIET_MS)


def expect_no_more(client: pulsar.Client, consumer: pulsar.Consumer, topic: str = "") -> None:
    """The next message is one that is published now, to `topic` if the consumer has several."""
    producer = client.create_producer(topic or consumer.topic())
    producer.send(END)
    producer.close()
    (message,) = take(consumer, 1)
    assert message.data() == END
    consumer.acknowledge(message)


def expect_silence(consumer: pulsar.Consumer) -> None:
    """Nothing is delivered for a while, where no message can show that nothing comes before it."""
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
