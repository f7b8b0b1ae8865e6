"""What tests of the asyncio client receive, and the time between messages."""

import time

import magnetar
from fakes.waiting import until
from magnetar.base.values import V

TIMEOUT_S = 60.0


async def take(consumer: magnetar.Consumer[V], count: int) -> list[magnetar.Message[V]]:
    """So many messages, as they come."""
    messages: list[magnetar.Message[V]] = []
    while len(messages) < count:
        messages += await consumer.receive_batch(count - len(messages), TIMEOUT_S)
    return messages


def values(messages: list[magnetar.Message]) -> list[bytes]:
    """Of each message its value."""
    return [message.value for message in messages]


async def next_millisecond() -> int:
    """A time, in ms since 1970, after all publish times so far: these have whole milliseconds."""
    before = time.time_ns() // 1_000_000
    await until(lambda: time.time_ns() // 1_000_000 > before, "the clock goes on")
    return time.time_ns() // 1_000_000
