"""Clusters over HTTP: the broker's own, and others with their addresses."""

from collections.abc import Callable

import pytest

from admin_http import Admin
from running_broker import RunningBroker

OTHER = {"serviceUrl": "http://x:1", "brokerServiceUrl": "pulsar://x:2"}
ISOLATION = {
    "namespaces": ["public/.*"],
    "primary": ["127.*", "worker.*"],
    "secondary": [],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}


@pytest.fixture
def running(make_broker: Callable[..., RunningBroker]) -> RunningBroker:
    return make_broker()


@pytest.fixture
def admin(running: RunningBroker) -> Admin:
    return Admin(running)


def test_other_clusters_are_stored(admin: Admin, running: RunningBroker) -> None:
    assert admin.get("clusters").json == ["standalone"]
    assert admin.put("clusters/other", OTHER | {"unknown": 1}).status == 200
    assert admin.put("clusters/other", OTHER).status == 409
    assert admin.get("clusters").json == ["other", "standalone"]
    flags = ("brokerClientTlsEnabled", "tlsAllowInsecureConnection",
             "brokerClientTlsEnabledWithKeyStore")  # fmt: skip
    assert admin.get("clusters/other").json == {**OTHER, **dict.fromkeys(flags, False)}
    changed = {"serviceUrl": "http://y:1", "peerClusterNames": ["standalone"]}
    assert admin.post("clusters/other", changed).status == 200
    again = Admin(running.restart())
    assert again.get("clusters/other").json == {**changed, **dict.fromkeys(flags, False)}
    assert again.delete("clusters/other").status == 204
    assert again.get("clusters/other").status == again.delete("clusters/other").status == 404
    assert again.post("clusters/other", changed).status == 404


def test_empty_texts_of_a_cluster_are_none(admin: Admin) -> None:
    """The official Go client writes empty texts for values that were not given."""
    assert (
        admin.put("clusters/other", OTHER | {"serviceUrlTls": "", "listenerName": ""}).status == 200
    )
    assert "serviceUrlTls" not in admin.get("clusters/other").json


def test_bad_data_of_a_cluster_is_refused(admin: Admin) -> None:
    for bad in (
        None,
        [1],
        {"serviceUrl": "bogus"},
        {"serviceUrl": 5},
        {"serviceUrl": "http://[x"},
        {"brokerServiceUrl": "http://x:1"},
        {"peerClusterNames": "x"},
        {"brokerClientTlsEnabled": "yes"},
    ):
        assert admin.put("clusters/c", bad).status == 400, bad
    assert admin.put("clusters/bad%20name!", OTHER).status == 412
    assert admin.get("clusters").json == ["standalone"]


def test_secrets_of_a_cluster_are_not_stored(admin: Admin) -> None:
    secrets = {"authenticationParameters": "token:abc", "brokerClientTlsKeyStorePassword": "pw"}
    created = admin.put("clusters/other", OTHER | secrets)
    assert created.status == 200
    assert ", ".join(secrets) in created.headers["Warning"]
    assert admin.get("clusters/other").json.keys().isdisjoint(secrets)
    changed = admin.post("clusters/other", OTHER | {"brokerClientTlsTrustStorePassword": "pw"})
    assert "brokerClientTlsTrustStorePassword" in changed.headers["Warning"]
    assert "brokerClientTlsTrustStorePassword" not in admin.get("clusters/other").json
    refused = admin.post("clusters/other", {"authenticationParameters": ["token:abc"]})
    assert refused.status == 400 and "abc" not in refused.reason
    assert "Warning" not in admin.post("clusters/other", OTHER).headers


def test_the_broker_s_own_cluster(admin: Admin, running: RunningBroker) -> None:
    found = admin.get("clusters/standalone").json
    assert found["brokerServiceUrl"] == running.service_url
    assert found["serviceUrl"] == running.http_url
    assert admin.put("clusters/standalone", OTHER).status == 409
    assert admin.delete("clusters/standalone").status == 412
    assert admin.post("clusters/standalone", OTHER).status == 200
    assert admin.get("clusters/standalone").json.items() >= OTHER.items()


