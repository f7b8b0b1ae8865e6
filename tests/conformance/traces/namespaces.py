"""Namespaces over REST: their life, bundles, properties and topics."""

from conformance.differences import Difference, differs
from conformance.rest_differences import REFUSED
from conformance.trace import Trace

NO_LOOKUP = Difference(
    "PRODUCER without a lookup, in a namespace that does not exist",
    "ServiceNotReady",
    "TopicNotFound, as a lookup answers",
)
HERE = {"allowedClusters": ["standalone"], "adminRoles": []}


def _namespace(t: Trace) -> str:
    """One that is not there yet."""
    return f"namespaces/public/{t.token}"


def _makes(t: Trace) -> str:
    path = _namespace(t)
    t.rest("PUT", path, {"bundles": {"numBundles": 1}})
    return path


def a_namespace_comes_and_goes(t: Trace) -> None:
    path = _namespace(t)
    t.rest("GET", path)
    t.rest("PUT", path)
    t.rest("GET", path)
    t.rest("DELETE", path)
    t.rest("GET", path)
    t.rest("DELETE", path)


def a_namespace_that_is_there(t: Trace) -> None:
    path = _makes(t)
    t.rest("PUT", path)


def a_namespace_of_a_tenant_that_is_not_there(t: Trace) -> None:
    path = f"namespaces/{t.token}/ns"
    t.rest("PUT", path)
    t.rest("GET", path)
    t.rest("DELETE", path)
    t.rest("GET", f"{path}/topics")


def a_namespace_with_policies(t: Trace) -> None:
    path = _namespace(t)
    policies = {
        "replication_clusters": ["standalone"],
        "bundles": {"numBundles": 2},
        "retention_policies": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20},
        "message_ttl_in_seconds": 30,
        "max_producers_per_topic": 3,
        "deduplicationEnabled": True,
        "schema_compatibility_strategy": "FORWARD",
        "encryption_required": False,
    }
    t.rest("PUT", path, policies)
    t.rest("GET", path)
    t.rest("GET", f"{path}/retention")
    t.rest("GET", f"{path}/messageTTL")


def a_namespace_with_permissions(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, {"auth_policies": {"namespace_auth": {"me": ["produce", "consume"]}}})
    t.rest("GET", path)


def a_namespace_with_an_empty_body(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, {})
    t.rest("GET", path)


def a_namespace_with_null_as_its_body(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, b"null")
    t.rest("GET", path)


def a_namespace_of_a_cluster_that_is_not_there(t: Trace) -> None:
    t.rest("PUT", _namespace(t), {"replication_clusters": ["nowhere"]})


def a_namespace_whose_body_is_broken(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, b"{nonsense")
    t.rest("PUT", path, [1])
    t.rest("PUT", path, {"message_ttl_in_seconds": "soon"})
    t.rest("GET", path)


def a_namespace_with_more_than_is_known(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, {"colour": "green"})
    t.rest("DELETE", path)


def names_that_are_no_namespaces(t: Trace) -> None:
    for name in ("a%20b", "a%2Fb", "%C3%A4", "a*b"):
        t.rest("PUT", f"namespaces/public/{name}")


def bundles(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, {"bundles": {"numBundles": 3}})
    t.rest("GET", f"{path}/bundles")
    t.rest("GET", f"{_namespace(t)}-absent/bundles")


def bundles_by_default(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path)
    t.rest("GET", f"{path}/bundles")


def no_bundles(t: Trace) -> None:
    path = _namespace(t)
    t.rest("PUT", path, {"bundles": {"numBundles": 0}})
    t.rest("PUT", path, {"bundles": {"numBundles": -1}})
    t.rest("GET", path)


def a_namespace_with_a_topic(t: Trace) -> None:
    path = _makes(t)
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    t.rest("DELETE", path)
    t.rest("GET", path)
    t.rest("DELETE", f"{path}?force=true")
    t.rest("GET", path)
    t.rest("GET", f"persistent/public/{t.token}")


@differs(NO_LOOKUP)
def a_namespace_goes_by_force_under_a_producer_and_a_consumer(t: Trace) -> None:
    path = _makes(t)
    topic = f"persistent://public/{t.token}/topic"
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    a, b = t.connects(), t.connects()
    a.produces(topic)
    b.subscribes(topic=topic)
    t.rest("DELETE", path)
    t.rest("DELETE", f"{path}?force=true")
    a.receives_rest()
    b.receives_rest()
    a.produces(topic)


