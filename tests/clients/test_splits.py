"""Official clients that publish and receive while the bundle of their topic is split."""

from collections.abc import Callable

import pytest

from admin_http import Admin
from clients.traffic import undisturbed
from moving import bundle_of, move, owner_of, split
from running_broker import RunningBroker

QUERIES = ("?splitAlgorithmName=topic_count_equally_divide", *("", "?unload=true") * 4)


@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_lost_doubled_or_reordered_while_bundles_are_split(
    make_broker: Callable[..., RunningBroker], topic: str, workers: int
) -> None:
    broker = make_broker(magnetarWorkers=str(workers))
    # So that its bundle has further topics, which a split by their number needs.
    path = f"{topic.replace('://', '/')}-parted/partitions"
    assert Admin(broker).put(path, 64).status == 204
    with undisturbed(broker.service_url, topic) as traffic:
        home = owner_of(broker.port, topic) if workers > 1 else 0
        for number, query in enumerate(QUERIES):
            before = bundle_of(broker, topic)
            split(broker, topic, query)
            assert bundle_of(broker, topic) != before
            if workers > 1:
                assert owner_of(broker.port, topic) == (home + number) % workers
                move(broker, topic, (home + number + 1) % workers)
            traffic.await_more()
