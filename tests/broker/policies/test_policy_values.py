"""Values of policies: written and read again, and what is refused with which words."""

import json
from typing import Any

import pytest
from hypothesis import given

from fakes.policy_values import STRATEGIES, policy_values
from magnetar_broker.config.domains import InactiveMode, QuotaAction
from magnetar_broker.config.settings import KEYS, Settings
from magnetar_broker.policies import table
from magnetar_broker.policies.codecs import OutOfRange
from magnetar_broker.policies.policy import Policy
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import TABLE
from magnetar_broker.policies.values import (
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveTopics,
)

HOLD = QuotaAction.PRODUCER_REQUEST_HOLD


def test_every_policy_is_tested() -> None:
    assert set(TABLE.values()) == set(STRATEGIES)


@given(policy_values())
def test_a_value_is_what_was_written(policy_value: tuple[Policy[Any], Any]) -> None:
    policy, value = policy_value
    if value is not None:
        assert policy.codec.decode(json.loads(json.dumps(policy.codec.encode(value)))) == value


@pytest.mark.parametrize("policy", TABLE.values(), ids=TABLE)
def test_defaults_come_from_settings_that_exist(policy: Policy[Any]) -> None:
    assert set(policy.declared.settings) <= set(KEYS)
    default = policy.default(Settings())
    if default is None:
        assert policy.declared.no_effect and not policy.declared.settings
        return
    assert policy.codec.decode(policy.codec.encode(default)) == default


def test_the_default_quota_is_in_gigabytes_or_bytes() -> None:
    default = table.BACKLOG_QUOTA_SIZE.default
    assert default(Settings()).limit == -1
    assert default(Settings(backlog_quota_default_limit_bytes=5)).limit == 5
    both = Settings(backlog_quota_default_limit_bytes=5, backlog_quota_default_limit_gb=0.5)
    assert default(both).limit == 1 << 29


def test_inactive_topics_wait_as_long_as_a_round_by_default() -> None:
    default = table.INACTIVE_TOPICS.default
    settings = Settings(broker_delete_inactive_topics_frequency_seconds=7)
    assert default(settings) == InactiveTopics(True, InactiveMode.NO_SUBSCRIPTIONS, 7)
    settings = Settings(broker_delete_inactive_topics_max_inactive_duration_seconds=9)
    assert default(settings).seconds == 9


@pytest.mark.parametrize(
    ("policy", "written", "value"),
    [
        (table.RETENTION, {}, Retention(0, 0)),
        (table.RETENTION, {"retentionTimeInMinutes": "7", "retentionSizeInMB": "-1"},
         Retention(7, -1)),
        (table.MESSAGE_TTL, "7", 7),
        (table.DEDUPLICATION, "True", True),
        (table.BACKLOG_QUOTA_SIZE, {"limit": 7, "policy": HOLD}, BacklogQuota(7, HOLD, 0)),
        (table.BACKLOG_QUOTA_AGE, {"limit": 7, "limitTime": 9, "policy": HOLD},
         BacklogQuota(9, HOLD, 7)),
        (table.DISPATCH_RATE, {"dispatchThrottlingRateInMsg": 5},
         DispatchRate(5, 0, 0, False)),
        (table.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": False, "topicType": "partitioned"},
         AutoTopicCreation(False, False, 1)),
        (table.DELAYED_DELIVERY, {}, DelayedDelivery(False, 0, 0)),
        (table.DELAYED_DELIVERY, {"active": "true", "maxDelayInMillis": 9},
         DelayedDelivery(True, 0, 9)),
        (table.DELAYED_DELIVERY, {"active": None, "somethingElse": 1},
         DelayedDelivery(False, 0, 0)),
        (table.INACTIVE_TOPICS, {}, InactiveTopics(False, InactiveMode.NO_SUBSCRIPTIONS, 0)),
    ],
)  # fmt: skip
def test_values_as_clients_write_them(policy: Policy[Any], written: Any, value: Any) -> None:
    assert policy.codec.decode(written) == value


@pytest.mark.parametrize(
    ("policy", "values", "words"),
    [
        (table.DEDUPLICATION, "yes", "expected true or false, got 'yes'"),
        (table.DEDUPLICATION, 1, "expected true or false, got 1"),
        (table.DEDUPLICATION, None, "expected true or false"),
        (table.MESSAGE_TTL, 1.5, "expected a whole number, got 1.5"),
        (table.MESSAGE_TTL, True, "expected a whole number, got True"),
        (table.MESSAGE_TTL, "1_0", "expected a whole number"),
        (table.RETENTION, [], "expected an object with retentionTimeInMinutes"),
        (table.RETENTION, {"retentionSizeInMB": "x"}, "retentionSizeInMB: expected a whole"),
        (table.RETENTION, {"retentionSizeInMB": 1}, "expected both or none of them"),
        (table.RETENTION, {"retentionSizeInMB": -2, "retentionTimeInMinutes": 1}, "-1 or more"),
        (table.BACKLOG_QUOTA_SIZE, {"limitSize": 1}, "policy is missing"),
        (table.BACKLOG_QUOTA_SIZE, {"policy": "x"}, "producer_exception or consumer_backlog"),
        (table.SUBSCRIPTION_TYPES, "Shared", "expected a list of Exclusive, Shared"),
        (table.SUBSCRIPTION_TYPES, ["x"], "Exclusive or Shared or Failover or Key_Shared"),
        (table.SCHEMA_COMPATIBILITY, "Full", "ALWAYS_COMPATIBLE or BACKWARD"),
        (table.SUBSCRIPTION_DISPATCH_RATES, {"sub": 1}, "sub: expected an object"),
        (table.DELAYED_DELIVERY, {"active": []}, "active: expected true or false"),
        (table.AUTO_TOPIC_CREATION, {"topicType": 1}, "topicType: expected a text"),
    ],
)
def test_values_of_a_wrong_type(policy: Policy[Any], values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        policy.codec.decode(values)
    assert refused.type is ValueError


@pytest.mark.parametrize(
    ("policy", "values", "words"),
    [
        (table.MESSAGE_TTL, -1, "from 0 to 2147483647, got -1"),
        (table.MAX_PRODUCERS, 3_000_000_000, "from 0 to 2147483647"),
        (table.DELAYED_DELIVERY, {"tickTime": 1 << 63}, "tickTime: expected a whole number"),
        (table.AUTO_TOPIC_CREATION, {"allowAutoTopicCreation": True}, "topicType"),
        (table.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": True, "topicType": "partitioned"}, "Partitions is missing"),
        (table.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 0},
         "from 1 to 10000"),
        (table.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": True, "topicType": "non-partitioned",
          "defaultNumPartitions": 2}, "expected only with topicType"),
    ],
)  # fmt: skip
def test_values_out_of_range(policy: Policy[Any], values: Any, words: str) -> None:
    with pytest.raises(OutOfRange, match=words):
        policy.codec.decode(values)


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(ValueError) as refused:
        table.MESSAGE_TTL.codec.decode("x" * 10_000)
    assert len(str(refused.value)) < 100
