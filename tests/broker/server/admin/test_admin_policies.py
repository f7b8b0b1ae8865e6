"""Policies over HTTP, with the answers of Pulsar 4.2.4."""

import http.client
import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from admin_http import Admin, Answer
from magnetar_broker.config import Settings
from magnetar_broker.server.admin.policies.policy_handlers import PolicyHandlers
from magnetar_broker.server.admin.policies.regular import HANDLERS
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

DELAYS = {"tickTime": 1500, "active": True, "maxDeliveryDelayInMillis": 1000}
DEFAULT_DELAYS = {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 0}


RATE = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": 6,
    "relativeToPublishRate": True,
    "ratePeriodInSecond": 7,
}
VALUES: dict[str, object] = {
    "auto_topic_creation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 3,
    },
    "auto_subscription_creation": {"allowAutoSubscriptionCreation": False},
    "deduplication": True,
    "delayed_delivery": DELAYS,
    "dispatch_rate": RATE,
    "encryption_required": True,
    "inactive_topics": {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 30,
        "deleteWhileInactive": True,
    },
    "offload": {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": "b"},
    "publish_rate": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 6},
    "retention": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6},
    "schema_auto_update": False,
    "schema_compatibility": "BACKWARD",
    "schema_validation_enforced": True,
    "subscribe_rate": {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 6},
    "subscription_dispatch_rate": RATE,
    "subscription_types": ["Shared", "Failover"],
}
"""The values of policies that are not numbers, by name."""


class Path:
    """A policy of a namespace or a topic."""

    def __init__(self, broker: RunningBroker, path: str, verb: str = "POST") -> None:
        self._admin = Admin(broker)
        self._verb = verb
        self._path = path

    def get(self, query: str = "") -> Answer:
        return self._ask("GET", query)

    def post(self, value: object = None, text: str | None = None) -> int:
        return self.set(value, text).status

    def set(self, value: object = None, text: str | None = None, query: str = "") -> Answer:
        body = text if text is not None else json.dumps(value)
        return self._ask(self._verb, query, body)

    def delete(self) -> int:
        return self._ask("DELETE").status

    def _ask(self, method: str, query: str = "", body: str | None = None) -> Answer:
        sent = None if body is None else body.encode()
        return self._admin.ask(method, self._path + query, sent)

    def value(self, query: str = "") -> object:
        answer = self.get(query)
        assert answer.status == 200 or (answer.status == 204 and not answer.body)
        return json.loads(answer.body) if answer.body else None


@pytest.fixture
def namespace(broker: RunningBroker) -> str:
    """Create a namespace with one topic, `topic`."""
    name = f"public/{uuid4().hex}"
    with RawClient(broker.port) as client:
        client.produce(f"persistent://{name}/topic")
    return name


def test_delayed_delivery_of_a_namespace(broker: RunningBroker, namespace: str) -> None:
    policy = Path(broker, f"namespaces/{namespace}/delayedDelivery")
    assert policy.value() is None
    assert policy.post(DELAYS) == 204 and policy.value() == DELAYS
    assert policy.post({"active": False}) == 204
    assert policy.value() == {"tickTime": 0, "active": False, "maxDeliveryDelayInMillis": 0}
    assert policy.post(text="") == 204 and policy.value() is None
    assert policy.post(DELAYS) == 204 and policy.delete() == 204 and policy.value() is None


@pytest.mark.parametrize("policy", ["deduplication", "delayedDelivery", "encryptionRequired"])
def test_a_namespace_that_is_not_there(broker: RunningBroker, policy: str) -> None:
    path = Path(broker, f"namespaces/public/missing/{policy}")
    assert path.get().status == path.post(True) == 404
    assert Path(broker, f"namespaces/pub%20lic/a/{policy}").get().status == 412


