"""What tests of transactions of the asyncio client have in common."""

import uuid

import magnetar
from client.receiving import take, values

ALL_TYPES = ["exclusive", "failover", "shared", "key_shared"]
SINGLE = ["exclusive", "failover"]


class Unwanted(Exception):
    """What a block raises, for the transaction to be aborted."""


def new_topic() -> str:
    return f"persistent://public/default/txn-{uuid.uuid4().hex[:10]}"


async def filled(client: magnetar.Client, count: int, batched: bool = True) -> str:
    """A topic with these messages, in one batch or one by one: b"0", b"1" ..."""
    topic = new_topic()
    limits = magnetar.BatchLimits() if batched else None
    async with await client.producer(topic, batching=limits) as producer:
        await producer.send_batch([b"%d" % number for number in range(count)])
    return topic


async def subscribed(
    client: magnetar.Client, topic: str, kind: str = "exclusive", name: str = "s"
) -> magnetar.Consumer:
    return await client.subscribe(topic, name, type=kind, initial_position="earliest")


async def left(client: magnetar.Client, topic: str, kind: str = "exclusive") -> list[bytes]:
    """What the subscription delivers to another consumer, in front of a message sent now."""
    async with await subscribed(client, topic, kind) as other:
        async with await client.producer(topic) as producer:
            await producer.send(b"last")
        found: list[bytes] = []
        while b"last" not in found:
            found += values(await take(other, 1))
    return sorted(found[:-1])
