"""Authentication on both ports, with the official client."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

import credentials
from credentials import OTHER_PASSWORD, PASSWORD, basic, token
from raw_client import Kind, RawClient
from running_broker import RunningBroker

pytestmark = pytest.mark.daemon
MakeBroker = Callable[..., RunningBroker]
TOPIC = "persistent://public/default/authenticated"
WORKERS = pytest.mark.parametrize("workers", ["1", "3"])


def ask(broker: RunningBroker, path: str = "/admin/v2/tenants", **headers: str) -> tuple[int, Any]:
    """Status and JSON of a GET."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{broker.http_url}{path}", headers=named)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def publishes(broker: RunningBroker, authentication: Any, topic: str = TOPIC) -> None:
    """Publish and receive a message with the official client."""
    client = pulsar.Client(
        broker.service_url, authentication=authentication, operation_timeout_seconds=60
    )
    try:
        consumer = client.subscribe(topic, "subscription")
        client.create_producer(topic).send(b"here")
        assert consumer.receive(60_000).data() == b"here"
        consumer.close()
    finally:
        client.close()


@WORKERS
def test_official_clients_connect_with_tokens_and_passwords(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    publishes(broker, pulsar.AuthenticationToken(token("alice")))
    publishes(broker, pulsar.AuthenticationBasic("alice", PASSWORD))
    publishes(broker, pulsar.AuthenticationBasic("bob", OTHER_PASSWORD))
    for wrong in (
        pulsar.AuthenticationToken(token("alice", -60)),
        pulsar.AuthenticationBasic("a", "b"),
    ):
        # The client tries again until its operation has timed out.
        client = pulsar.Client(
            broker.service_url, authentication=wrong, operation_timeout_seconds=1
        )
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(TOPIC)
        client.close()


@WORKERS
def test_requests_over_http_need_a_role(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    bearer = f"Bearer {token('alice')}"
    assert ask(broker, Authorization=bearer)[0] == 200
    assert ask(broker, Authorization=basic("alice", PASSWORD))[0] == 200
    assert ask(broker)[0] == 401
    assert ask(broker, Authorization=basic("alice", "x"))[0] == 401
    assert ask(broker, Authorization=f"Bearer {token('alice', -60)}")[0] == 401
    assert ask(broker, "/admin/v2/no/such/path")[0] == 401
    assert ask(broker, Authorization=bearer, X_Pulsar_Auth_Method_Name="basic")[0] == 401


def test_a_refused_client_gets_one_error_and_nothing_behind_it_is_handled(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    with RawClient(broker.port, handshake=False) as client:
        from magnetar_proto import PulsarApi_pb2 as pb
        from magnetar_proto.commands import encode

        connect = pb.CommandConnect(client_version="x", auth_method_name="token", auth_data=b"x")
        ping = pb.CommandPing()
        client.send_bytes(encode(connect) + encode(ping))
        (only,) = client.await_close()
    assert only.kind == Kind.ERROR
    assert only.command.error == pb.AuthenticationError
    assert only.command.message == "Failed to authenticate"
