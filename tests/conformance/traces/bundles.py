"""Bundles over REST: what a split does to them, and to clients."""

from typing import Any

from conformance.differences import Difference, differs
from conformance.trace import Trace

ALL = "0x00000000_0xffffffff"
ALGORITHM = "splitAlgorithmName"
NOWHERE = Difference(
    "a split that finds no place to divide the bundle, or positions outside of it",
    "204, and nothing is divided; positions outside are left out",
    "412 with the reason; nothing is divided",
)
BY_TRAFFIC = Difference(
    "`flow_or_qps_equally_divide`, and splitting the bundle `HOT`",
    "500, unless the algorithm is the default of the settings; `HOT` is the bundle of most traffic",
    "412",
    on_purpose=False,
)
HASH = Difference(
    "the hash of a topic's name, which is its place among the bundles",
    "the CRC-32 of the name",
    "a function of the CRC-32 of the topic's name and of the partition, which spreads partitions "
    "evenly over bundles",
)


def _makes(t: Trace, bundles: int = 1) -> str:
    """A namespace."""
    path = f"namespaces/public/{t.token}"
    t.rest("PUT", path, {"bundles": {"numBundles": bundles}})
    return path


def _has_topics(t: Trace) -> None:
    for name in ("one", "two", "three", "four"):
        t.rest("PUT", f"persistent/public/{t.token}/{name}")


def splits_in_the_middle(t: Trace) -> None:
    path = _makes(t)
    t.rest("PUT", f"{path}/{ALL}/split")
    t.rest("GET", f"{path}/bundles")
    t.rest("PUT", f"{path}/{ALL}/split")
    t.rest("PUT", f"{path}/0x00000000_0x7fffffff/split?unload=true")
    t.rest("PUT", f"{path}/0x7fffffff_0xffffffff/split?{ALGORITHM}=range_equally_divide", [5])
    t.rest("GET", f"{path}/bundles")


def a_split_of_one_of_three(t: Trace) -> None:
    path = _makes(t, 3)
    t.rest("PUT", f"{path}/0x55555555_0xaaaaaaaa/split?{ALGORITHM}=", b"null")
    t.rest("GET", f"{path}/bundles")


def algorithms_that_are_not_there(t: Trace) -> None:
    path = _makes(t)
    for name in ("nonsense", "RANGE_EQUALLY_DIVIDE"):
        t.rest("PUT", f"{path}/{ALL}/split?{ALGORITHM}={name}")
    t.rest("PUT", f"{path}-absent/{ALL}/split?{ALGORITHM}=nonsense")
    t.rest("GET", f"{path}/bundles")


def splits_at_positions(t: Trace) -> None:
    path = _makes(t)
    _has_topics(t)
    by_positions = f"split?{ALGORITHM}=specified_positions_divide"
    t.rest("PUT", f"{path}/{ALL}/{by_positions}", [4, 2, 3])
    t.rest("GET", f"{path}/bundles")
    bodies: tuple[Any, ...] = (None, b"null", [], ["a"], {"a": 1}, b"{non", ["0x80000000"], [True])
    for body in bodies:
        t.rest("PUT", f"{path}/0x00000004_0xffffffff/{by_positions}", body)
    t.rest("PUT", f"{path}/0x00000002_0x00000003/split")
    t.rest("GET", f"{path}/bundles")


@differs(NOWHERE)
def positions_outside_of_the_bundle(t: Trace) -> None:
    path = _makes(t, 2)
    _has_topics(t)
    by_positions = f"split?{ALGORITHM}=specified_positions_divide"
    t.rest("PUT", f"{path}/0x00000000_0x80000000/{by_positions}", [0, -5, 2**31, 2**32])
    t.rest("GET", f"{path}/bundles")


@differs(NOWHERE)
def a_split_by_topics_where_there_are_none(t: Trace) -> None:
    path = _makes(t)
    t.rest("PUT", f"{path}/{ALL}/split?{ALGORITHM}=topic_count_equally_divide")
    t.rest("GET", f"{path}/bundles")


@differs(BY_TRAFFIC)
def a_split_by_traffic(t: Trace) -> None:
    path = _makes(t)
    _has_topics(t)
    t.rest("PUT", f"{path}/{ALL}/split?{ALGORITHM}=flow_or_qps_equally_divide")
    t.rest("GET", f"{path}/bundles")


def the_largest_is_split(t: Trace) -> None:
    path = _makes(t)
    _has_topics(t)
    t.connects().produces(f"persistent://public/{t.token}/one")
    t.rest("PUT", f"{path}/LARGEST/split")
    t.rest("GET", f"{path}/bundles")
    t.rest("PUT", f"{path}/largest/split")


def bundles_that_are_not_there(t: Trace) -> None:
    path = _makes(t, 2)
    t.rest("PUT", f"{path}/{ALL}/split")
    t.rest("PUT", f"{path}/0x00000000_0x10000000/split")
    t.rest("PUT", f"{path}/nonsense/split")
    t.rest("PUT", f"{path}-absent/{ALL}/split")
    t.rest("PUT", f"namespaces/public/a%20b/{ALL}/split")
    t.rest("GET", f"{path}/bundles")


def clients_stay_when_their_bundle_is_split(t: Trace) -> None:
    path = _makes(t)
    topic = f"persistent://public/{t.token}/topic"
    a, b = t.connects(), t.connects()
    a.produces(topic)
    b.subscribes(topic=topic)
    b.permits(10)
    t.rest("PUT", f"{path}/{ALL}/split")
    a.publishes(2)
    b.receives_rest()
    t.rest("GET", f"{path}/bundles")


def clients_reconnect_when_their_bundle_is_split_and_unloaded(t: Trace) -> None:
    path = _makes(t)
    topic = f"persistent://public/{t.token}/topic"
    a, b = t.connects(), t.connects()
    a.produces(topic)
    b.subscribes(topic=topic)
    t.rest("PUT", f"{path}/{ALL}/split?unload=true")
    a.receives_rest()
    b.receives_rest()


@differs(HASH)
def hashes_of_topics(t: Trace) -> None:
    path = "namespaces/public/hashes"
    t.rest("PUT", path, {"bundles": {"numBundles": 1}})
    t.rest("PUT", "persistent/public/hashes/one")
    t.rest("PUT", "persistent/public/hashes/three")
    t.rest("PUT", "persistent/public/hashes/parted/partitions", 2)
    for names in ("one", "parted", "parted-partition-1", "absent"):
        query = f"topics=persistent://public/hashes/{names}"
        t.rest("GET", f"{path}/{ALL}/topicHashPositions?{query}")
    query = "topics=persistent%253A%252F%252Fpublic%252Fhashes%252F"
    t.rest("GET", f"{path}/{ALL}/topicHashPositions?{query}one&{query}three")
    t.rest("GET", f"{path}/{ALL}/topicHashPositions")
    t.rest("GET", f"{path}/nonsense/topicHashPositions")
    t.rest("GET", f"{path}/0x00000000_0x10000000/topicHashPositions")
    t.rest("DELETE", f"{path}?force=true")
