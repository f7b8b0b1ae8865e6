"""A second broker on a data directory refuses to start; the first one continues."""

from collections.abc import Callable

import pytest

from magnetar import connect
from running_broker import RunningBroker

TIMEOUT = 120


@pytest.mark.parametrize("workers", ["1", "3"])
async def test_a_second_broker_refuses_to_start(
    make_broker: Callable[..., RunningBroker], workers: str
) -> None:
    first = make_broker(magnetarWorkers=workers)
    async with connect(first.service_url) as client:
        consumer = await client.subscribe("orders", "billing")
        producer = await client.producer("orders")
        await producer.send(b"before")
        second = RunningBroker(first.data_dir, magnetarWorkers=workers)
        try:
            assert not second.try_start()
            assert "is in use by process" in second.log_of_start
        finally:
            second.close()
        await producer.send(b"after")
        for expected in (b"before", b"after"):
            message = await consumer.receive(TIMEOUT)
            consumer.ack(message)
            assert message.value == expected
