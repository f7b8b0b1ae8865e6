"""What a worker tells of its load."""

from collections.abc import Awaitable
from typing import Any

from fakes.links import Joined
from fakes.named_worlds import NAMESPACE, named
from fakes.world import run, start
from magnetar_broker.base.meter import Meter
from magnetar_broker.names.workers.balancing import TRAFFIC, USED
from magnetar_broker.placement.bundle_owners import BundleOwners, Placed
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.topic.load import serve_load
from magnetar_proto.names import TopicName


class _Topic:
    """A topic, as far as its traffic."""

    def __init__(self, name: TopicName, *rates: float) -> None:
        self.name = name
        self.meter = Meter(4)
        self.meter.rates = rates


def served(topics: list[_Topic], owners: BundleOwners) -> Joined:
    joined = Joined()
    serve_load(topics, owners, joined.clock, lambda: (1.5, 7.0), joined.right)
    return joined.connect()


def asked(joined: Joined, what: str) -> object:
    return run(_awaited(joined.left.request(what)), joined.clock)


def test_traffic_is_added_up_by_bundle() -> None:
    owners = BundleOwners(["pulsar://worker-0:1"])
    owners.place(NAMESPACE, Placed(Bundles.even(2), (0, 0)))
    number_of = Bundles.even(2).index_of
    names = [named(f"topic-{number}") for number in range(1000)]
    low = [name for name in names if number_of(name) == 0][:300]
    high = [name for name in names if number_of(name) == 1][:300]
    topics = [_Topic(name, 1.0, 2048.0, 2.0, 1024.0) for name in low]
    topics += [_Topic(name, 0.5, 0.0, 0.0, 0.0) for name in high]
    topics += [_Topic(named("idle"), 0.0, 0.0, 0.0, 0.0)]
    topics += [_Topic(named("topic", "not/placed"), 9.0, 0.0, 0.0, 0.0)]
    first, second = Bundles.even(2).ranges
    joined = served(topics, owners)
    assert asked(joined, USED) == (1.5, 7.0)
    assert asked(joined, TRAFFIC) == [(NAMESPACE, first, 300 * 6.0), (NAMESPACE, second, 150.0)]


def test_a_split_while_traffic_is_added_up_divides_none_of_it() -> None:
    owners = BundleOwners(["pulsar://worker-0:1"])
    tables = [Placed(Bundles.even(number), (0,) * number) for number in (1, 4)]
    owners.place(NAMESPACE, tables[0])
    topics = [_Topic(named(f"t-{number}"), 1.0, 0.0, 0.0, 0.0) for number in range(1000)]
    joined = served(topics, owners)
    answer = start(_awaited(joined.left.request(TRAFFIC)))
    turns = 0
    while not answer.done() and joined.clock.step():
        turns += 1
        owners.place(NAMESPACE, tables[turns % 2])
    assert turns > 5, "it leaves turns to others"
    found = answer.result()
    assert sum(rate for _, _, rate in found) == 1000.0
    ranges = {text for _, text, _ in found}
    assert ranges in [set(table.bundles.ranges) for table in tables]


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer
