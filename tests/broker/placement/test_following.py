"""The tables of other processes follow the leader's, whichever broker they are of."""

from fakes.links import Joined
from fakes.unreliable_metadata import UnreliableMetadata
from fakes.world import ManualClock, run
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.runtime import NamesRuntime
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.names.workers.distributed_topic_host import DistributedTopicHost
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.bundle_owners import BundleOwners, Placed, following
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.stored_bundles import StoredBundles
from magnetar_broker.placement.worker_links import WorkerLinks

B1 = ListenerUrls("pulsar://b1:6650", "", "http://b1:8080")
B2 = ListenerUrls("pulsar://b2:6650", "pulsar+ssl://b2:6651")
OUTSIDE = ListenerUrls("pulsar://outside:1")
URLS = ["pulsar://worker-0:6650"]
NAMESPACE = "tenant/space"


class Leader:
    """The leader, which is of broker b1, and processes that follow it."""

    def __init__(self, broker: str = "b1") -> None:
        self.clock = ManualClock()
        metadata = GuardedMetadata(UnreliableMetadata(self.clock), None)
        self.links = WorkerLinks(2, self.clock)
        owners = BundleOwners(URLS, broker)
        owners.announce(B1, {"outside": OUTSIDE})
        self.placement = Placement(owners, StoredBundles(metadata, 1), self.links, self.clock)
        pair = Joined(self.clock)
        runtime = NamesRuntime(metadata, self.clock, pair.tasks)
        self.host = DistributedTopicHost(self.placement, self.links, runtime)

    def follow(self, number: int, broker: str) -> BundleOwners:
        """Return the table of a worker that has joined."""
        owners, pair = BundleOwners(URLS, broker), Joined(self.clock)
        owners.announce(B2 if broker == "b2" else B1)
        pair.right.serve(following(owners))
        pair.right.serve({"topic_host.settings": lambda settings: None})
        pair.connect()
        self.host.join(number, pair.left, [])
        self.clock.pump()
        return owners

    def settle(self) -> None:
        self.clock.pump()


def addresses(owners: BundleOwners, name: str) -> tuple[bool, ListenerUrls, ListenerUrls | None]:
    owner = owners.owner(owners.number_of(name))
    return owner.is_self, owner.default, owner.listeners.get("outside")


def test_workers_that_join_and_leave_are_known_to_all() -> None:
    leader = Leader()
    leader.placement.admit("b3/0", OUTSIDE, {})
    near, far = leader.follow(0, "b1"), leader.follow(1, "b2")
    number = leader.placement.admit("b2/0", B2, {"outside": OUTSIDE})
    leader.settle()
    assert set(near.names.values()) == set(far.names.values()) == {"b1/0", "b2/0", "b3/0"}
    assert addresses(near, "b1/0") == (True, B1, None), "as it announces itself"
    assert addresses(near, "b2/0") == (False, B2, OUTSIDE)
    assert addresses(far, "b1/0") == (False, B1, OUTSIDE)
    assert addresses(far, "b2/0") == (True, B2, None)
    assert addresses(near, "b3/0") == addresses(far, "b3/0") == (False, OUTSIDE, None)
    leader.placement.owners.place(NAMESPACE, Placed(Bundles.even(2), (0, number)))
    run(leader.placement.adopt(NAMESPACE, Bundles.even(4)), leader.clock)
    leader.settle()
    for owners, here in ((near, 0), (far, 1)):
        placed = owners.of(NAMESPACE)
        assert placed is not None
        assert [owners.names[one] for one in placed.workers] == ["b1/0", "b1/0", "b2/0", "b2/0"]
        assert [owners.is_here(one) for one in placed.workers[::2]] == [here == 0, here == 1]
    leader.placement.dismiss("b3/0")
    leader.settle()
    assert set(near.names.values()) == set(far.names.values()) == {"b1/0", "b2/0"}


def test_a_broker_that_is_alone_tells_its_workers_no_addresses() -> None:
    leader = Leader("")
    assert leader.placement.owners.joined() == []
    owners = leader.follow(0, "")
    assert owners.names == {0: "worker-0"}
    assert addresses(owners, "worker-0") == (True, B1, None)
