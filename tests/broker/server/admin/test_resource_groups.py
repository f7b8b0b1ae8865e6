"""Resource groups over REST: stored, shown, and not deleted while a namespace is in them."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from admin_http import Admin
from magnetar_broker.names import stored_objects
from magnetar_proto.admin.bodies import GROUP_LIMITS as LIMITS
from running_broker import RunningBroker


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def group() -> str:
    return f"resourcegroups/{uuid4().hex}"


def test_limits_are_stored_and_changed_one_by_one(admin: Admin, group: str) -> None:
    assert admin.get(group).status == admin.delete(group).status == 404
    answer = admin.put(group, {"publishRateInMsgs": 10, "dispatchRateInBytes": None, "x": 1})
    assert answer.status == 204 and "without effect" in answer.headers["Warning"]
    assert admin.get(group).json == {"publishRateInMsgs": 10}
    assert admin.put(group, {"dispatchRateInBytes": -1}).status == 204
    assert admin.get(group).json == {"publishRateInMsgs": 10, "dispatchRateInBytes": -1}
    whole = dict.fromkeys(LIMITS, 2**63 - 1)
    assert admin.put(group, whole).status == 204
    assert admin.get(group).json == whole
    assert group.partition("/")[2] in admin.get("resourcegroups").json
    assert admin.delete(group).status == 204
    assert group.partition("/")[2] not in admin.get("resourcegroups").json


@pytest.mark.parametrize(
    "body", [None, [], 5, {"publishRateInMsgs": "x"}, {"publishRateInMsgs": True},
             {"dispatchRateInMsgs": 1.5}, {"dispatchRateInMsgs": -2}, {"dispatchRateInMsgs": 2**63}]
)  # fmt: skip
def test_what_is_no_limit_is_refused(admin: Admin, group: str, body: object) -> None:
    refused = admin.put(group, body)
    assert refused.status == 400 and refused.reason
    assert admin.get(group).status == 404


def test_names_are_checked(admin: Admin) -> None:
    for name in ("a%2Fb", "a%20b", "%C3%A9", "x" * 201):
        assert admin.put(f"resourcegroups/{name}", {}).status == 412


def test_a_group_stays_while_a_namespace_is_in_it(admin: Admin, group: str) -> None:
    namespace, name = f"public/{uuid4().hex}", group.partition("/")[2]
    assert admin.put(f"namespaces/{namespace}").status == 204
    path = f"namespaces/{namespace}/resourcegroup"
    assert admin.get(path).body == b""
    assert admin.post(f"{path}/{name}").status == 412
    assert admin.put(group, {"publishRateInMsgs": 10}).status == 204
    answer = admin.post(f"{path}/{name}")
    assert answer.status == 204 and "set rates of namespaces" in answer.headers["Warning"]
    assert admin.get(path).body.decode() == name
    assert admin.get(f"namespaces/{namespace}").json["resource_group_name"] == name
    refused = admin.delete(group)
    assert refused.status == 412 and namespace in refused.reason
    assert admin.delete(path).status == 204
    assert admin.get(path).body == b""
    assert admin.delete(group).status == 204


def test_groups_survive_a_restart_and_have_a_limit(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    admin = Admin(broker)
    for number in range(stored_objects.MOST):
        assert admin.put(f"resourcegroups/{number}", {"publishRateInMsgs": number}).status == 204
    refused = admin.put("resourcegroups/more", {})
    assert refused.status == 412 and "limit" in refused.reason
    assert admin.put("resourcegroups/7", {"publishRateInMsgs": 70}).status == 204
    broker.restart()
    admin = Admin(broker)
    assert len(admin.get("resourcegroups").json) == stored_objects.MOST
    assert admin.get("resourcegroups/7").json == {"publishRateInMsgs": 70}