def test_tenants_and_namespaces_name_clusters_that_are_known(admin: Admin) -> None:
    both = {"adminRoles": [], "allowedClusters": ["standalone", "other"]}
    assert admin.put("tenants/t", both).status == 412
    assert admin.put("clusters/other", OTHER).status == 200
    assert admin.put("tenants/t", both).status == 204
    assert admin.put("namespaces/t/n").status == 204
    assert admin.post("namespaces/t/n/replication", ["standalone", "other"]).status == 200
    assert admin.get("namespaces/t/n/replication").json == ["standalone", "other"]
    assert admin.get("namespaces/t/n").json["replication_clusters"] == ["standalone", "other"]
    assert admin.post("namespaces/t/n/allowedClusters", ["standalone"]).status == 400
    assert admin.post("namespaces/public/default/replication", ["other"]).status == 403
    assert admin.put("persistent/t/n/topic").status == 204
    assert admin.post("persistent/t/n/topic/replication", ["other"]).status == 412
    refused = admin.delete("clusters/other")
    assert refused.status == 412 and "tenant t" in refused.reason


def test_peers(admin: Admin) -> None:
    assert admin.put("clusters/other", OTHER).status == 200
    path = "clusters/other/peers"
    assert admin.get(path).body == b""
    assert admin.post(path, ["standalone"]).status == 204
    assert admin.get(path).json == ["standalone"]
    assert admin.post(path, ["none"]).status == admin.post(path, ["other"]).status == 412
    assert admin.post("clusters/none/peers", ["other"]).status == 404
    assert admin.get("clusters/none/peers").status == 404
    assert admin.post(path).status == 204 and admin.get(path).body == b""
    assert admin.get("clusters/other").json.items() >= OTHER.items()


def test_failure_domains(admin: Admin) -> None:
    path = "clusters/standalone/failureDomains"
    assert admin.get(path).json == {}
    assert admin.post(f"{path}/d", {"brokers": ["b1"]}).status == 204
    assert admin.get(path).json == {"d": {"brokers": ["b1"]}}
    assert admin.get(f"{path}/d").json == {"brokers": ["b1"]}
    assert admin.post(f"{path}/e", {"brokers": ["b1"]}).status == 409
    assert admin.post(f"{path}/d", {"brokers": ["b1", "b2"]}).status == 204
    assert admin.get(f"{path}/e").status == admin.delete(f"{path}/e").status == 404
    assert admin.delete(f"{path}/d").status == 200
    assert admin.get(path).json == {}
    assert admin.post(f"{path}/d", [1]).status == 400


def test_isolation_policies(admin: Admin) -> None:
    path = "clusters/standalone/namespaceIsolationPolicies"
    assert admin.get(path).status == 404
    assert admin.post(f"{path}/p", ISOLATION).status == 204
    assert admin.get(path).json == {"p": ISOLATION}
    assert admin.get(f"{path}/p").json == ISOLATION
    assert admin.get(f"{path}/q").status == 404
    refused: tuple[object, ...] = ({"namespaces": []}, None, ISOLATION | {"primary": []}, [1])
    for bad in refused:
        assert admin.post(f"{path}/q", bad).status == 400
    brokers = admin.get(f"{path}/brokers").json
    assert len(brokers) == len(admin.get("brokers").json)
    assert {(found["policyName"], found["primary"]) for found in brokers} == {("p", True)}
    assert admin.get(f"{path}/brokers/elsewhere").json["namespaceRegex"] == []
    assert admin.post(f"{path}/broken", ISOLATION | {"primary": ["("]}).status == 204
    assert admin.get(f"{path}/brokers").status == 200
    assert admin.delete(f"{path}/p").status == admin.delete(f"{path}/p").status == 204


def test_a_cluster_s_migration_is_stored(admin: Admin) -> None:
    path = "clusters/standalone/migrate"
    assert admin.get(path).json == {"migrated": False}
    assert admin.post(f"{path}?migrated=true", OTHER).status == 200
    assert admin.get(path).json == {"migrated": True, "migratedClusterUrl": OTHER}


def test_what_is_stored_of_a_cluster_is_bounded(admin: Admin) -> None:
    huge = {"brokers": [f"broker-{number}" for number in range(30_000)]}
    assert admin.post("clusters/standalone/failureDomains/d", huge).status == 412
    assert admin.get("clusters/standalone/failureDomains").json == {}
