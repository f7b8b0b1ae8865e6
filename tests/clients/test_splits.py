"""Official clients that publish and receive while the bundle of their topic is split."""

from collections.abc import Callable

import pulsar
import pytest

from admin_http import Admin
from clients.test_moves import Publishing, Receiving, stored_numbers
from moving import bundle_of, move, owner_of, split
from running_broker import RunningBroker

pytestmark = pytest.mark.daemon

QUERIES = ("?splitAlgorithmName=topic_count_equally_divide", *("", "?unload=true") * 4)


@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_lost_doubled_or_reordered_while_bundles_are_split(
    make_broker: Callable[..., RunningBroker], topic: str, workers: int
) -> None:
    broker = make_broker(magnetarWorkers=str(workers))
    receiving = Receiving(broker.service_url, topic, pulsar.ConsumerType.Shared)
    # So that its bundle has further topics, which a split by their number needs.
    path = f"{topic.replace('://', '/')}-parted/partitions"
    assert Admin(broker).put(path, 64).status == 204
    producers = [Publishing(broker.service_url, topic, name) for name in ("a", "b")]
    try:
        home = owner_of(broker.port, topic) if workers > 1 else 0
        for number, query in enumerate(QUERIES):
            before = bundle_of(broker, topic)
            split(broker, topic, query)
            assert bundle_of(broker, topic) != before
            if workers > 1:
                assert owner_of(broker.port, topic) == (home + number) % workers
                move(broker, topic, (home + number + 1) % workers)
            sent = [one.sent for one in producers]
            for one, count in zip(producers, sent, strict=True):
                receiving.await_number(one.name, count)
        for one in producers:
            one.stop()
            receiving.await_number(one.name, one.sent - 1)
    finally:
        receiving.close()
        for one in producers:
            one.close()
    assert [one.failures for one in producers] == [[], []]
    expected = {one.name: list(range(one.sent)) for one in producers}
    assert stored_numbers(broker.service_url, topic) == expected
    assert receiving.numbers == expected
