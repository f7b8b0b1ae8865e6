"""The table of owners: workers of this broker, and those of others, which join and leave."""

import pytest

from magnetar_broker.base.errors import NotReady
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.bundle_owners import BundleOwners, Placed
from magnetar_broker.placement.bundles import Bundles
from magnetar_proto.names import TopicName

HERE = ListenerUrls("pulsar://here:6650")
THERE = ListenerUrls("pulsar://there:6650", "pulsar+ssl://there:6651", "http://there:8080")
URLS = ["pulsar://worker-0:6650", "pulsar://worker-1:6650"]
TOPIC = TopicName.parse("persistent://tenant/space/topic")
NAMESPACE = "tenant/space"


def clustered() -> BundleOwners:
    owners = BundleOwners(URLS, "b1")
    owners.announce(HERE, {"inside": HERE})
    return owners


def test_the_workers_of_one_broker_have_the_names_in_their_urls() -> None:
    owners = BundleOwners(URLS)
    assert owners.names == {0: "worker-0", 1: "worker-1"} and owners.workers == 2
    assert owners.number_of("worker-1") == 1
    with pytest.raises(ValueError, match="no process worker-2: expected worker-0, worker-1"):
        owners.number_of("worker-2")


def test_workers_of_a_cluster_are_named_after_their_brokers() -> None:
    owners = clustered()
    assert owners.names == {0: "b1/0", 1: "b1/1"}
    first, second = owners.join("b2/0", THERE, {"outside": HERE}), owners.join("b2/1", THERE)
    assert (first, second, owners.workers) == (2, 3, 4)
    assert owners.join("b2/0", THERE) == first, "it has joined again"
    assert [owners.is_here(worker) for worker in owners.names] == [True, True, False, False]


def test_only_this_broker_names_the_process_of_a_topic() -> None:
    owners = clustered()
    number = owners.join("b2/1", THERE, {"outside": HERE})
    own, other = owners.owner(1), owners.owner(number)
    assert (own.is_self, own.process_url, own.default) == (True, URLS[1], HERE)
    assert (other.is_self, other.process_url, other.default) == (False, "", THERE)
    assert other.urls_of("outside") == HERE
    owners.announce(THERE)
    assert owners.owner(0).default == THERE and owners.owner(number).default == THERE
    owners.join("b2/1", HERE)
    assert owners.owner(number).default == HERE


def test_a_worker_that_has_not_joined_is_not_ready() -> None:
    owners = clustered()
    number = owners.known("b3/0")
    assert owners.known("b3/0") == number and owners.names[number] == "b3/0"
    with pytest.raises(NotReady, match="b3/0 is not there now"):
        owners.owner(number)
    assert owners.join("b3/0", THERE) == number
    assert owners.owner(number).default == THERE


def test_a_number_is_not_used_again() -> None:
    owners = clustered()
    first = owners.join("b2/0", THERE)
    owners.leave("b2/0")
    assert first not in owners.names
    assert owners.join("b3/0", THERE) == first + 1
    assert owners.join("b2/0", THERE) == first + 2


def test_a_worker_with_bundles_stays() -> None:
    owners = clustered()
    number = owners.join("b2/0", THERE)
    owners.place(NAMESPACE, Placed(Bundles.even(2), (0, number)))
    with pytest.raises(ValueError, match=r"b2/0 stays: it owns bundles of \['tenant/space'\]"):
        owners.leave("b2/0")
    owners.place(NAMESPACE, Placed(Bundles.even(2), (0, 1)))
    owners.leave("b2/0")
    with pytest.raises(ValueError, match="no process b2/0"):
        owners.leave("b2/0")


def test_workers_of_this_broker_neither_join_nor_leave() -> None:
    owners = clustered()
    with pytest.raises(ValueError, match="b1/0 is a worker of this broker"):
        owners.join("b1/0", THERE)
    with pytest.raises(ValueError, match="b1/0 stays"):
        owners.leave("b1/0")
    assert owners.owner(0).default == HERE


def test_nothing_is_relayed_to_another_broker() -> None:
    owners = clustered()
    number = owners.join("b2/0", THERE)
    assert owners.worker_here(TOPIC) is None
    owners.place(NAMESPACE, Placed(Bundles.even(1), (1,)))
    assert owners.worker_here(TOPIC) == owners.worker_of(TOPIC) == 1
    owners.place(NAMESPACE, Placed(Bundles.even(1), (number,)))
    assert owners.worker_here(TOPIC) is None and owners.worker_of(TOPIC) == number


def test_lines_of_the_table_name_workers_since_each_process_has_its_own_numbers() -> None:
    here, there = clustered(), BundleOwners(URLS, "b2")
    number = here.join("b2/1", THERE)
    placed = Placed(Bundles.even(4), (0, number, here.known("b3/0"), 1))
    line = here.values_of(NAMESPACE, placed)
    assert line[2] == ("b1/0", "b2/1", "b3/0", "b1/1")
    namespace, found = there.placed_of(*line)
    assert namespace == NAMESPACE and found.bundles == placed.bundles
    assert [there.names[worker] for worker in found.workers] == list(line[2])
    assert [there.is_here(worker) for worker in found.workers] == [False, True, False, False]
    assert there.values_of(*there.placed_of(*line)) == line