def test_policies_of_a_topic(broker: RunningBroker, namespace: str) -> None:
    topic = f"persistent/{namespace}/topic"
    deduplication = Path(broker, f"{topic}/deduplicationEnabled")
    assert deduplication.value() is None and deduplication.value("?applied=true") is False
    assert Path(broker, f"namespaces/{namespace}/deduplication").post(True) == 204
    assert deduplication.value("?applied=true") is True and deduplication.value() is None
    assert deduplication.post(False) == 204 and deduplication.value("?applied=true") is False
    assert deduplication.post(text="") == 204 and deduplication.value() is None
    assert deduplication.post(text="x") == 400
    delays = Path(broker, f"{topic}/delayedDelivery")
    assert delays.value() is None and delays.value("?applied=true") == DEFAULT_DELAYS
    assert delays.post(DELAYS) == 204 and delays.value() == DELAYS == delays.value("?applied=true")
    assert delays.delete() == 204 and delays.value() is None
    assert delays.get("?isGlobal=true").status == 400


def test_topics_have_no_policy_encryption_required(broker: RunningBroker, namespace: str) -> None:
    assert Path(broker, f"persistent/{namespace}/topic/encryptionRequired").get().status == 404


def with_effect(lines: Iterable[PolicyHandlers[Any]]) -> list[PolicyHandlers[Any]]:
    """Return the lines whose policies have an effect."""
    return [line for line in lines if not line.policy.declared.no_effect]


# Every policy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", with_effect(HANDLERS["namespace"]), ids=lambda line: line.path.segment
)
def test_a_policy_of_a_namespace(
    broker: RunningBroker, namespace: str, line: PolicyHandlers[Any]
) -> None:
    policy = Path(broker, f"namespaces/{namespace}/{line.path.segment}", line.path.verb)
    deleted_at = f"namespaces/{namespace}/{line.path.removed_at or line.path.segment}"
    unset, done = policy.value(), line.path.set_status
    assert unset == line.path.when_unset
    value = VALUES.get(line.policy.name, 5)
    assert policy.post(value) == done and policy.value() == value
    assert policy.post({"a": "b"} if isinstance(value, int | str | list) else "x") == 400
    assert policy.post(text="{") == 400 and policy.value() == value
    assert policy.set(text="").status == (204 if line.path.empty_deletes else 400)
    assert policy.post(value) == done
    assert Path(broker, deleted_at).delete() == (204 if line.path.removable else 405)
    assert policy.value() == (unset if line.path.removable else value)


@pytest.mark.parametrize("line", with_effect(HANDLERS["topic"]), ids=lambda line: line.path.segment)
def test_a_policy_of_a_topic(
    broker: RunningBroker, namespace: str, line: PolicyHandlers[Any]
) -> None:
    policy = Path(broker, f"persistent/{namespace}/topic/{line.path.segment}", line.path.verb)
    assert policy.get().status == line.path.unset_status
    unset, default = policy.value(), policy.value("?applied=true")
    assert default == line.policy.codec.encode(line.policy.default(Settings()))
    value = VALUES.get(line.policy.name, 5)
    if line.path.in_query:
        assert policy.set(text="", query=f"?{line.path.segment}={value}").status == 204
        assert policy.set(text="", query=f"?{line.path.segment}=soon").status == 404
        assert policy.set(text="", query=f"?{line.path.segment}=-1").status == 412
    else:
        assert policy.post(value) == 204
        assert policy.post({"a": "b"} if isinstance(value, int | str | list) else "x") == 400
    merge = line.policy.merge
    assert policy.value() == value
    assert policy.value("?applied=true") == (merge(default, value) if merge else value)
    assert policy.delete() == (204 if line.path.removable else 405)
    if line.path.removable:
        assert policy.value() == unset and policy.value("?applied=true") == default