def a_namespace_that_was_deleted_is_made_anew(t: Trace) -> None:
    path = _makes(t)
    t.rest("POST", f"{path}/messageTTL", 7)
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    t.rest("DELETE", f"{path}?force=true")
    t.rest("PUT", path, {"bundles": {"numBundles": 1}})
    t.rest("GET", f"{path}/messageTTL")
    t.rest("GET", f"persistent/public/{t.token}")


def topics_of_a_namespace(t: Trace) -> None:
    path = _makes(t)
    t.rest("GET", f"{path}/topics")
    t.rest("PUT", f"persistent/public/{t.token}/one")
    t.rest("PUT", f"persistent/public/{t.token}/two/partitions", 2)
    t.connects().produces(f"non-persistent://public/{t.token}/three")
    for query in ("", "?mode=PERSISTENT", "?mode=NON_PERSISTENT", "?mode=ALL", "?mode=nonsense"):
        t.rest("GET", f"{path}/topics{query}")
    for domain in ("persistent", "non-persistent"):
        t.rest("GET", f"{domain}/public/{t.token}")
        t.rest("GET", f"{domain}/public/{t.token}/partitioned")


def system_topics_of_a_namespace(t: Trace) -> None:
    path = _makes(t)
    t.rest("PUT", f"persistent/public/{t.token}/one")
    t.rest("POST", f"persistent/public/{t.token}/one/maxProducers", 5)
    t.rest("GET", f"{path}/topics")
    t.rest("GET", f"persistent/public/{t.token}")


def properties_of_a_namespace(t: Trace) -> None:
    path = _makes(t)
    t.rest("GET", f"{path}/properties")
    t.rest("PUT", f"{path}/properties", {"a": "1", "b": "2"})
    t.rest("GET", f"{path}/properties")
    t.rest("PUT", f"{path}/properties", {"c": "3"})
    t.rest("GET", f"{path}/properties")
    t.rest("PUT", f"{path}/property/d/4")
    t.rest("GET", f"{path}/property/d")
    t.rest("GET", f"{path}/property/none")
    t.rest("DELETE", f"{path}/property/a")
    t.rest("DELETE", f"{path}/property/none")
    t.rest("GET", path)
    t.rest("DELETE", f"{path}/properties")
    t.rest("GET", f"{path}/properties")
    t.rest("GET", f"{path}-absent/properties")


def a_namespace_is_unloaded(t: Trace) -> None:
    path = _makes(t)
    topic = f"persistent://public/{t.token}/topic"
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    a, b = t.connects(), t.connects()
    a.produces(topic)
    b.subscribes(topic=topic)
    t.rest("PUT", f"{path}/unload")
    a.receives_rest()
    b.receives_rest()
    t.rest("PUT", f"{path}-absent/unload")


def a_bundle_is_unloaded(t: Trace) -> None:
    path = _makes(t)
    topic = f"persistent://public/{t.token}/topic"
    t.rest("PUT", f"persistent/public/{t.token}/topic")
    a = t.connects()
    a.produces(topic)
    t.rest("PUT", f"{path}/0x00000000_0xffffffff/unload")
    a.receives_rest()
    t.rest("PUT", f"{path}/0x00000000_0x10000000/unload")


@differs(REFUSED)
def a_bundle_that_is_none(t: Trace) -> None:
    t.rest("PUT", f"{_makes(t)}/nonsense/unload")


def limits_of_topics_in_a_namespace(t: Trace) -> None:
    path = _makes(t)
    t.rest("POST", f"{path}/maxTopicsPerNamespace", 2)
    topics = f"persistent/public/{t.token}"
    t.rest("PUT", f"{topics}/one")
    t.rest("PUT", f"{topics}/three/partitions", 3)
    t.rest("PUT", f"{topics}/two")
    t.rest("PUT", f"{topics}/more")
    t.connects().produces(f"persistent://public/{t.token}/other")
    t.rest("DELETE", f"{topics}/one")
    t.rest("PUT", f"{topics}/more")
