"""Authentication on both ports, with the official client."""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

import credentials
from credentials import OTHER_PASSWORD, PASSWORD, basic, token
from issuer import SECRET_OF_CLIENT, Issuer
from raw_client import Kind, RawClient
from running_broker import RunningBroker

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


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


def of_issuer(issuer: Issuer, **others: str) -> dict[str, str]:
    """Settings of a broker that accepts tokens of the issuer."""
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": "oidc",
        "openIDAllowedTokenIssuers": issuer.url,
        "openIDAllowedAudiences": "broker",
        "openIDRequireIssuersUseHttps": "false",
        "openIDKeyIdCacheMissRefreshSeconds": "0",
        **others,
    }


def oauth2(issuer: Issuer, folder: Path) -> Any:
    """What the official client authenticates with: it asks the issuer for a token."""
    key_file = folder / "key.json"
    key_file.write_text(json.dumps({"client_id": "client", "client_secret": SECRET_OF_CLIENT}))
    parameters = {
        "type": "client_credentials",
        "issuer_url": issuer.url,
        "private_key": f"file://{key_file}",
        "audience": "broker",
    }
    return pulsar.AuthenticationOauth2(json.dumps(parameters))


@WORKERS
def test_official_clients_connect_with_tokens_of_an_issuer_whose_keys_rotate(
    make_broker: MakeBroker, tmp_path: Path, issuer: Issuer, workers: str
) -> None:
    broker = make_broker(**of_issuer(issuer), magnetarWorkers=workers)
    publishes(broker, oauth2(issuer, tmp_path))
    publishes(broker, pulsar.AuthenticationToken(issuer.token()))
    old = issuer.token()
    issuer.rotate("second")
    publishes(broker, oauth2(issuer, tmp_path))
    bearer = f"Bearer {issuer.token()}"
    assert ask(broker, Authorization=bearer)[0] == 200
    for wrong in (old, issuer.token(aud="other"), issuer.token(iss="http://127.0.0.1:1")):
        assert ask(broker, Authorization=f"Bearer {wrong}")[0] == 401


def test_tokens_of_a_key_and_of_an_issuer_side_by_side(
    make_broker: MakeBroker, tmp_path: Path, issuer: Issuer
) -> None:
    settings = {**credentials.settings(tmp_path), **of_issuer(issuer)}
    broker = make_broker(**settings | {"authenticationProviders": "token,oidc,basic"})
    for one in (token("alice"), issuer.token()):
        assert ask(broker, Authorization=f"Bearer {one}")[0] == 200
    assert ask(broker, Authorization=basic("alice", PASSWORD))[0] == 200
    issuer.close()
    assert ask(broker, Authorization=f"Bearer {token('alice')}")[0] == 200


@WORKERS
def test_a_client_with_short_tokens_renews_them_and_loses_nothing(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    """The official client answers every AUTH_CHALLENGE with what its supplier returns."""
    broker = make_broker(
        **credentials.settings(tmp_path, authenticationRefreshCheckSeconds="1"),
        magnetarWorkers=workers,
    )
    supplied = []

    def supply() -> str:
        supplied.append(token("alice", 2))
        return supplied[-1]

    client = pulsar.Client(broker.service_url, authentication=pulsar.AuthenticationToken(supply))
    consumer = client.subscribe(TOPIC, "subscription")
    producer = client.create_producer(TOPIC)
    connects, number = len(supplied), 0
    while len(supplied) < connects + 4:
        producer.send(str(number).encode())
        assert consumer.receive(60_000).data() == str(number).encode()
        number += 1
    client.close()
    assert "did not renew" not in broker.log and "cannot renew" not in broker.log


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


@WORKERS
def test_outcomes_are_counted_and_metrics_are_open_where_they_may_be(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    settings = credentials.settings(tmp_path, authenticateMetricsEndpoint="false")
    broker = make_broker(**settings, magnetarWorkers=workers)
    bearer = f"Bearer {token('alice')}"
    assert ask(broker, Authorization=bearer)[0] == 200
    assert ask(broker, Authorization="Bearer x", X_Pulsar_Auth_Method_Name="token")[0] == 401
    with urllib.request.urlopen(f"{broker.http_url}/metrics") as response:
        page = response.read().decode()
    provider = 'provider_name="AuthenticationProviderToken",auth_method="token"'
    (accepted,) = re.findall(
        rf"^pulsar_authentication_success_total.*{provider}.* (\S+)$", page, re.M
    )
    (refused,) = re.findall(
        rf'^pulsar_authentication_failures_total.*{provider},reason="INVALID_TOKEN".* (\S+)$',
        page,
        re.M,
    )
    assert (float(accepted), float(refused)) == (1, 1)


def test_the_audit_log_has_the_reason_that_a_client_is_not_told(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    status, answer = ask(broker, Authorization="Bearer x")
    assert (status, answer["reason"]) == (401, "Authentication required")
    (line,) = [line for line in broker.log.splitlines() if "magnetar.audit" in line]
    written = json.loads(line[line.index("{") :])
    assert written["status"] == 401 and "anonymousUserRole is unset" in written["reason"]
    assert "credentials are refused" not in broker.log


@WORKERS
def test_metrics_require_a_role_where_they_must(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(
        **credentials.settings(tmp_path, authenticateMetricsEndpoint="true"),
        magnetarWorkers=workers,
    )
    for path in ("/metrics", "/metrics/"):
        assert ask(broker, path)[0] == 401
        request = urllib.request.Request(
            f"{broker.http_url}{path}", headers={"Authorization": f"Bearer {token('alice')}"}
        )
        with urllib.request.urlopen(request) as response:
            assert response.status == 200


def test_every_request_of_a_connection_proves_its_role(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(**credentials.settings(tmp_path))
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port)
    statuses = []
    for header in (f"Bearer {token('alice')}", None, "Bearer x", f"Bearer {token('alice')}"):
        headers = {} if header is None else {"Authorization": header}
        connection.request("GET", "/admin/v2/clusters", headers=headers)
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()
    assert statuses == [200, 401, 401, 200]


@WORKERS
def test_the_broker_itself_proves_no_role(
    make_broker: MakeBroker, tmp_path: Path, workers: str
) -> None:
    broker = make_broker(**credentials.settings(tmp_path), magnetarWorkers=workers)
    bearer = f"Bearer {token('alice')}"
    request = urllib.request.Request(
        f"{broker.http_url}/admin/v2/brokers/health", headers={"Authorization": bearer}
    )
    with urllib.request.urlopen(request) as response:
        assert (response.status, response.read()) == (200, b"ok")
