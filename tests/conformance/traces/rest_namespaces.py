"""Namespaces over REST: headers, types and bad input."""

from conformance.differences import differs
from conformance.rest_differences import BELOW_ZERO, BUNDLES, REFUSED
from conformance.trace import Trace


def _new(t: Trace) -> str:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, {"bundles": {"numBundles": 2}})
    return path


def the_answers_about_a_namespace(t: Trace) -> None:
    path = _new(t)
    t.web("GET", path, types=True)
    t.web("GET", f"{path}/topics")
    t.web("GET", f"{path}/bundles")
    t.web("GET", f"{path}/properties")
    t.web("PUT", f"{path}/unload")
    t.web("POST", f"{path}/clearBacklog")
    t.web("DELETE", path)
    t.web("GET", "namespaces/public", types=True)


def bodies_that_are_no_namespace(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, b"[1]")
    t.web("PUT", path, b'"text"')
    t.web("PUT", path, b"7")
    t.web("PUT", path, b"{")
    t.web("PUT", path, {"bundles": 4})
    t.web("PUT", path, {"replication_clusters": "standalone"})
    t.web("PUT", path, {"retention_policies": 7})
    t.web("PUT", path, {"message_ttl_in_seconds": "soon"})
    t.web("GET", path)


def a_namespace_made_of_null(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, b"null")
    t.web("GET", path, types=True)


def a_namespace_with_members_that_nobody_knows(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, {"colour": "green", "bundles": {"numBundles": 2}})
    t.web("GET", f"{path}/bundles")


@differs(BELOW_ZERO)
def fewer_bundles_than_none(t: Trace) -> None:
    t.web("PUT", f"namespaces/public/{t.token}-1", {"bundles": {"numBundles": -1}})


def numbers_of_bundles(t: Trace) -> None:
    t.web("PUT", f"namespaces/public/{t.token}-2", {"bundles": {"numBundles": "4"}})
    t.web("PUT", f"namespaces/public/{t.token}-3", {"bundles": {"numBundles": 1}})
    t.web("GET", f"namespaces/public/{t.token}-3/bundles")


def names_that_are_no_namespaces(t: Trace) -> None:
    t.web("PUT", "namespaces/public/a%20b")
    t.web("PUT", "namespaces/public/a%2Fb")
    t.web("PUT", "namespaces/public/%C3%A4")
    t.web("PUT", "namespaces/public/a*b")
    t.web("GET", "namespaces/public/a%20b")
    t.web("DELETE", "namespaces/public/a%20b")


