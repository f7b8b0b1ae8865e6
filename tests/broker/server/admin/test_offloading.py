"""Offloading a topic over REST, without a driver."""

from uuid import uuid4

import pytest

from admin_http import Admin
from running_broker import RunningBroker

POSITION = {"ledgerId": 1, "entryId": 0}


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def topic(admin: Admin) -> str:
    path = f"persistent/public/default/{uuid4().hex}"
    assert admin.put(path).status == 204
    return path


def test_the_status_has_the_reason_why_nothing_was_offloaded(admin: Admin, topic: str) -> None:
    unset = {
        "status": "NOT_RUN",
        "lastError": "",
        "firstUnoffloadedMessage": {
            "ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0,
        },
    }  # fmt: skip
    assert admin.get(f"{topic}/offload").json == unset
    assert admin.put(f"{topic}/offload", POSITION).status == 204
    failed = admin.get(f"{topic}/offload").json
    assert "no offload driver is configured" in failed["lastError"]
    assert failed == unset | {"status": "ERROR", "lastError": failed["lastError"]}


@pytest.mark.parametrize(
    "body", [None, "x", "earliest", "latest", 7, [], {"ledgerId": "x", "entryId": 0}]
)
def test_a_body_that_names_no_message(admin: Admin, topic: str, body: object) -> None:
    assert admin.put(f"{topic}/offload", body).status == 400
    assert admin.get(f"{topic}/offload").json["status"] == "NOT_RUN"


@pytest.mark.parametrize("body", [{}, {"ledgerId": 1}, {"entryId": 1}])
def test_a_position_that_lacks_a_part_is_reported_by_the_status(
    admin: Admin, topic: str, body: object
) -> None:
    assert admin.put(f"{topic}/offload", body).status == 204
    assert admin.get(f"{topic}/offload").json["status"] == "ERROR"


def test_only_one_persistent_topic_is_offloaded_at_a_time(admin: Admin, topic: str) -> None:
    assert admin.put(f"{topic}-parts/partitions", 2).status == 204
    assert admin.put(topic.replace("persistent", "non-persistent")).status == 204
    missing = f"{topic}-missing", f"{topic}-parts", topic.replace("persistent", "non-persistent")
    for path in missing:
        assert admin.get(f"{path}/offload").status == 404
        assert admin.put(f"{path}/offload", POSITION).status == 404
    part = f"{topic}-parts-partition-0"
    assert admin.get(f"{part}/offload").json["status"] == "NOT_RUN"
    assert admin.put(f"{part}/offload", POSITION).status == 204
    assert admin.get(f"{part}/offload").json["status"] == "ERROR"
