"""All policies of a namespace as one object."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.logs import LogWorld
from fakes.policy_values import STRATEGIES
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import QuotaAction
from magnetar_broker.policies.codecs import OutOfRange
from magnetar_broker.policies.document import (
    MEMBERS,
    QUOTA_TYPES,
    policies_json,
    values_in_policies_json,
)
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import BACKLOG_QUOTA_AGE, DISPATCH_RATE, MESSAGE_TTL, TABLE
from magnetar_broker.policies.values import BacklogQuota
from magnetar_broker.policies.without_effect import REPLICATION_CLUSTERS

NAMESPACE = "public/default"
HERE = "standalone"
OF_NAMESPACES = [
    policy
    for policy in TABLE.values()
    if policy.declared.namespace is not None
    and (policy.declared.member or not policy.declared.no_effect)
]
VALUES = st.fixed_dictionaries({}, optional={one: STRATEGIES[one] for one in OF_NAMESPACES})


def test_every_policy_of_namespaces_is_a_member() -> None:
    members = (*MEMBERS, *QUOTA_TYPES.values())
    assert set(members) == set(OF_NAMESPACES) and len(members) == len(OF_NAMESPACES)


@settings(max_examples=examples(60))
@given(VALUES)
def test_a_written_document_has_the_same_values_when_read(values: dict[Policy[Any], Any]) -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    world.do(found.set(NAMESPACE, values))
    document = json.loads(json.dumps(world.do(policies_json(found, NAMESPACE, HERE))))
    copy = Policies(GuardedMetadata(LogWorld().metadata, None), Settings())
    world.do(copy.set(NAMESPACE, values_in_policies_json(document, HERE)))
    for policy in OF_NAMESPACES:
        assert (
            copy.of_namespace(policy, NAMESPACE).value
            == found.of_namespace(policy, NAMESPACE).value
        )


def test_a_namespace_without_explicit_values() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
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
        "allowed_clusters": [],
        "migrated": False,
        "offload_threshold": -1,
        "offload_threshold_in_seconds": -1,
        "replicatorDispatchRate": {},
        "subscription_auth_mode": "None",
    }


def test_members_that_are_written_even_if_unset_set_nothing() -> None:
    world = LogWorld()
    found = Policies(GuardedMetadata(world.metadata, None), Settings())
    silent = world.do(policies_json(found, NAMESPACE, HERE))
    assert values_in_policies_json(silent, HERE) == {}


def test_a_document_with_few_members() -> None:
    quota = {"limitTime": 9, "policy": "producer_exception"}
    values = values_in_policies_json(
        {
            "message_ttl_in_seconds": 5,
            "max_producers_per_topic": None,
            "topicDispatchRate": {"elsewhere": {"dispatchThrottlingRateInMsg": 7}},
            "backlog_quota_map": {"message_age": quota},
            "replication_clusters": [HERE],
        },
        HERE,
    )
    assert values == {
        REPLICATION_CLUSTERS: (HERE,),
        MESSAGE_TTL: 5,
        BACKLOG_QUOTA_AGE: BacklogQuota(9, QuotaAction.PRODUCER_EXCEPTION),
    }
    assert DISPATCH_RATE not in values


@pytest.mark.parametrize(
    ("document", "error", "words"),
    [
        ({"message_ttl_in_seconds": "x"}, ValueError, "message_ttl_in_seconds: expected a whole"),
        ({"message_ttl_in_seconds": -1}, OutOfRange, "message_ttl_in_seconds: .*got -1"),
        ({"topicDispatchRate": 1}, ValueError, "topicDispatchRate: expected an object"),
        ({"topicDispatchRate": {HERE: 1}}, ValueError, "topicDispatchRate.standalone: expected"),
        ({"backlog_quota_map": {"message_age": {}}}, ValueError, "policy is missing"),
    ],
)
def test_invalid_members(document: dict[str, Any], error: type[ValueError], words: str) -> None:
    with pytest.raises(error, match=words) as refused:
        values_in_policies_json(document, HERE)
    assert refused.type is error
