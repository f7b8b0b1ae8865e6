"""Brokers over REST, of a cluster that has one."""

from conformance.differences import Difference, differs
from conformance.trace import Trace

ANY_CLUSTER = Difference(
    "`GET /admin/v2/brokers/{cluster}` with a cluster that does not exist",
    "the brokers of the only cluster",
    "404",
)


def brokers(t: Trace) -> None:
    t.rest("GET", "brokers")
    t.rest("GET", "brokers/")
    t.rest("GET", "brokers/standalone")
    t.rest("GET", "brokers/leaderBroker")


def brokers_that_are_not_there(t: Trace) -> None:
    for name in ("elsewhere:18080", "nonsense"):
        t.rest("GET", f"brokers/standalone/{name}/ownedNamespaces")
        t.rest("GET", f"brokers/health?brokerId={name}")


@differs(ANY_CLUSTER)
def clusters_that_are_not_there(t: Trace) -> None:
    t.rest("GET", "brokers/nowhere")


def a_bundle_does_not_go_to_a_broker_that_is_not_there(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.rest("PUT", path, {"bundles": {"numBundles": 1}})
    topic = f"persistent://public/{t.token}/topic"
    a = t.connects()
    a.produces(topic)
    t.rest("PUT", f"{path}/0x00000000_0xffffffff/unload?destinationBroker=elsewhere:1")
    a.receives_rest()
