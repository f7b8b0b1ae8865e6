"""A grant and a revocation are in force on connected clients when they are answered."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

import credentials
from running_broker import RunningBroker

NAMESPACE = "public/default"
TOPICS = [f"persistent://{NAMESPACE}/revoked-{number}" for number in range(6)]
"""Several, so that every worker has some."""


class Broker:
    """A broker with authorization, and requests of its super-user."""

    def __init__(self, running: RunningBroker) -> None:
        self.running = running

    def ask(self, method: str, path: str, body: Any = None) -> int:
        """The status of a request of the super-user."""
        request = urllib.request.Request(
            f"{self.running.http_url}/admin/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {credentials.token('root')}",
                "Content-Type": "application/json",
            },
            method=method,
        )
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)

    def grant(self, *actions: str) -> None:
        assert self.ask("POST", f"namespaces/{NAMESPACE}/permissions/app", actions) == 204

    def revoke(self) -> None:
        assert self.ask("DELETE", f"namespaces/{NAMESPACE}/permissions/app") == 204

    def connect(self) -> pulsar.Client:
        return pulsar.Client(
            self.running.service_url,
            authentication=pulsar.AuthenticationToken(credentials.token("app")),
            operation_timeout_seconds=60,
        )

    def counts(self, topic: str) -> tuple[int, int]:
        """The producers and the consumers of a topic."""
        path = f"{topic.replace('://', '/')}/stats"
        request = urllib.request.Request(
            f"{self.running.http_url}/admin/v2/{path}",
            headers={"Authorization": f"Bearer {credentials.token('root')}"},
        )
        with urllib.request.urlopen(request) as answer:
            stats = json.load(answer)
        consumers = [len(one["consumers"]) for one in stats["subscriptions"].values()]
        return len(stats["publishers"]), sum(consumers)


@pytest.fixture(params=["1", "3"])
def broker(
    request: pytest.FixtureRequest, make_broker: Callable[..., RunningBroker], tmp_path: Path
) -> Broker:
    settings = credentials.settings(
        tmp_path, authorizationEnabled="true", superUserRoles="root", magnetarWorkers=request.param
    )
    return Broker(make_broker(**settings))


def test_what_is_open_on_any_worker_is_closed_when_a_revocation_is_answered(broker: Broker) -> None:
    client = broker.connect()
    try:
        with pytest.raises(pulsar.AuthorizationError):
            client.create_producer(TOPICS[0])
        broker.grant("produce", "consume")
        producers = [client.create_producer(topic) for topic in TOPICS]
        consumers = [client.subscribe(topic, "sub") for topic in TOPICS]
        for producer, consumer in zip(producers, consumers, strict=True):
            producer.send(b"before")
            consumer.acknowledge(consumer.receive(60_000))
        broker.grant("produce")
        assert [broker.counts(topic) for topic in TOPICS] == [(1, 0)] * len(TOPICS)
        for producer in producers:
            producer.send(b"between")
        broker.revoke()
        assert [broker.counts(topic) for topic in TOPICS] == [(0, 0)] * len(TOPICS)
        for topic in TOPICS:
            with pytest.raises(pulsar.AuthorizationError):
                client.create_producer(topic)
            with pytest.raises(pulsar.AuthorizationError):
                client.subscribe(topic, "other")
        broker.grant("produce", "consume")
        for topic in TOPICS:
            consumer = client.subscribe(topic, "third")
            client.create_producer(topic).send(b"after")
            assert consumer.receive(60_000).data() == b"after"
    finally:
        client.close()


def test_a_role_that_is_no_super_user_any_more_loses_what_is_open(broker: Broker) -> None:
    path = "brokers/configuration/superUserRoles"
    assert broker.ask("POST", f"{path}/root,app") == 200
    client = broker.connect()
    try:
        kept = [client.create_producer(topic) for topic in TOPICS]
        assert [broker.counts(topic) for topic in TOPICS] == [(1, 0)] * len(TOPICS)
        assert broker.ask("POST", f"{path}/root") == 200
        assert [broker.counts(topic) for topic in TOPICS] == [(0, 0)] * len(TOPICS)
        assert len(kept) == len(TOPICS)
    finally:
        client.close()
