"""Bundles, and the broker that owns all of them."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from magnetar_broker.ownership import RING_SIZE, SoleOwner, bundle_of
from magnetar_proto.names import TopicName


def topic(name: str) -> TopicName:
    return TopicName.parse(f"persistent://tenant/space/{name}")


@given(st.text("abcdefghij", min_size=1, max_size=8), st.integers(1, 300))
def test_a_bundle_is_one_of_those_that_tile_the_ring(name: str, bundles: int) -> None:
    bundle = bundle_of(topic(name), bundles)
    width = -(-RING_SIZE // bundles)
    assert bundle.namespace == "tenant/space"
    assert bundle.low % width == 0
    assert bundle.high == min(bundle.low + width, RING_SIZE)
    assert bundle == bundle_of(topic(name), bundles)


def test_a_single_bundle_is_the_whole_ring() -> None:
    assert str(bundle_of(topic("any"), 1)) == "tenant/space/0x00000000_0xffffffff"


def test_neighbouring_bundles_meet() -> None:
    found = {bundle_of(topic(f"t{number}"), 4) for number in range(200)}
    ordered = sorted(found, key=lambda bundle: bundle.low)
    assert [str(bundle).rpartition("/")[2] for bundle in ordered] == [
        "0x00000000_0x40000000",
        "0x40000000_0x80000000",
        "0x80000000_0xc0000000",
        "0xc0000000_0xffffffff",
    ]


def test_partitions_spread_over_bundles() -> None:
    base = topic("orders")
    assert len({bundle_of(base.with_partition(index), 8) for index in range(64)}) == 8


def test_a_sole_owner_owns_everything_at_the_url_it_announced_last() -> None:
    owner = SoleOwner("pulsar://old:6650")
    owner.announce("pulsar://new:6650")

    async def ask() -> None:
        found = await owner.locate(topic("t"), authoritative=False)
        assert (found.service_url, found.is_self) == ("pulsar://new:6650", True)
        assert await owner.owns(topic("t"))

    asyncio.run(ask())
