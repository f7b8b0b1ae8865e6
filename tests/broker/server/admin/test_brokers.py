"""Brokers and their bundles over HTTP, with daemons of one worker and of several."""

from collections.abc import Callable

import pytest

from admin_http import Admin
from moving import bundle_of, move, owner_of, split
from running_broker import RunningBroker


def owners_of(admin: Admin) -> dict[str, str]:
    """Return the broker of each bundle that has an owner."""
    found: dict[str, str] = {}
    for broker in admin.get("brokers").json:
        for bundle in admin.get(f"brokers/standalone/{broker}/ownedNamespaces").json:
            assert bundle not in found
            found[bundle] = broker
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_tools_find_the_owner_of_a_bundle_and_name_another(
    make_broker: Callable[..., RunningBroker], topic: str, workers: int
) -> None:
    broker = make_broker(magnetarWorkers=str(workers))
    admin, port = Admin(broker), broker.http_port
    several = [f"worker-{number}:{port}" for number in range(workers)]
    listed = several if workers > 1 else [f"127.0.0.1:{port}"]
    assert admin.get("brokers").json == admin.get("brokers/standalone").json == listed
    leader = {"brokerId": listed[0], "serviceUrl": f"http://127.0.0.1:{port}"}
    assert admin.get("brokers/leaderBroker").json == leader
    assert admin.put(topic.replace("://", "/")).status == 204
    for destination in listed:
        bundle = f"public/default/{bundle_of(broker, topic)}"
        path = f"namespaces/{bundle}/unload?destinationBroker={destination}"
        assert admin.put(path).status == 204
        assert owners_of(admin)[bundle] == destination
        assert admin.get(f"brokers/health?brokerId={destination}").body == b"ok"
        split(broker, topic, "?unload=true")
        owners = owners_of(admin)
        assert bundle not in owners
        assert owners[f"public/default/{bundle_of(broker, topic)}"] == destination
    bundles = admin.get("namespaces/public/default/bundles").json
    owned = [bundle for bundle in owners_of(admin) if bundle.startswith("public/default/")]
    assert len(owned) == bundles["numBundles"] == len(bundles["boundaries"]) - 1


def test_bundles_stay_split_when_the_broker_is_started_again(
    make_broker: Callable[..., RunningBroker], topic: str
) -> None:
    broker = make_broker(magnetarWorkers="3")
    admin = Admin(broker)
    assert admin.put(topic.replace("://", "/")).status == 204
    split(broker, topic)
    boundaries = admin.get("namespaces/public/default/bundles").json
    bundle = bundle_of(broker, topic)
    broker.kill()
    broker.start()
    assert admin.get("namespaces/public/default/bundles").json == boundaries
    assert bundle_of(broker, topic) == bundle
    move(broker, topic, 2)
    assert owner_of(broker.port, topic) == 2
