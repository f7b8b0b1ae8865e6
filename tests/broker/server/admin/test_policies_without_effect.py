"""Policies that are stored and shown without effect: Pulsar's answers, with the reason."""

from typing import Any
from uuid import uuid4

import pytest

from admin_http import Admin
from magnetar_broker.server.admin.policies.regular import HANDLERS
from running_broker import RunningBroker

PERSISTENCE = {
    "bookkeeperEnsemble": 2,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 1,
    "managedLedgerMaxMarkDeleteRate": 1.5,
}
RATE = {
    "dispatchThrottlingRateInMsg": 1,
    "dispatchThrottlingRateInByte": 2,
    "relativeToPublishRate": True,
    "ratePeriodInSecond": 3,
}
VALUES: dict[str, tuple[object, tuple[object, ...]]] = {
    "persistence": (
        PERSISTENCE,
        (
            PERSISTENCE | {"bookkeeperWriteQuorum": 3},
            PERSISTENCE | {"bookkeeperAckQuorum": 0},
            PERSISTENCE | {"bookkeeperEnsemble": 6},
            {"bookkeeperEnsemble": "x"},
            {"managedLedgerMaxMarkDeleteRate": "fast"},
            [1],
        ),
    ),
    "persistence/bookieAffinity": (
        {"bookkeeperAffinityGroupPrimary": "a", "bookkeeperAffinityGroupSecondary": "b"},
        ([1], {"bookkeeperAffinityGroupPrimary": 5}),
    ),
    "replication": (["standalone"], ([], ["none"], ["standalone", "none"], [1], {"a": 1})),
    "allowedClusters": (["standalone"], ([], ["standalone", "none"], [1], {"a": 1})),
    "replicatorDispatchRate": (RATE, ([1], 5)),
    "migration": (True, ("x", 5)),
    "antiAffinity": ("group", (5, [1])),
    "dispatcherPauseOnAckStatePersistent": (True, ("x", 5)),
    "allowedTopicPropertyKeysForMetrics": (["a", "b"], ({}, 5, [1])),
    "subscriptionAuthMode": ("Prefix", ("x", 5)),
    "schemaAutoUpdateCompatibilityStrategy": ("Full", ("x", 5)),
}
"""A value of each policy, by its path, and values that are refused."""
WITHOUT = [
    (level, line)
    for level, lines in HANDLERS.items()
    for line in lines
    if line.policy.declared.no_effect
]


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def namespace(admin: Admin) -> str:
    """Create a namespace with one topic, `topic`."""
    name = f"public/{uuid4().hex}"
    admin.makes_namespace(name)
    assert admin.put(f"persistent/{name}/topic").status == 204
    return name


@pytest.mark.parametrize(
    ("level", "line"), WITHOUT, ids=lambda one: one if isinstance(one, str) else one.path.segment
)
def test_it_is_stored_shown_and_has_the_reason(
    admin: Admin, namespace: str, level: str, line: Any
) -> None:
    of_namespace = level == "namespace"
    subject = f"namespaces/{namespace}" if of_namespace else f"persistent/{namespace}/topic"
    path, (value, bad) = f"{subject}/{line.path.segment}", VALUES[line.path.segment]

    def shown(query: str = "") -> object:
        answer = admin.get(path + query)
        assert answer.status == 200 or (answer.status == 204 and not answer.body)
        if line.path.raw:
            return answer.body.decode() or None
        return answer.json if answer.body else None

    def explained() -> dict[str, object]:
        found: dict[str, object] = admin.get(f"{subject}/policies/explain").json[line.policy.name]
        return found

    unset = shown()
    assert explained()["origin"] == "broker"
    for one in bad:
        refused = admin.ask(line.path.verb, path, one)
        assert refused.status in (400, 403, 412) and refused.reason, one
    assert shown() == unset
    answer = admin.ask(line.path.verb, path, value)
    assert answer.status == line.path.set_status
    assert line.policy.declared.no_effect in answer.headers["Warning"]
    assert shown() == value
    assert explained()["value"] == value
    assert explained()["noEffect"] == line.policy.declared.no_effect
    if not of_namespace:
        assert shown("?applied=true") == value
    if line.path.removable:
        where = line.path.removed_at or line.path.segment
        assert admin.delete(f"{subject}/{where}").status == 204
        assert shown() == unset


def test_a_group_may_be_sent_as_it_is(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}/antiAffinity"
    assert admin.post(path, b"far apart").status == 204
    assert admin.get(path).body == b"far apart"


def test_every_one_is_tested() -> None:
    assert {line.path.segment for _, line in WITHOUT} == VALUES.keys()


def test_a_setter_without_body_means_true(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}/dispatcherPauseOnAckStatePersistent"
    assert admin.get(path).json is False
    assert admin.post(path).status == 204
    assert admin.get(path).json is True


def test_they_are_members_of_the_policies_of_a_namespace(admin: Admin) -> None:
    name = f"public/{uuid4().hex}"
    document = {
        "persistence": PERSISTENCE,
        "subscription_auth_mode": "Prefix",
        "replicatorDispatchRate": {"standalone": RATE},
    }
    assert admin.put(f"namespaces/{name}", document).status == 204
    found = admin.get(f"namespaces/{name}").json
    assert {member: found[member] for member in document} == document
    assert found["allowed_clusters"] == [] and found["replication_clusters"] == ["standalone"]


def test_a_topic_inherits_them(admin: Admin, namespace: str) -> None:
    topic = f"persistent/{namespace}/topic"
    assert admin.get(f"{topic}/replication?applied=true").json == ["standalone"]
    assert not admin.get(f"{topic}/persistence?applied=true").body
    assert admin.post(f"namespaces/{namespace}/persistence", PERSISTENCE).status == 204
    assert admin.get(f"{topic}/persistence?applied=true").json == PERSISTENCE
    assert not admin.get(f"{topic}/persistence").body
