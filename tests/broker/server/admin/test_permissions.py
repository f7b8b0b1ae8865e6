"""Permissions over HTTP: storing and showing them."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from admin_http import Admin
from running_broker import RunningBroker


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def namespace(admin: Admin) -> str:
    """Create a namespace with a topic, `t`, and a partitioned one, `p`."""
    name = f"public/{uuid4().hex}"
    admin.makes_namespace(name)
    assert admin.put(f"persistent/{name}/t").status == 204
    assert admin.put(f"persistent/{name}/p/partitions", 2).status == 204
    return name


def test_permissions_of_a_namespace(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}/permissions"
    assert admin.get(path).json == {}
    granted = admin.post(f"{path}/r", ["consume", "produce", "produce"])
    assert granted.status == 204 and "authorizationEnabled is false" in granted.headers["Warning"]
    assert admin.post(f"{path}/all", ["functions", "sources", "sinks", "packages"]).status == 204
    assert admin.get(path).json == {
        "r": ["produce", "consume"],
        "all": ["functions", "sinks", "sources", "packages"],
    }
    assert admin.post(f"{path}/r", ["consume"]).status == 204  # replaces
    assert admin.get(path).json["r"] == ["consume"]
    assert admin.delete(f"{path}/r").status == admin.delete(f"{path}/none").status == 204
    assert admin.get(path).json.keys() == {"all"}
    refused: tuple[object, ...] = (["fly"], {}, "produce", [1])
    for bad in refused:
        assert admin.post(f"{path}/r", bad).status == 400
    assert admin.post(f"{path}/%20", ["produce"]).status == 412
    assert admin.get("namespaces/public/missing/permissions").status == 404


def test_permissions_of_topics_are_added_to_those_of_the_namespace(
    admin: Admin, namespace: str
) -> None:
    topic = f"persistent/{namespace}/t"
    assert admin.post(f"namespaces/{namespace}/permissions/r", ["produce"]).status == 204
    assert admin.post(f"{topic}/permissions/r", ["consume"]).status == 204
    assert admin.post(f"{topic}/permissions/other", ["consume"]).status == 204
    assert admin.get(f"{topic}/permissions").json == {
        "r": ["produce", "consume"],
        "other": ["consume"],
    }
    assert admin.delete(f"{topic}/permissions/r").status == 204
    assert admin.get(f"{topic}/permissions").json["r"] == ["produce"]
    found = admin.get(f"namespaces/{namespace}").json["auth_policies"]
    assert found == {
        "namespace_auth": {"r": ["produce"]},
        "destination_auth": {f"persistent://{namespace}/t": {"other": ["consume"]}},
        "subscription_auth_roles": {},
    }
    assert admin.get(f"persistent/{namespace}/absent/permissions").status == 404
    assert admin.post(f"persistent/{namespace}/absent/permissions/r", ["consume"]).status == 404


def test_policies_without_a_value_are_not_set(admin: Admin) -> None:
    """The official Go client writes every member of a namespace, null or ""."""
    policies = {
        "auth_policies": {"namespace_auth": None, "destination_auth": None},
        "schema_compatibility_strategy": "",
    }
    assert admin.put("namespaces/public/bare", policies).status == 204
    found = admin.get("namespaces/public/bare").json
    assert found["auth_policies"]["namespace_auth"] == {}
    assert found["schema_compatibility_strategy"] == "UNDEFINED"


def test_permissions_of_a_new_namespace_are_checked_as_single_ones(admin: Admin) -> None:
    name = f"public/{uuid4().hex}"
    topic = f"persistent://{name}/t"
    wrong: tuple[tuple[object, int], ...] = (
        (5, 400),
        ({"namespace_auth": 5}, 400),
        ({"namespace_auth": {"r": 5}}, 400),
        ({"namespace_auth": {"r": "produce"}}, 400),
        ({"namespace_auth": {"r": ["fly"]}}, 400),
        ({"namespace_auth": {" ": ["produce"]}}, 412),
        ({"namespace_auth": {"r" * 257: ["produce"]}}, 412),
        ({"namespace_auth": {f"r{number}": ["produce"] for number in range(10_001)}}, 412),
        ({"destination_auth": {f"{topic}/y": {"r": ["produce"]}}}, 412),
        ({"destination_auth": {"persistent://public/default/t": {"r": ["produce"]}}}, 412),
        ({"destination_auth": {topic: ["produce"]}}, 400),
        ({"subscription_auth_roles": {"s": "r"}}, 400),
        ({"subscription_auth_roles": {"s": [5]}}, 400),
    )
    for policies, status in wrong:
        answer = admin.put(f"namespaces/{name}", {"auth_policies": policies})
        assert answer.status == status, (policies, answer)
    good = {
        "namespace_auth": {"r": ["consume", "produce"]},
        "destination_auth": {topic: {"r": ["produce"]}},
        "subscription_auth_roles": {"s": ["r2", "r1"]},
    }
    policies = {"auth_policies": {**good, "unknown": {"r": 5}}}
    assert admin.put(f"namespaces/{name}", policies).status == 204
    assert admin.get(f"namespaces/{name}").json["auth_policies"] == {
        "namespace_auth": {"r": ["produce", "consume"]},
        "destination_auth": {topic: {"r": ["produce"]}},
        "subscription_auth_roles": {"s": ["r1", "r2"]},
    }


def test_a_partition_has_the_permissions_of_its_topic(admin: Admin, namespace: str) -> None:
    topic = f"persistent/{namespace}/p"
    assert admin.post(f"{topic}/permissions/r", ["consume"]).status == 204
    assert admin.get(f"{topic}-partition-1/permissions").json == {"r": ["consume"]}


def test_permissions_on_many_topics(admin: Admin, namespace: str) -> None:
    names = [f"persistent://{namespace}/{local}" for local in ("t", "p")]
    body = [{"topic": name, "role": "g", "actions": ["produce", "consume"]} for name in names]
    assert admin.post("namespaces/grantPermissionsOnTopics", body).status == 204
    for local in ("t", "p"):
        found = admin.get(f"persistent/{namespace}/{local}/permissions").json
        assert found == {"g": ["produce", "consume"]}
    taken = [{"topic": names[0], "role": "g", "actions": ["consume"]}, body[1]]
    assert admin.post("namespaces/revokePermissionsOnTopics", taken).status == 204
    assert admin.get(f"persistent/{namespace}/t/permissions").json == {"g": ["produce"]}
    assert admin.get(f"persistent/{namespace}/p/permissions").json == {}
    whole = [{"topic": names[0], "role": "g"}]  # as the Java client sends it
    assert admin.post("namespaces/revokePermissionsOnTopics", whole).status == 204
    assert admin.get(f"persistent/{namespace}/t/permissions").json == {}
    bad = [*body, {"topic": names[0]}]
    assert admin.post("namespaces/grantPermissionsOnTopics", bad).status == 400
    assert admin.get(f"persistent/{namespace}/p/permissions").json == {}  # nothing was done
    many = body * 501
    assert admin.post("namespaces/grantPermissionsOnTopics", many).status == 412


def test_permissions_of_subscriptions(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}/permissions"
    assert admin.post(f"{path}/subscription/s", ["r2", "r1"]).status == 204
    assert admin.post(f"{path}/subscription/empty", []).status == 204
    assert admin.get(f"{path}/subscription").json == {"s": ["r1", "r2"], "empty": []}
    assert admin.delete(f"{path}/s/r1").status == admin.delete(f"{path}/s/none").status == 204
    assert admin.get(f"{path}/subscription").json == {"s": ["r2"], "empty": []}
    assert admin.delete(f"{path}/none/r1").status == 404
    assert admin.post(f"{path}/subscription/s", {}).status == 400


def test_a_topic_that_is_created_again_has_no_permissions(admin: Admin, namespace: str) -> None:
    for local, parts in (("t", ""), ("p", "/partitions")):
        topic = f"persistent/{namespace}/{local}"
        assert admin.post(f"{topic}/permissions/r", ["consume"]).status == 204
        assert admin.delete(f"{topic}{parts}").status == 204
        assert admin.put(f"{topic}{parts}", 2 if parts else None).status == 204
        assert admin.get(f"{topic}/permissions").json == {}
    assert admin.get(f"namespaces/{namespace}").json["auth_policies"]["destination_auth"] == {}


def test_permissions_of_a_partition_end_with_its_topic(admin: Admin, namespace: str) -> None:
    topic = f"persistent/{namespace}/p"
    for name in (f"{topic}-partition-1", f"persistent/{namespace}/t"):
        assert admin.post(f"{name}/permissions/r", ["consume"]).status == 204
    assert admin.delete(f"{topic}/partitions").status == 204
    assert admin.put(f"{topic}/partitions", 2).status == 204
    assert admin.get(f"{topic}-partition-1/permissions").json == {}
    assert admin.get(f"persistent/{namespace}/t/permissions").json == {"r": ["consume"]}


def test_a_request_of_many_topics_is_done_as_a_whole(admin: Admin, namespace: str) -> None:
    path = "namespaces/grantPermissionsOnTopics"
    names = [f"persistent://{namespace}/t", "persistent://public/missing/t"]
    body = [{"topic": name, "role": "g", "actions": ["produce"]} for name in names]
    assert admin.post(path, body).status == 404
    assert admin.get(f"persistent/{namespace}/t/permissions").json == {}
    wide = [
        {"topic": f"persistent://{namespace}/{'x' * 200}{number}", "role": "r" * 256, "actions": []}
        for number in range(1000)
    ]
    statuses: list[int] = []
    while not statuses or statuses[-1] == 204:
        for one in wide:
            one["role"] = f"{len(statuses):0256}"
        statuses.append(admin.post(path, wide).status)
    assert statuses[-1] == 412
    found = admin.get(f"namespaces/{namespace}").json["auth_policies"]["destination_auth"]
    assert sum(map(len, found.values())) == 1000 * (len(statuses) - 1)  # nothing of the last
    for one in wide:
        one["role"], one["actions"] = f"{0:0256}", ["produce"]
    assert admin.post("namespaces/revokePermissionsOnTopics", wide).status == 204


def test_names_of_roles_are_limited(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}/permissions"
    assert admin.post(f"{path}/{'r' * 256}", ["produce"]).status == 204
    assert admin.post(f"{path}/{'r' * 257}", ["produce"]).status == 412
    assert admin.post(f"{path}/subscription/s", ["r" * 257]).status == 412


def test_permissions_are_stored(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    path = "namespaces/public/default/permissions"
    assert Admin(broker).post(f"{path}/r", ["consume"]).status == 204
    broker.kill()
    assert Admin(broker.start()).get(path).json == {"r": ["consume"]}