def test_refusals_name_the_expected_values(broker: RunningBroker, namespace: str) -> None:
    retention = Path(broker, f"namespaces/{namespace}/retention")
    refused = retention.set({"retentionTimeInMinutes": "x"})
    assert refused.status == 400
    assert "retentionTimeInMinutes: expected a whole number, got 'x'" in refused.reason
    producers = Path(broker, f"namespaces/{namespace}/maxProducersPerTopic")
    refused = producers.set(-1)
    assert refused.status == 412 and "from 0 to 2147483647, got -1" in refused.reason
    size = Path(broker, f"persistent/{namespace}/topic/maxMessageSize").set(6 << 20)
    assert size.status == 412 and "maxMessageSize" in size.reason


# Quotas -------------------------------------------------------------------------------------------


def test_backlog_quotas(broker: RunningBroker, namespace: str) -> None:
    of_namespace = Path(broker, f"namespaces/{namespace}/backlogQuota")
    of_topic = Path(broker, f"persistent/{namespace}/topic/backlogQuota")
    shown = Path(broker, f"persistent/{namespace}/topic/backlogQuotaMap")
    size = {"limitSize": 7, "policy": "producer_exception"}
    age = {"limitTime": 9, "policy": "consumer_backlog_eviction"}
    assert of_namespace.post(size) == 204
    assert of_topic.set(age, query="?backlogQuotaType=message_age").status == 204
    age_set = {"message_age": {"limit": 0, "limitSize": 0, **age}}
    assert shown.value() == age_set
    size_set = {"destination_storage": {"limit": 7, "limitTime": 0, **size}}
    assert shown.value("?applied=true") == size_set | age_set
    assert Path(broker, f"namespaces/{namespace}/backlogQuotaMap").value() == size_set
    assert of_topic.set(text="", query="?backlogQuotaType=message_age").status == 204
    assert shown.value() == {}
    assert of_namespace.delete() == 204
    assert set(_object(shown.value("?applied=true"))) == {"destination_storage", "message_age"}
    assert of_namespace.post(text="") == 400
    assert of_namespace.set(age, query="?backlogQuotaType=other").status == 404


@pytest.mark.parametrize(
    ("minutes", "megabytes", "kind", "quota", "of_namespace", "of_topic"),
    [
        (5, 1, "destination_storage", {"limitSize": 1 << 20}, 412, 412),
        (5, 1, "destination_storage", {"limitSize": (1 << 20) - 1}, 204, 204),
        (-1, 1, "destination_storage", {"limitSize": 1 << 20}, 204, 412),
        (5, 1, "message_age", {"limitTime": 300}, 412, 412),
        (5, -1, "message_age", {"limitTime": 300}, 204, 412),
        (5, 1, "message_age", {"limitTime": 299}, 204, 204),
        (-1, -1, "message_age", {"limitTime": 300}, 204, 204),
        (0, 0, "destination_storage", {"limitSize": 1 << 40}, 204, 204),
    ],
)
def test_more_is_retained_than_the_backlog_may_be(
    broker: RunningBroker, namespace: str, minutes: int, megabytes: int, kind: str,
    quota: dict[str, int], of_namespace: int, of_topic: int,
) -> None:  # fmt: skip
    retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    value = {**quota, "policy": "producer_exception"}
    for subject, expected in (
        (f"persistent/{namespace}/topic", of_topic),
        (f"namespaces/{namespace}", of_namespace),
    ):
        retained, quotas = (
            Path(broker, f"{subject}/{policy}") for policy in ("retention", "backlogQuota")
        )
        query = f"?backlogQuotaType={kind}"
        assert retained.post(retention) == 204
        assert quotas.set(value, query=query).status == expected
        assert retained.delete() == 204
        assert quotas.set(value, query=query).status == 204
        assert retained.post(retention) == expected


# Rates of one subscription, everything at once, and why -------------------------------------------


