"""Policies over HTTP, as Pulsar 4.2.4 answers."""

import http.client
import json
from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

import pytest

from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

DELAYS = {"tickTime": 1500, "active": True, "maxDeliveryDelayInMillis": 1000}
DEFAULT_DELAYS = {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 0}


class Answer(NamedTuple):
    status: int
    body: bytes


class Path:
    """One policy of one namespace or topic."""

    def __init__(self, broker: RunningBroker, path: str) -> None:
        self._broker = broker
        self._path = f"/admin/v2/{path}"

    def get(self, query: str = "") -> Answer:
        return self._ask("GET", query)

    def post(self, value: object = None, text: str | None = None) -> int:
        body = text if text is not None else json.dumps(value)
        return self._ask("POST", body=body).status

    def delete(self) -> int:
        return self._ask("DELETE").status

    def _ask(self, method: str, query: str = "", body: str | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._broker.http_port)
        try:
            connection.request(method, self._path + query, body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read())
        finally:
            connection.close()

    def says(self, query: str = "") -> object:
        answer = self.get(query)
        assert answer.status == 200
        return json.loads(answer.body) if answer.body else None


@pytest.fixture
def namespace(broker: RunningBroker) -> str:
    """A namespace with one topic, `topic`."""
    name = f"public/{uuid4().hex}"
    with RawClient(broker.port) as client:
        client.produce(f"persistent://{name}/topic")
    return name


def test_deduplication_of_a_namespace(broker: RunningBroker, namespace: str) -> None:
    policy = Path(broker, f"namespaces/{namespace}/deduplication")
    assert policy.says() is None
    assert policy.post(True) == 204 and policy.says() is True
    assert policy.post(text="") == 400 and policy.post(text="yes") == 400 and policy.post({}) == 400
    assert policy.says() is True
    assert policy.post(False) == 204 and policy.says() is False
    assert policy.delete() == 204 and policy.says() is None


def test_delayed_delivery_of_a_namespace(broker: RunningBroker, namespace: str) -> None:
    policy = Path(broker, f"namespaces/{namespace}/delayedDelivery")
    assert policy.says() is None
    assert policy.post(DELAYS) == 204 and policy.says() == DELAYS
    assert policy.post({"active": False}) == 204
    assert policy.says() == {"tickTime": 0, "active": False, "maxDeliveryDelayInMillis": 0}
    assert policy.post(text="") == 204 and policy.says() is None
    assert policy.post(DELAYS) == 204 and policy.delete() == 204 and policy.says() is None


def test_encryption_that_a_namespace_requires(broker: RunningBroker, namespace: str) -> None:
    policy = Path(broker, f"namespaces/{namespace}/encryptionRequired")
    assert policy.says() is False
    assert policy.post(True) == 204 and policy.says() is True
    assert policy.post(text="") == 400 and policy.delete() == 405
    assert policy.post(False) == 204 and policy.says() is False


@pytest.mark.parametrize("policy", ["deduplication", "delayedDelivery", "encryptionRequired"])
def test_a_namespace_that_is_not_there(broker: RunningBroker, policy: str) -> None:
    path = Path(broker, f"namespaces/public/missing/{policy}")
    assert path.get().status == path.post(True) == 404
    assert Path(broker, f"namespaces/pub%20lic/a/{policy}").get().status == 412


def test_policies_of_a_topic(broker: RunningBroker, namespace: str) -> None:
    topic = f"persistent/{namespace}/topic"
    deduplication = Path(broker, f"{topic}/deduplicationEnabled")
    assert deduplication.says() is None and deduplication.says("?applied=true") is False
    assert Path(broker, f"namespaces/{namespace}/deduplication").post(True) == 204
    assert deduplication.says("?applied=true") is True and deduplication.says() is None
    assert deduplication.post(False) == 204 and deduplication.says("?applied=true") is False
    assert deduplication.post(text="") == 204 and deduplication.says() is None
    assert deduplication.post(text="x") == 400
    delays = Path(broker, f"{topic}/delayedDelivery")
    assert delays.says() is None and delays.says("?applied=true") == DEFAULT_DELAYS
    assert delays.post(DELAYS) == 204 and delays.says() == DELAYS == delays.says("?applied=true")
    assert delays.delete() == 204 and delays.says() is None
    assert delays.get("?isGlobal=true").status == 400


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
    assert Path(broker, path).says() is True
    with RawClient(broker.port) as client:
        success = client.produce(topic, producer_name="raw")
        assert isinstance(success, pb.CommandProducerSuccess) and success.last_sequence_id == 0
        assert client.publish(0, b"x").entryId == (1 << 64) - 1
