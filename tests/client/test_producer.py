"""Which partition a message goes to."""

from collections import Counter

import pytest

from magnetar.base.settings import Settings
from magnetar.client import Client
from magnetar.connections.pool import Pool
from magnetar.messages import Outgoing
from magnetar.producer import Producer
from magnetar.producing.options import ProducerOptions
from magnetar.producing.partition_producer import PartitionProducer
from magnetar.producing.routing import partition_of


@pytest.mark.parametrize(
    ("key", "hashed"), [("key1", 462881061), ("key2", 1936800180), ("k1", 2110152746)]
)
def test_keys_are_hashed_as_java_clients_hash_them(key: str, hashed: int) -> None:
    for count in (2, 3, 7, 100):
        assert partition_of(key, count) == hashed % count


def test_byte_keys_are_hashed_in_base64() -> None:
    assert partition_of(b"\x00", 1000) == partition_of("AA==", 1000)


async def test_keyless_messages_take_turns_a_batch_at_a_time() -> None:
    settings = Settings()
    pool = Pool("pulsar://localhost", settings)
    parts = [
        PartitionProducer(pool, settings, index, f"t-{index}", index, ProducerOptions())
        for index in range(3)
    ]
    producer = Producer("t", parts)
    first = producer._route(b"x")
    assert all(producer._route(b"x") is not first for _ in range(2)), "nothing waits: next turn"
    assert producer._route(b"x") is first
    first._batches._batch.add(b"x")
    assert all(producer._route(b"x") is first for _ in range(5)), "a batch is being filled"
    keyed = Counter(producer._route(Outgoing(b"", key="key1")) for _ in range(5))
    assert keyed == {parts[partition_of("key1", 3)]: 5}


async def test_an_unknown_choice_names_the_known_ones() -> None:
    client = Client("pulsar://localhost", Settings())
    with pytest.raises(ValueError, match="known are exclusive, shared, failover, key_shared"):
        await client.subscribe("t", "s", type="nope")
    with pytest.raises(ValueError, match="known are latest, earliest"):
        await client.subscribe("t", "s", initial_position="nope")
    with pytest.raises(ValueError, match="known are none, lz4"):
        await client.producer("t", compression="nope")