def test_the_dispatch_rate_of_one_subscription(broker: RunningBroker, namespace: str) -> None:
    topic = f"persistent/{namespace}/topic"
    one, other = (Path(broker, f"{topic}/{name}/dispatchRate") for name in ("a%20b", "other"))
    of_all = Path(broker, f"{topic}/subscriptionDispatchRate")
    default = of_all.value("?applied=true")
    assert one.value() is None and one.value("?applied=true") == default
    assert of_all.post(RATE) == 204 and one.value("?applied=true") == RATE
    slower = RATE | {"dispatchThrottlingRateInMsg": 1}
    assert one.post(slower) == 204 and one.value() == slower == one.value("?applied=true")
    assert other.post(RATE) == 204 and other.delete() == 204 and other.value() is None
    assert of_all.value() == RATE and one.value() == slower
    assert one.post(text="") == 204 and one.value() is None
    assert one.post("fast") == 400


def test_a_topic_that_unsays_everything(broker: RunningBroker, namespace: str) -> None:
    topic = f"persistent/{namespace}/topic"
    producers = Path(broker, f"{topic}/maxProducers")
    rate = Path(broker, f"{topic}/sub/dispatchRate")
    assert producers.post(5) == rate.post(RATE) == 204
    assert Path(broker, f"{topic}/policies").delete() == 204
    assert producers.value() is None and rate.value() is None


def test_where_it_comes_from(broker: RunningBroker, namespace: str) -> None:
    assert Path(broker, f"namespaces/{namespace}/maxProducersPerTopic").post(5) == 204
    assert Path(broker, f"persistent/{namespace}/topic/messageTTL").set(
        text="", query="?messageTTL=9"
    )
    explained = _object(Path(broker, f"persistent/{namespace}/topic/policies/explain").value())
    assert explained["max_producers"] == {
        "value": 5,
        "origin": "namespace",
        "source": f"namespace {namespace}",
    }
    assert explained["message_ttl"]["source"] == f"topic persistent://{namespace}/topic"
    assert explained["max_consumers"]["source"] == "settings maxConsumersPerTopic"
    above = _object(Path(broker, f"namespaces/{namespace}/policies/explain").value())
    assert above["message_ttl"]["origin"] == "broker"


def _object(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value


# Topics without policies --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["deduplicationEnabled", "delayedDelivery"])
def test_topics_that_have_no_policies(broker: RunningBroker, namespace: str, policy: str) -> None:
    missing = Path(broker, f"persistent/{namespace}/missing/{policy}")
    assert missing.get().status == missing.post(True) == missing.delete() == 404
    partition = Path(broker, f"persistent/{namespace}/topic-partition-0/{policy}")
    assert partition.get().status == partition.post(True) == partition.delete() == 412


def test_a_204_is_enforced_and_survives(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    topic = f"persistent://public/default/{uuid4().hex}"
    path = f"{topic.replace('://', '/')}/deduplicationEnabled"
    with RawClient(broker.port) as client:
        client.produce(topic, producer_name="raw")
        assert Path(broker, path).post(True) == 204
        assert [client.publish(0, b"x").entryId for _ in range(2)] == [0, (1 << 64) - 1]
    broker.kill()
    broker.start()
    assert Path(broker, path).value() is True
    with RawClient(broker.port) as client:
        success = client.produce(topic, producer_name="raw")
        assert isinstance(success, pb.CommandProducerSuccess) and success.last_sequence_id == 0
        assert client.publish(0, b"x").entryId == (1 << 64) - 1


def test_a_kill_leaves_the_last_that_was_answered_or_a_later_one(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker()
    path = Path(broker, "namespaces/public/default/maxProducersPerTopic")
    answered, enough = [0], threading.Event()

    def set_more_and_more() -> None:
        with suppress(OSError, http.client.HTTPException):  # the broker is killed
            while path.post(answered[0] + 1) == 204:
                answered[0] += 1
                if answered[0] == 20:
                    enough.set()

    setting = threading.Thread(target=set_more_and_more)
    setting.start()
    assert enough.wait(60)
    broker.kill()
    setting.join()
    broker.start()
    assert path.value() in (answered[0], answered[0] + 1)
    explained = _object(Path(broker, "namespaces/public/default/policies/explain").value())
    assert explained["max_producers"]["value"] == path.value()
