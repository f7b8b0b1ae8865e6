"""Deleting the topics of a bundle over HTTP."""

from collections.abc import Callable

from admin_http import Admin
from running_broker import RunningBroker

BUNDLES = ("0x00000000_0x80000000", "0x80000000_0xffffffff")


def test_a_bundle_s_topics_are_deleted(make_broker: Callable[..., RunningBroker]) -> None:
    admin = Admin(make_broker(magnetarWorkers="3", forceDeleteNamespaceAllowed="true"))
    assert admin.put("namespaces/public/n", {"bundles": {"numBundles": 2}}).status == 204
    for number in range(8):
        assert admin.put(f"persistent/public/n/t{number}").status == 204
    path = f"namespaces/public/n/{BUNDLES[0]}"
    hashes = [admin.get(f"namespaces/public/n/{one}/topicHashPositions") for one in BUNDLES]
    there, other = (set(one.json["topicHashPositions"]) for one in hashes)
    assert there and other and len(there | other) == 8
    assert admin.delete(path).status == 409
    assert set(admin.get("persistent/public/n").json) == there | other
    assert admin.delete(f"{path}?force=true").status == 204
    assert set(admin.get("persistent/public/n").json) == other
    assert admin.delete(path).status == 204  # there are no topics left
    assert admin.delete("namespaces/public/n/0x00000000_0x50000000").status in (409, 412)
    assert admin.delete("namespaces/public/n/nonsense").status == 405
    assert admin.put("persistent/public/n/p/partitions", 4).status == 204
    assert admin.delete(f"{path}?force=true").status == 409
    assert set(admin.get("persistent/public/n").json) > other


def test_force_must_be_allowed(make_broker: Callable[..., RunningBroker]) -> None:
    admin = Admin(make_broker())
    assert admin.delete(f"namespaces/public/default/{BUNDLES[0]}?force=true").status == 405
