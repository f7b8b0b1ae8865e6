"""Paths of features that this broker does not have."""

from uuid import uuid4

import pytest

from admin_http import Admin
from running_broker import RunningBroker


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def topic(admin: Admin) -> str:
    """Return the path of a partitioned topic with a subscription `sub`."""
    path = f"persistent/public/default/{uuid4().hex}"
    assert admin.put(f"{path}/partitions", 2).status == 204
    assert admin.put(f"{path}/subscription/sub", "earliest").status == 204
    return path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("functions/public/default", 409),
        ("/admin/v3/functions/public/default/name/status", 409),
        ("/admin/v3/sinks/public/default", 409),
        ("/admin/v3/sources", 409),
        ("worker/cluster", 409),
        ("worker-stats/metrics", 409),
        ("/admin/v3/packages/function/public/default", 503),
        ("/admin/v3/transactions/nonsense", 404),
        ("bookies/elsewhere", 501),
        ("resource-quotas/elsewhere", 501),
    ],
)
def test_a_feature_that_is_not_here_is_refused_with_the_reason(
    admin: Admin, path: str, status: int
) -> None:
    for method in ("GET", "POST", "PUT", "DELETE"):
        answer = admin.ask(method, path)
        assert answer.status == status and answer.reason


def test_a_path_that_nobody_has_stays_unknown(admin: Admin) -> None:
    assert admin.get("nonsense").status == admin.get("/admin/v4/functions").status == 404


def test_nothing_is_shadowed_or_filtered(admin: Admin, topic: str) -> None:
    assert admin.get(f"{topic}/shadowTopics").body == b""
    assert admin.put(f"{topic}/shadowTopics", ["persistent://public/default/s"]).status == 501
    assert admin.delete(f"{topic}/shadowTopics").status == 204
    properties = {"PULSAR.SHADOW_SOURCE": "persistent://public/default/s"}
    assert admin.put(f"{topic}-shadow", properties).status == 501
    body = {"partitions": 2, "properties": properties}
    assert admin.put(f"{topic}-shadow/partitions", body).status == 501
    assert admin.get(f"{topic}-shadow/stats").status == 404
    for subject in (topic, "namespaces/public/default"):
        path = f"{subject}/entryFilters"
        assert admin.get(path).body == b""
        assert admin.post(path, {"entryFilterNames": "a"}).status == 400
        assert admin.post(path).status == admin.delete(path).status == 204


def test_subscriptions_are_not_replicated(admin: Admin, topic: str) -> None:
    path = f"{topic}/subscription/sub/replicatedSubscriptionStatus"
    name = topic.replace("persistent/", "persistent://")
    assert admin.get(path).json == {f"{name}-partition-0": False, f"{name}-partition-1": False}
    assert admin.post(path, False).status == 204
    assert admin.post(path, True).status == 412
    other = f"{topic}/subscription/none/replicatedSubscriptionStatus"
    assert admin.get(other).status == 404


def test_what_is_absent_of_a_missing_topic_is_not_found(admin: Admin, topic: str) -> None:
    for what in ("shadowTopics", "entryFilters"):
        assert admin.get(f"{topic}-missing/{what}").status == 404
