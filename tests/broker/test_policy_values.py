"""Values of policies: written and read again, and what is refused with which words."""

import json
from typing import Any

import pytest
from hypothesis import given

from fakes.policy_values import STRATEGIES, sayings
from magnetar_broker import policies
from magnetar_broker.config.settings import KEYS, Settings
from magnetar_broker.policies import (
    TABLE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDelivery,
    DispatchRate,
    InactiveMode,
    InactiveTopics,
    Policy,
    QuotaAction,
    Retention,
)
from magnetar_broker.policies.forms import OutOfRange

HOLD = QuotaAction.PRODUCER_REQUEST_HOLD


def test_every_policy_is_tested() -> None:
    assert set(TABLE.values()) == set(STRATEGIES)


@given(sayings())
def test_a_value_is_what_was_written(saying: tuple[Policy[Any], Any]) -> None:
    policy, value = saying
    if value is not None:
        assert policy.form.decode(json.loads(json.dumps(policy.form.encode(value)))) == value


@pytest.mark.parametrize("policy", TABLE.values(), ids=TABLE)
def test_defaults_come_from_settings_that_exist(policy: Policy[Any]) -> None:
    assert set(policy.settings) <= set(KEYS)
    default = policy.default(Settings())
    assert policy.form.decode(policy.form.encode(default)) == default


def test_the_default_quota_is_in_gigabytes_or_bytes() -> None:
    default = policies.BACKLOG_QUOTA_SIZE.default
    assert default(Settings()).limit == -1
    assert default(Settings(backlog_quota_default_limit_bytes=5)).limit == 5
    both = Settings(backlog_quota_default_limit_bytes=5, backlog_quota_default_limit_gb=0.5)
    assert default(both).limit == 1 << 29


def test_inactive_topics_wait_as_long_as_a_round_unless_told_otherwise() -> None:
    default = policies.INACTIVE_TOPICS.default
    settings = Settings(broker_delete_inactive_topics_frequency_seconds=7)
    assert default(settings) == InactiveTopics(True, InactiveMode.NO_SUBSCRIPTIONS, 7)
    settings = Settings(broker_delete_inactive_topics_max_inactive_duration_seconds=9)
    assert default(settings).seconds == 9


@pytest.mark.parametrize(
    ("policy", "said", "value"),
    [
        (policies.RETENTION, {}, Retention(0, 0)),
        (policies.RETENTION, {"retentionTimeInMinutes": "7", "retentionSizeInMB": "-1"},
         Retention(7, -1)),
        (policies.MESSAGE_TTL, "7", 7),
        (policies.DEDUPLICATION, "True", True),
        (policies.BACKLOG_QUOTA_SIZE, {"limit": 7, "policy": HOLD}, BacklogQuota(7, HOLD, 0)),
        (policies.BACKLOG_QUOTA_AGE, {"limit": 7, "limitTime": 9, "policy": HOLD},
         BacklogQuota(9, HOLD, 7)),
        (policies.DISPATCH_RATE, {"dispatchThrottlingRateInMsg": 5},
         DispatchRate(5, 0, 0, False)),
        (policies.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": False, "topicType": "partitioned"},
         AutoTopicCreation(False, False, 1)),
        (policies.DELAYED_DELIVERY, {}, DelayedDelivery(False, 0, 0)),
        (policies.DELAYED_DELIVERY, {"active": "true", "maxDelayInMillis": 9},
         DelayedDelivery(True, 0, 9)),
        (policies.DELAYED_DELIVERY, {"active": None, "somethingElse": 1},
         DelayedDelivery(False, 0, 0)),
        (policies.INACTIVE_TOPICS, {}, InactiveTopics(False, InactiveMode.NO_SUBSCRIPTIONS, 0)),
    ],
)  # fmt: skip
def test_values_as_clients_write_them(policy: Policy[Any], said: Any, value: Any) -> None:
    assert policy.form.decode(said) == value


@pytest.mark.parametrize(
    ("policy", "said", "words"),
    [
        (policies.DEDUPLICATION, "yes", "expected true or false, not 'yes'"),
        (policies.DEDUPLICATION, 1, "expected true or false, not 1"),
        (policies.DEDUPLICATION, None, "expected true or false"),
        (policies.MESSAGE_TTL, 1.5, "expected a whole number, not 1.5"),
        (policies.MESSAGE_TTL, True, "expected a whole number, not True"),
        (policies.MESSAGE_TTL, "1_0", "expected a whole number"),
        (policies.RETENTION, [], "expected an object with retentionTimeInMinutes"),
        (policies.RETENTION, {"retentionSizeInMB": "x"}, "retentionSizeInMB: expected a whole"),
        (policies.RETENTION, {"retentionSizeInMB": 1}, "either both are 0 or none is"),
        (policies.RETENTION, {"retentionSizeInMB": -2, "retentionTimeInMinutes": 1}, "-1 or more"),
        (policies.BACKLOG_QUOTA_SIZE, {"limitSize": 1}, "policy is missing"),
        (policies.BACKLOG_QUOTA_SIZE, {"policy": "x"}, "producer_exception or consumer_backlog"),
        (policies.SUBSCRIPTION_TYPES, "Shared", "expected a list of Exclusive, Shared"),
        (policies.SUBSCRIPTION_TYPES, ["x"], "Exclusive or Shared or Failover or Key_Shared"),
        (policies.SCHEMA_COMPATIBILITY, "Full", "ALWAYS_COMPATIBLE or BACKWARD"),
        (policies.SUBSCRIPTION_DISPATCH_RATES, {"sub": 1}, "sub: expected an object"),
        (policies.DELAYED_DELIVERY, {"active": []}, "active: expected true or false"),
        (policies.AUTO_TOPIC_CREATION, {"topicType": 1}, "topicType: expected a text"),
    ],
)
def test_what_is_no_value(policy: Policy[Any], said: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        policy.form.decode(said)
    assert refused.type is ValueError


@pytest.mark.parametrize(
    ("policy", "said", "words"),
    [
        (policies.MESSAGE_TTL, -1, "from 0 to 2147483647, not -1"),
        (policies.MAX_PRODUCERS, 3_000_000_000, "from 0 to 2147483647"),
        (policies.DELAYED_DELIVERY, {"tickTime": 1 << 63}, "tickTime: expected a whole number"),
        (policies.AUTO_TOPIC_CREATION, {"allowAutoTopicCreation": True}, "topicType"),
        (policies.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": True, "topicType": "partitioned"}, "how many partitions"),
        (policies.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 0},
         "from 1 to 10000"),
        (policies.AUTO_TOPIC_CREATION,
         {"allowAutoTopicCreation": True, "topicType": "non-partitioned",
          "defaultNumPartitions": 2}, "only for topics that are partitioned"),
    ],
)  # fmt: skip
def test_what_is_out_of_range(policy: Policy[Any], said: Any, words: str) -> None:
    with pytest.raises(OutOfRange, match=words):
        policy.form.decode(said)


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(ValueError) as refused:
        policies.MESSAGE_TTL.form.decode("x" * 10_000)
    assert len(str(refused.value)) < 100
