"""The policies of offloading over REST: their paths, what is refused, and what is told."""

from typing import Any
from uuid import uuid4

import pytest

from admin_http import Admin
from running_broker import RunningBroker

S3 = {"managedLedgerOffloadDriver": "aws-s3", "s3ManagedLedgerOffloadBucket": "b"}
FILES = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///mnt/cold"}
ENDPOINT = {"managedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9"}


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


@pytest.mark.parametrize("level", ["namespaces/{}", "persistent/{}/topic"])
def test_a_policy_is_set_shown_and_removed(admin: Admin, namespace: str, level: str) -> None:
    subject = level.format(namespace)
    removed = "removeOffloadPolicies" if level.startswith("names") else "offloadPolicies"
    assert not admin.get(f"{subject}/offloadPolicies").body
    assert admin.post(f"{subject}/offloadPolicies", S3).status == 204
    assert admin.get(f"{subject}/offloadPolicies").json == S3
    assert admin.delete(f"{subject}/{removed}").status == 204
    assert not admin.get(f"{subject}/offloadPolicies").body


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({}, 412),
        ({"managedLedgerOffloadDriver": "x"}, 412),
        ({"managedLedgerOffloadDriver": "aws-s3"}, 412),
        (S3 | {"s3ManagedLedgerOffloadCredentialSecret": "hush"}, 412),
        (S3 | ENDPOINT, 412),
        (S3 | ENDPOINT | {"managedLedgerOffloadDriver": "azureblob"}, 412),
        (FILES, 412),
        (S3 | {"s3ManagedLedgerOffloadRegion": "127.0.0.1/"}, 412),
        (S3 | {"managedLedgerOffloadThresholdInBytes": "x"}, 400),
        ([1], 400),
        (None, 400),
    ],
)
@pytest.mark.parametrize("level", ["namespaces/{}", "persistent/{}/topic"])
def test_values_that_are_refused(
    admin: Admin, namespace: str, level: str, value: Any, status: int
) -> None:
    path = f"{level.format(namespace)}/offloadPolicies"
    refused = admin.post(path, value)
    assert (refused.status, "hush" in refused.reason) == (status, False)
    assert not admin.get(path).body


@pytest.mark.parametrize("value", [S3 | ENDPOINT, FILES])
def test_a_refusal_says_that_the_settings_decide(
    admin: Admin, namespace: str, value: dict[str, str]
) -> None:
    assert "in broker.conf" in admin.post(f"namespaces/{namespace}/offloadPolicies", value).reason
    made = admin.put(f"namespaces/public/{uuid4().hex}", {"offload_policies": value})
    assert made.status == 412 and "in broker.conf" in made.reason


def test_a_namespace_is_not_made_with_credentials(admin: Admin) -> None:
    name = f"namespaces/public/{uuid4().hex}"
    refused = admin.put(name, {"offload_policies": S3 | {"s3ManagedLedgerOffloadRole": "hush"}})
    assert (refused.status, "hush" in refused.reason) == (412, False)
    assert admin.get(name).status == 404


def test_thresholds_are_members_of_the_policy(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}"
    assert admin.get(f"{path}/offloadThreshold").json == -1
    assert admin.get(f"{path}/offloadThresholdInSeconds").json == -1
    assert not admin.get(f"{path}/offloadDeletionLagMs").body
    assert admin.put(f"{path}/offloadThreshold", 5).status == 204
    assert admin.put(f"{path}/offloadThresholdInSeconds", 6).status == 200
    assert admin.put(f"{path}/offloadDeletionLagMs", 7).status == 204
    assert admin.get(f"{path}/offloadPolicies").json == {
        "managedLedgerOffloadThresholdInBytes": 5,
        "managedLedgerOffloadThresholdInSeconds": 6,
        "managedLedgerOffloadDeletionLagInMillis": 7,
    }
    assert admin.delete(f"{path}/offloadDeletionLagMs").status == 204
    assert not admin.get(f"{path}/offloadDeletionLagMs").body
    assert admin.get(f"{path}/offloadThreshold").json == 5


def test_the_members_in_effect_are_those_of_all_levels(admin: Admin, namespace: str) -> None:
    topic = f"persistent/{namespace}/topic"
    assert admin.put(f"namespaces/{namespace}/offloadThreshold", 5).status == 204
    assert admin.post(f"{topic}/offloadPolicies", S3).status == 204
    found = admin.get(f"{topic}/offloadPolicies?applied=true").json
    assert found.items() >= (S3 | {"managedLedgerOffloadThresholdInBytes": 5}).items()
    assert found["managedLedgerOffloadDeletionLagInMillis"] == 14_400_000
    explained = admin.get(f"{topic}/policies/explain").json["offload"]
    assert (explained["value"], explained["origin"]) == (found, "topic")


def test_a_setter_tells_what_of_a_value_has_no_effect(admin: Admin, namespace: str) -> None:
    path = f"namespaces/{namespace}/offloadPolicies"
    assert "Warning" not in admin.post(path, S3).headers
    threads = admin.post(path, S3 | {"managedLedgerOffloadMaxThreads": 9})
    assert "managedLedgerOffloadMaxThreads: stored without effect" in threads.headers["Warning"]
    nowhere = admin.post(path, {"managedLedgerOffloadDriver": "filesystem"})
    assert "needs fileSystemURI" in nowhere.headers["Warning"]
    assert "Warning" not in admin.put(f"namespaces/{namespace}/offloadThreshold", 5).headers
