"""All policies of a namespace as one object."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.logs import LogWorld
from fakes.policy_values import STRATEGIES
from magnetar_broker.config import Settings
from magnetar_broker.policies import (
    BACKLOG_QUOTA_AGE,
    DISPATCH_RATE,
    MESSAGE_TTL,
    TABLE,
    BacklogQuota,
    Policies,
    Policy,
    QuotaAction,
    policies_json,
    said_in_policies_json,
)
from magnetar_broker.policies.document import BY_CLUSTER, MEMBERS, QUOTA_TYPES
from magnetar_broker.policies.forms import OutOfRange

NAMESPACE = "public/default"
HERE = "standalone"
OF_NAMESPACES = [policy for policy in TABLE.values() if policy.of_namespace]
SAYINGS = st.fixed_dictionaries({}, optional={one: STRATEGIES[one] for one in OF_NAMESPACES})


def test_every_policy_of_namespaces_is_a_member() -> None:
    members = (*MEMBERS.values(), *BY_CLUSTER.values(), *QUOTA_TYPES.values())
    assert set(members) == set(OF_NAMESPACES) and len(members) == len(OF_NAMESPACES)


@settings(max_examples=60)
@given(SAYINGS)
def test_what_is_written_says_the_same(said: dict[Policy[Any], Any]) -> None:
    world = LogWorld()
    found = Policies(world.metadata, Settings())
    world.do(found.say(NAMESPACE, said))
    document = json.loads(json.dumps(world.do(policies_json(found, NAMESPACE, HERE))))
    copy = Policies(LogWorld().metadata, Settings())
    world.do(copy.say(NAMESPACE, said_in_policies_json(document, HERE)))
    for policy in OF_NAMESPACES:
        assert copy.of(policy, NAMESPACE).value == found.of(policy, NAMESPACE).value


def test_a_namespace_that_says_nothing() -> None:
    world = LogWorld()
    found = Policies(world.metadata, Settings())
    assert world.do(policies_json(found, NAMESPACE, HERE)) == {
        "backlog_quota_map": {},
        "topicDispatchRate": {},
        "subscriptionDispatchRate": {},
        "clusterSubscribeRate": {},
        "publishMaxMessageRate": {},
        "subscription_types_enabled": [],
        "schema_compatibility_strategy": "UNDEFINED",
        "is_allow_auto_update_schema": True,
        "schema_validation_enforced": False,
        "encryption_required": False,
    }


def test_what_clients_write_although_nobody_said_it_says_nothing() -> None:
    world = LogWorld()
    found = Policies(world.metadata, Settings())
    silent = world.do(policies_json(found, NAMESPACE, HERE))
    assert said_in_policies_json(silent, HERE) == {}


def test_an_object_that_says_little() -> None:
    quota = {"limitTime": 9, "policy": "producer_exception"}
    said = said_in_policies_json(
        {
            "message_ttl_in_seconds": 5,
            "max_producers_per_topic": None,
            "topicDispatchRate": {"elsewhere": {"dispatchThrottlingRateInMsg": 7}},
            "backlog_quota_map": {"message_age": quota},
            "replication_clusters": [HERE],
        },
        HERE,
    )
    assert said == {
        MESSAGE_TTL: 5,
        BACKLOG_QUOTA_AGE: BacklogQuota(9, QuotaAction.PRODUCER_EXCEPTION),
    }
    assert DISPATCH_RATE not in said


@pytest.mark.parametrize(
    ("document", "error", "words"),
    [
        ({"message_ttl_in_seconds": "x"}, ValueError, "message_ttl_in_seconds: expected a whole"),
        ({"message_ttl_in_seconds": -1}, OutOfRange, "message_ttl_in_seconds: .*not -1"),
        ({"topicDispatchRate": 1}, ValueError, "topicDispatchRate: expected an object"),
        ({"topicDispatchRate": {HERE: 1}}, ValueError, "topicDispatchRate.standalone: expected"),
        ({"backlog_quota_map": {"message_age": {}}}, ValueError, "policy is missing"),
    ],
)
def test_members_that_cannot_be_so(
    document: dict[str, Any], error: type[ValueError], words: str
) -> None:
    with pytest.raises(error, match=words) as refused:
        said_in_policies_json(document, HERE)
    assert refused.type is error