def a_namespace_that_is_not_there(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("GET", path)
    t.web("DELETE", path)
    t.web("GET", f"{path}/topics")
    t.web("GET", f"{path}/bundles")
    t.web("GET", f"{path}/properties")
    t.web("PUT", f"{path}/properties", {"a": "b"})
    t.web("GET", f"{path}/property/a")
    t.web("PUT", f"{path}/unload")
    t.web("GET", f"{path}/retention")
    t.web("GET", f"{path}/messageTTL")


def changes_of_policies_of_a_namespace_that_is_not_there(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("POST", f"{path}/retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})
    t.web("POST", f"{path}/messageTTL", 7)
    t.web("DELETE", f"{path}/messageTTL")
    t.web("POST", f"{path}/deduplication", True)


def a_namespace_of_a_tenant_that_is_not_there(t: Trace) -> None:
    t.web("PUT", f"namespaces/{t.token}/ns")
    t.web("GET", f"namespaces/{t.token}/ns")
    t.web("DELETE", f"namespaces/{t.token}/ns")
    t.web("GET", f"namespaces/{t.token}")


def properties(t: Trace) -> None:
    path = _new(t)
    t.web("PUT", f"{path}/properties", {"colour": "green", "size": "small"})
    t.web("GET", f"{path}/properties")
    t.web("GET", f"{path}/property/colour")
    t.web("GET", f"{path}/property/nothing")
    t.web("PUT", f"{path}/property/shape/round")
    t.web("DELETE", f"{path}/property/shape")
    t.web("DELETE", f"{path}/property/shape")
    t.web("DELETE", f"{path}/properties")
    t.web("GET", f"{path}/properties")


def bodies_that_are_no_properties(t: Trace) -> None:
    path = _new(t)
    t.web("PUT", f"{path}/properties", [1])
    t.web("PUT", f"{path}/properties", "text")
    t.web("PUT", f"{path}/properties", b"{")
    t.web("PUT", f"{path}/properties", {"a": {"b": "c"}})
    t.web("GET", f"{path}/properties")


def lists_of_topics_by_mode(t: Trace) -> None:
    path = _new(t)
    t.web("PUT", f"persistent/public/{t.token}/one")
    t.web("PUT", f"persistent/public/{t.token}/two/partitions", 2)
    t.web("GET", f"{path}/topics")
    t.web("GET", f"{path}/topics?mode=PERSISTENT")
    t.web("GET", f"{path}/topics?mode=NON_PERSISTENT")
    t.web("GET", f"{path}/topics?mode=ALL")
    t.web("GET", f"{path}/topics?mode=SOME")
    t.web("GET", f"{path}/topics?mode=persistent")
    t.web("GET", f"persistent/public/{t.token}")
    t.web("GET", f"persistent/public/{t.token}/partitioned")
    t.web("GET", f"non-persistent/public/{t.token}")
    t.web("DELETE", path)
    t.web("DELETE", f"{path}?force=true")


def methods_that_namespaces_do_not_have(t: Trace) -> None:
    path = _new(t)
    t.web("POST", path)
    t.web("POST", f"{path}/topics")
    t.web("GET", f"{path}/unload")
    t.web("GET", f"{path}/clearBacklog")
    t.web("PUT", f"{path}/retention")
    t.web("POST", f"{path}/bundles")


def permissions_of_roles(t: Trace) -> None:
    path = _new(t)
    t.web("GET", f"{path}/permissions")
    t.web("GET", f"{path}/permissions/subscription")
    t.web("POST", f"{path}/permissions/reader", ["consume"])
    t.web("POST", f"{path}/permissions/writer", ["produce", "consume"])
    t.web("GET", f"{path}/permissions")
    t.web("POST", f"{path}/permissions/reader", [])
    t.web("DELETE", f"{path}/permissions/writer")
    t.web("DELETE", f"{path}/permissions/nobody")
    t.web("GET", f"{path}/permissions")


def permissions_on_subscriptions(t: Trace) -> None:
    path = _new(t)
    t.web("POST", f"{path}/permissions/subscription/sub", ["reader"])
    t.web("GET", f"{path}/permissions/subscription")
    t.web("DELETE", f"{path}/permissions/sub/reader")
    t.web("GET", f"{path}/permissions/subscription")


def permissions_of_a_namespace_that_is_not_there(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("GET", f"{path}/permissions")
    t.web("POST", f"{path}/permissions/reader", ["consume"])
    t.web("DELETE", f"{path}/permissions/reader")


def backlogs_of_a_namespace(t: Trace) -> None:
    path = f"namespaces/public/{t.token}"
    t.web("PUT", path, {"bundles": {"numBundles": 1}})
    t.web("PUT", f"persistent/public/{t.token}/one")
    t.web("PUT", f"persistent/public/{t.token}/one/subscription/sub")
    t.web("POST", f"{path}/clearBacklog/sub")
    t.web("POST", f"{path}/0x00000000_0xffffffff/clearBacklog")
    t.web("POST", f"{path}/0x00000000_0xffffffff/clearBacklog/sub")
    t.web("POST", f"{path}/nonsense/clearBacklog")
    t.web("POST", f"{path}/unsubscribe/sub")
    t.web("GET", f"persistent/public/{t.token}/one/subscriptions")
    t.web("POST", f"{path}/0x00000000_0xffffffff/unsubscribe/sub")


def bundles_that_are_none(t: Trace) -> None:
    path = _new(t)
    t.web("PUT", f"{path}/0x00000000_0x80000000/unload")
    t.web("PUT", f"{path}/0x00000000_0x10000000/unload")
    t.web("PUT", f"{path}/0x80000000_0xffffffff/split")
    t.web("PUT", f"{path}/0x80000000_0xffffffff/split")
    t.web("PUT", f"{path}/nonsense/split")
    t.web("GET", f"{path}/bundles")


@differs(REFUSED)
def a_bundle_that_is_a_word(t: Trace) -> None:
    t.web("PUT", f"{_new(t)}/nonsense/unload")


@differs(BUNDLES)
def bundles_that_are_deleted(t: Trace) -> None:
    path = _new(t)
    t.web("DELETE", f"{path}/0x00000000_0x80000000")
    t.web("DELETE", f"{path}/nonsense")


def replication_of_a_namespace(t: Trace) -> None:
    path = _new(t)
    t.web("GET", f"{path}/replication")
    t.web("POST", f"{path}/replication", ["standalone"])
    t.web("POST", f"{path}/replication", ["nowhere"])
    t.web("POST", f"{path}/replication", [])
    t.web("GET", f"{path}/replication")
